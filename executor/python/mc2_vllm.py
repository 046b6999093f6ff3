"""mc2 in vLLM: matmuls that meet a collective become mc2's operators, where a plan says that it pays.

    vllm serve MODEL --tensor-parallel-size 2 --compilation-config \
        '{"inductor_passes": {"post_grad_custom_post_pass": "mc2_vllm.fuse"}}'

A module of its own, as vLLM imports a pass by the first part of its name.
"""

from __future__ import annotations

import importlib
import typing

import torch
from torch.fx import Graph, Node

from mc2.torch import _groups, inductor

_SUMS = ("all_reduce", "reduce_scatter")


def fuse(graph: Graph) -> None:
    """A pass of vLLM's for its hook post_grad_custom_post_pass. Its collectives (torch.ops.vllm) are read as PyTorch's
    functional ones; those that stay are vLLM's again. What is fused, and why the rest is not:
    mc2.torch.inductor.report()."""
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
    target: typing.Any  # vLLM's
    settings: dict[str, typing.Any]  # without the tensor
    tensor: str  # its name there

    def restore(self) -> None:
        with self.start.graph.inserting_before(self.start):
            node = self.start.graph.call_function(self.target, (), {self.tensor: self.start.args[0], **self.settings})
        node.meta = dict(self.wait.meta)
        self.wait.replace_all_uses_with(node)
        for old in (self.wait, self.start):
            self.start.graph.erase_node(old)


def _translated(node: Node) -> _Translated | None:
    """None for all but collectives along the first dimension in a group of this process."""
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
    """PyTorch's name of what vLLM calls "tp:0"; None for a group that is not here."""
    groups = importlib.import_module("vllm.distributed.parallel_state")._groups
    coordinator = groups[name]() if name in groups else None
    return None if coordinator is None else _groups.resolve(coordinator.device_group).name
