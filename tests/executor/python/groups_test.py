"""Tests how mc2.torch lives with process groups that come and go. Jobs of 2 processes run the tests in every rank."""

import gc
import itertools
import os
import socket
import unittest
import unittest.mock
import warnings
import weakref

from torch_test import RANK, RANKS, Jobs, run_ranks, starts_jobs, torch
from values_test import Refusals

if RANK >= 0:
    import torch.distributed as dist

    import mc2.torch
    from mc2.torch import _groups, _plans, cpu, functional

X, W = (torch.ones(96, 8), torch.ones(8, 4)) if RANK >= 0 else (None, None)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def file_count():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


@unittest.skipIf(RANK < 0, "runs in the ranks of a job")
class RanksTest(Refusals):
    def setUp(self):
        mc2.torch.forget()
        warnings.simplefilter("ignore")

    def use(self, group=None):
        """Calls all that keeps something by group."""
        self.assertTrue((mc2.torch.matmul_all_reduce(X, W, group) == 8 * RANKS).all())
        self.assertEqual(float(mc2.torch.cpu_all_reduce(torch.ones(3), group)[0]), RANKS)
        mc2.torch.tune(
            "matmul_all_reduce", m=96, n=4, k=8, dtype=torch.float32, group=group, rounds=3, race_rounds=3, store=""
        )
        return _groups.resolve(group)

    def destroy(self, group):
        """Destroys a group, and makes a call of another one, whose shape is known after the first time."""
        dist.destroy_process_group(group)
        mc2.torch.matmul_all_reduce(X, W)

    def assert_nothing_is_kept(self, group):
        for kept in _groups._tables:
            self.assertFalse([key for key in kept if _groups._is_of(key, group)])
        self.assertNotIn(group.handle, _groups._by_handle)
        self.assertNotIn(group.name, _groups._by_name)

    def test_destroyed_groups_leave_no_files(self):
        def live():
            group = dist.new_group()
            self.use(group)
            self.destroy(group)

        live()
        before = file_count()
        for _ in range(4):
            live()
        self.assertLessEqual(file_count(), before)

    def test_a_destroyed_group_goes_with_its_last_user(self):
        group = dist.new_group()
        self.use(group)
        gone = weakref.ref(group)
        self.destroy(group)
        del group
        gc.collect()
        self.assertIsNone(gone())

    def test_nothing_is_kept_of_a_group_that_the_program_keeps(self):
        group = dist.new_group()
        known = self.use(group)
        self.destroy(group)
        self.assert_nothing_is_kept(known)
        self.refused("invalid_spec", "group", mc2.torch.matmul_all_reduce, X, W, group)
        self.refused("invalid_spec", "group", mc2.torch.cpu_all_reduce, X, group)

    def test_other_groups_keep_what_they_have(self):
        group, other = dist.new_group(), dist.new_group()
        kept = self.use(other)
        self.use(group)
        self.destroy(group)
        for table in (_plans._plans, functional._checked, cpu._opened):
            self.assertTrue([key for key in table if _groups._is_of(key, kept)])
        self.use(other)

    def test_a_later_group_with_the_name_has_nothing_of_the_earlier_one(self):
        """From PyTorch 2 on a group may have the name of a destroyed one. Before, groups have no names."""
        first = dist.new_group()
        with unittest.mock.patch.object(_groups, "_numbers", itertools.repeat(0)):
            of_first = self.use(first)
            opened = cpu._opened[of_first]
            dist.destroy_process_group(first)
            second = dist.new_group()
            of_second = _groups.resolve(second)
            if not hasattr(second, "group_name"):
                self.assertEqual(of_first.name, of_second.name)
            self.assertFalse(_plans._plans)
            self.use(second)
            self.assertIsNot(cpu._opened[of_second], opened)
            self.assertIs(_groups.by_name(of_second.name).handle, second)

    def test_the_default_group_may_be_made_anew(self):
        self.use()
        gone, port = weakref.ref(dist.group.WORLD), [free_port()]
        dist.broadcast_object_list(port)
        dist.destroy_process_group()
        gc.collect()
        self.assertIsNone(gone())
        self.assertFalse(_groups._by_handle)
        self.refused("invalid_spec", "group", mc2.torch.matmul_all_reduce, X, W)
        meeting = f"tcp://127.0.0.1:{port[0]}?use_libuv=0"  # Debian builds PyTorch without libuv
        dist.init_process_group("gloo", init_method=meeting, rank=RANK, world_size=RANKS)
        self.use()


@starts_jobs
class JobsTest(Jobs):
    SCRIPT = __file__

    def test_two_ranks(self):
        self.run_job(2)


if __name__ == "__main__":
    run_ranks()
