"""PyTorch's own fused operators on symmetric memory: a further variant to race, which has no cost model."""

from __future__ import annotations

import functools
import importlib
import typing
import warnings

import torch

from . import _hosts
from ._groups import Group, cached

NAME = "torch_symm_mem"
_Operator = typing.Callable[..., torch.Tensor]
_in_graphs: dict[int, torch.Tensor] = {}  # workspaces that CUDA graphs use, by address


@functools.lru_cache(maxsize=None)
def _workspaces() -> dict[str, torch.Tensor] | None:
    """PyTorch's own table of its operators' workspaces by group; None if this version has no such table."""
    try:
        found = importlib.import_module("torch.distributed._symmetric_memory")._group_name_to_workspace_tensor
    except (ImportError, AttributeError):
        return None
    return typing.cast("dict[str, torch.Tensor]", found)


def may_be_captured() -> bool:
    """Whether a CUDA graph with the operators stays valid. PyTorch frees a workspace when it needs a larger one, unless
    it can be held here."""
    return _workspaces() is not None


def _hold_workspace(group: Group) -> None:
    """Keeps the group's workspace, because the program's graphs may be replayed."""
    workspace = (_workspaces() or {}).get(group.name)
    if workspace is not None:
        _in_graphs[workspace.data_ptr()] = workspace


@cached
def operator(kind: str, group: Group) -> _Operator | None:
    """PyTorch's fused operator of the kind. None if this PyTorch, device or group has none: they exist from PyTorch 2.5
    on, for NCCL groups on one host."""
    if (
        kind not in ("all_gather_matmul", "matmul_reduce_scatter")
        or group.backend == "gloo"
        or not torch.cuda.is_available()
        or _hosts.placement(group).spans_hosts  # the operators access the other ranks' memory
    ):
        return None
    try:
        symmetric = importlib.import_module("torch.distributed._symmetric_memory")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer versions warn that every group is enabled already
            symmetric.enable_symm_mem_for_group(group.name)
        operators = torch.ops.symm_mem
        gather, scatter = operators.fused_all_gather_matmul, operators.fused_matmul_reduce_scatter
    except (ImportError, AttributeError, RuntimeError):
        return None

    def call(x: torch.Tensor, w: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        if kind == "all_gather_matmul":
            gathered, (y,) = gather(x, [w], 0, group.name, return_A=rows is not None)
            if rows is not None:
                rows.copy_(gathered)
        else:
            y = scatter(x, w, "sum", 0, group.name)
        if torch.cuda.is_current_stream_capturing():
            _hold_workspace(group)
        return typing.cast(torch.Tensor, y)

    return call


def forget() -> None:
    _in_graphs.clear()
    operator.cache_clear()
