"""mc2.torch._hosts: which hosts a group's ranks are on, and where they meet."""

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
    """What torchrun would tell the rank: its group by the world's numbers."""
    made = _groups.Group(str(members), tuple(members), members.index(rank), len(members), "nccl")
    variables = {
        "LOCAL_WORLD_SIZE": str(local_world_size),
        "LOCAL_RANK": str(rank % 4 if local_rank is None else local_rank),
    }
    ranks = {"get_process_group_ranks": list, "get_world_size": lambda: world_size, "get_rank": lambda: rank}
    with mock.patch.dict(os.environ, variables), mock.patch.multiple(_hosts.dist, **ranks):
        _hosts.forget()
        return _hosts.placement(made), _hosts.fault(made)


@unittest.skipUnless(torch, "needs PyTorch")
class PlacementTest(unittest.TestCase):
    def test_ranks_are_numbered_host_by_host(self):
        place, fault = group(range(8), 5)
        self.assertEqual((place.hosts, place.local_rank, place.local_size), ((0,) * 4 + (1,) * 4, 1, 4))
        self.assertTrue(place.spans_hosts)
        self.assertEqual(fault, "")

    def test_a_group_within_a_host_spans_none(self):
        place, fault = group([4, 6], 6)
        self.assertEqual((place.local_rank, place.local_size, place.spans_hosts), (1, 2, False))
        self.assertEqual(fault, "")

    def test_a_group_may_have_some_of_each_host(self):
        place, fault = group([0, 2, 4, 6], 4)
        self.assertEqual((place.hosts, place.local_rank, place.local_size), ((0, 0, 1, 1), 0, 2))
        self.assertEqual(fault, "")

    def test_without_torchrun_there_is_one_host(self):
        for text in ("", "0", "two"):
            place, fault = group(range(4), 3, local_world_size=text, world_size=4)
            with self.subTest(text):
                self.assertEqual((place.hosts, place.local_rank), ((0,) * 4, 3))
                self.assertEqual(fault, "")

    def test_what_a_world_cannot_be_is_named(self):
        self.assertIn("not as many", group([0, 4, 5], 4)[1])
        self.assertIn("order of their hosts", group([4, 0], 4)[1])
        self.assertIn("LOCAL_RANK 3; ranks must be numbered", group(range(8), 5, local_rank=3)[1])

    def test_ranks_of_one_host_are_on_one_machine(self):
        self.assertEqual(_hosts.placement_fault([(0, "a"), (0, "a"), (1, "b"), (1, "b")]), "")
        self.assertEqual(_hosts.placement_fault([(0, "a"), (1, "a")]), "")  # two containers of a machine
        self.assertIn("ranks 0 and 1 are on several machines", _hosts.placement_fault([(0, "a"), (0, "b")]))
        self.assertIn("rank 1: no GPU", _native.common_fault([((0, "a"), "", "plain"), ((1, "b"), "no GPU", "plain")]))


@unittest.skipUnless(torch, "needs PyTorch")
class MeetingTest(unittest.TestCase):
    def test_the_place_can_be_listened_at(self):
        with mock.patch.dict(os.environ, {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}):
            host, _, port = _hosts.meeting_address().rpartition(":")
        self.assertEqual(host, "localhost")  # as the launcher has it: 127.0.0.1 is another one elsewhere
        with socket.create_server(("", int(port))):
            pass


if __name__ == "__main__":
    unittest.main()
