"""Tests mc2.torch._hosts: which hosts a group's ranks are on, and where the ranks meet."""

import os
import socket
import unittest
from unittest import mock

try:
    import torch
except ImportError:  # python3-torch
    torch = None

if torch:
    from mc2.torch import _groups, _hosts, _native


def group(members, rank, local_world_size=4, world_size=8, local_rank=None):
    """Returns the rank's placement in a group, with the variables that torchrun would set. Ranks are the world's."""
    made = _groups.Group(str(members), tuple(members), members.index(rank), len(members), "nccl")
    local_rank = rank % 4 if local_rank is None else local_rank
    variables = {"LOCAL_WORLD_SIZE": str(local_world_size), "LOCAL_RANK": str(local_rank)}
    ranks = {
        "get_process_group_ranks": list,
        "get_world_size": lambda: world_size,
        "get_rank": lambda: rank,
    }
    with mock.patch.dict(os.environ, variables), mock.patch.multiple(_hosts.dist, **ranks):
        _hosts.forget()
        return _hosts.placement(made)


@unittest.skipUnless(torch, "needs PyTorch")
class PlacementTest(unittest.TestCase):
    def test_ranks_are_numbered_host_by_host(self):
        self.assertEqual(group(range(8), 5), _hosts.Placement(4, 1, 4, True))

    def test_a_group_within_a_host_spans_none(self):
        self.assertEqual(group([4, 6], 6), _hosts.Placement(4, 1, 2, False))

    def test_a_group_may_have_some_of_each_host(self):
        self.assertEqual(group([0, 2, 4, 6], 4), _hosts.Placement(4, 0, 2, True))

    def test_hosts_may_have_different_numbers_of_ranks(self):
        on_four = {"local_world_size": 4, "world_size": 6}
        self.assertEqual(group([2, 3, 4, 5], 4, **on_four, local_rank=2), _hosts.Placement(2, 2, 4, False))
        self.assertTrue(group([1, 2], 2, **on_four, local_rank=0).spans_hosts)
        self.assertTrue(group([1, 2], 1, local_world_size=2, world_size=6, local_rank=1).spans_hosts)

    def test_without_torchrun_there_is_one_host(self):
        for text in ("", "0", "two"):
            with self.subTest(text):
                place = group(range(4), 3, local_world_size=text, world_size=4)
                self.assertEqual(place, _hosts.Placement(0, 3, 4, False))

    def test_what_a_world_cannot_be_is_named(self):
        fault = _hosts.placement_fault
        self.assertEqual(fault([(0, "a"), (0, "a"), (4, "b"), (4, "b")]), "")
        self.assertEqual(fault([(0, "a"), (4, "a")]), "")  # two containers on one machine
        self.assertIn("ranks 0 and 1 are on several machines", fault([(0, "a"), (0, "b")]))
        self.assertIn("not as many", fault([(0, "a"), (4, "b"), (4, "b")]))
        self.assertIn("order of their hosts", fault([(4, "b"), (0, "a")]))
        self.assertIn("rank 1: no GPU", _native.common_fault([((0, "a"), "", "plain"), ((4, "b"), "no GPU", "plain")]))


@unittest.skipUnless(torch, "needs PyTorch")
class MeetingTest(unittest.TestCase):
    def place(self, rank=1, **variables):
        with mock.patch.dict(os.environ, variables), mock.patch.object(_hosts.dist, "get_rank", lambda: rank):
            return _hosts.meeting_place()

    def test_the_place_can_be_listened_at(self):
        place, fault = self.place(MASTER_ADDR="localhost", MASTER_PORT="29500")
        host, _, port = place.rpartition(":")
        self.assertEqual((host, fault), ("localhost", ""))  # not 127.0.0.1, which is each host itself
        with socket.create_server(("", int(port))):
            pass

    def test_rank_0_takes_the_given_place(self):
        given = {"MC2_RANK_ZERO": "host-a:29600", "MASTER_ADDR": "localhost"}
        self.assertEqual(self.place(rank=0, **given), ("host-a:29600", ""))
        self.assertNotEqual(self.place(rank=4, **given)[0], "host-a:29600")

    def test_a_name_without_an_address_is_an_answer(self):
        place, fault = self.place(MASTER_ADDR="no-such-host.invalid")
        self.assertEqual(place, "")
        self.assertRegex(fault, "rank 1 finds no address for other hosts: .*; set MASTER_ADDR")


if __name__ == "__main__":
    unittest.main()
