"""Collectives of one rank."""

import torch


class group:
    class WORLD:
        group_name = "stub"


class ReduceOp:
    MAX = "max"


def init_process_group(backend, rank, world_size, device_id):
    assert (backend, rank, world_size) == ("nccl", 0, 1)


def all_reduce(tensor, op=None):
    pass


def reduce_scatter_tensor(output, tensor):
    torch.copy(output, lambda: tensor)


def all_gather_into_tensor(output, tensor):
    torch.copy(output, lambda: tensor)
