"""mc2 in vLLM: a pass that replaces matmuls beside a collective by mc2's operators, where a plan predicts a gain.

    vllm serve MODEL --tensor-parallel-size 2 --compilation-config \
        '{"inductor_passes": {"post_grad_custom_post_pass": "mc2_vllm.fuse"}}'

This module is not part of the package mc2 because vLLM imports only the first part of a pass's dotted name.
"""

from __future__ import annotations

import importlib
import typing

import torch
from torch.fx import Graph, Node

from mc2.torch import _groups, inductor

_SUMS = ("all_reduce", "reduce_scatter")


def fuse(graph: Graph) -> None:
    """The pass for vLLM's hook post_grad_custom_post_pass. Translates vLLM's collectives (torch.ops.vllm) to PyTorch's
    functional ones, fuses, and translates the collectives that remain back. mc2.torch.inductor.report() tells what was
    fused, and why the rest was not."""
    found = [each for each in (_translated(node) for node in list(graph.nodes)) if each is not None]
    try:
        inductor.fuse(graph)
    finally:
        left = set(graph.nodes)
        for each in found:
            if each.start in left:
                each.restore()


class _Translated(typing.NamedTuple):
    start: Node
    wait: Node
    target: typing.Any  # vLLM's operator
    settings: dict[str, typing.Any]  # its arguments without the tensor
    tensor: str  # the name of the tensor argument

    def restore(self) -> None:
        with self.start.graph.inserting_before(self.start):
            node = self.start.graph.call_function(self.target, (), {self.tensor: self.start.args[0], **self.settings})
        node.meta = dict(self.wait.meta)
        self.wait.replace_all_uses_with(node)
        for old in (self.wait, self.start):
            self.start.graph.erase_node(old)


def _translated(node: Node) -> _Translated | None:
    """Replaces a collective of vLLM by PyTorch's. None, and no change, for any other node: only collectives along the
    first dimension in a group of this process are translated."""
    name = getattr(getattr(node.target, "overloadpacket", None), "__name__", "")
    if not str(node.target).startswith("vllm.") or name not in ("all_reduce", "reduce_scatter", "all_gather"):
        return None
    names = [argument.name for argument in typing.cast(typing.Any, node.target)._schema.arguments]
    given = {**dict(zip(names, node.args)), **node.kwargs}
    group = _group_name(given.get("group_name"))
    if group is None or given.get("dim", 0) != 0:
        return None
    ranks = [given["world_size"]] if "world_size" in given else []
    operators = torch.ops._c10d_functional
    operator = {
        "all_reduce": "all_reduce",
        "reduce_scatter": "reduce_scatter_tensor",
        "all_gather": "all_gather_into_tensor",
    }[name]
    arguments = (given[names[0]], *(["sum"] if name in _SUMS else []), *ranks, group)
    with node.graph.inserting_before(node):
        start = node.graph.call_function(getattr(operators, operator).default, arguments)
        wait = node.graph.call_function(operators.wait_tensor.default, (start,))
    start.meta, wait.meta = dict(node.meta), dict(node.meta)
    node.replace_all_uses_with(wait)
    node.graph.erase_node(node)
    return _Translated(
        start, wait, node.target, {key: value for key, value in given.items() if key != names[0]}, names[0]
    )


def _group_name(name: typing.Any) -> str | None:
    """PyTorch's name of the group that vLLM calls e.g. "tp:0"; None if this process does not have the group."""
    groups = importlib.import_module("vllm.distributed.parallel_state")._groups
    coordinator = groups[name]() if name in groups else None
    return None if coordinator is None else _groups.resolve(coordinator.device_group).name
