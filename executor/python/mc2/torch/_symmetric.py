"""PyTorch's own fused operators on symmetric memory: one more variant to race, of which no model knows anything."""

from __future__ import annotations

import functools
import importlib
import typing
import warnings

import torch

from ._groups import Group

NAME = "torch_symm_mem"
_Operator = typing.Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@functools.lru_cache(maxsize=None)
def operator(kind: str, group: Group) -> _Operator | None:
    """The operator, or None where this PyTorch, device or group has none. From PyTorch 2.5 on, NCCL groups."""
    if kind not in ("all_gather_matmul", "matmul_reduce_scatter") or group.backend == "gloo" or not torch.cuda.is_available():
        return None
    try:
        symmetric = importlib.import_module("torch.distributed._symmetric_memory")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer versions enable every group and say so
            symmetric.enable_symm_mem_for_group(group.name)
        operators = torch.ops.symm_mem
        gather, scatter = operators.fused_all_gather_matmul, operators.fused_matmul_reduce_scatter
    except (ImportError, AttributeError, RuntimeError):
        return None
    if kind == "all_gather_matmul":
        return lambda x, w: typing.cast(torch.Tensor, gather(x, [w], 0, group.name, return_A=False)[1][0])
    return lambda x, w: typing.cast(torch.Tensor, scatter(x, w, "sum", 0, group.name))
