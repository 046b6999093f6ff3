"""The operators as functions: x [..., k] times w [k, n] and a collective over the first dimension of x or of the result."""

from __future__ import annotations

import typing

import torch
import torch.distributed as dist

from ..errors import Error
from . import _groups, _ops
from ._groups import Group
from ._passes import PASSES

_HAS_ROW_SHARDS = ("matmul_reduce_scatter", "matmul_all_to_all", "all_to_all_matmul")


def matmul_all_reduce(x: torch.Tensor, w: torch.Tensor, group: typing.Any = None, *, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Sum over ranks of x @ w, on every rank. x [..., k], w [k, n]; bias [n] is added once."""
    return _call("matmul_all_reduce", x, w, group, bias)


def matmul_reduce_scatter(x: torch.Tensor, w: torch.Tensor, group: typing.Any = None, *, bias: torch.Tensor | None = None) -> torch.Tensor:
    """This rank's share of the first dimension of the sum over ranks of x @ w, which the ranks must divide."""
    return _call("matmul_reduce_scatter", x, w, group, bias)


def all_gather_matmul(x: torch.Tensor, w: torch.Tensor, group: typing.Any = None, *, bias: torch.Tensor | None = None) -> torch.Tensor:
    """All ranks' x, one behind the other in the first dimension, times this rank's w."""
    return _call("all_gather_matmul", x, w, group, bias)


def matmul_all_to_all(x: torch.Tensor, w: torch.Tensor, group: typing.Any = None, *, bias: torch.Tensor | None = None) -> torch.Tensor:
    """x @ w, of which equal parts of the first dimension go to ranks 0, 1, ...; what they sent, one behind the other."""
    return _call("matmul_all_to_all", x, w, group, bias)


def all_to_all_matmul(x: torch.Tensor, w: torch.Tensor, group: typing.Any = None, *, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Equal parts of the first dimension of x go to ranks 0, 1, ...; what they sent, one behind the other, times w."""
    return _call("all_to_all_matmul", x, w, group, bias)


def replicated_matmul(x: torch.Tensor, w: torch.Tensor, group: typing.Any = None, *, bias: torch.Tensor | None = None) -> torch.Tensor:
    """x @ w where x is the same on all ranks and w this rank's columns: x's gradient is summed over the ranks."""
    return _call("replicated_matmul", x, w, group, bias)


class _Facts(typing.NamedTuple):
    name: str
    size: int
    backend: str


def _facts(group: typing.Any) -> _Facts:
    found = _groups.resolve(group)
    return _Facts(found.name, found.size, found.backend)


# torch.compile takes a group as it is when the function is compiled, and need not look into it.
if hasattr(getattr(torch, "compiler", None), "assume_constant_result"):
    _facts = torch.compiler.assume_constant_result(_facts)


def _is_compiling() -> bool:
    return False


if hasattr(getattr(torch, "compiler", None), "is_compiling"):
    _is_compiling = torch.compiler.is_compiling

_checked: dict[typing.Any, Group] = {}  # arguments that were right once


def _call(op: str, x: torch.Tensor, w: torch.Tensor, group: typing.Any, bias: torch.Tensor | None) -> torch.Tensor:
    if _is_compiling():
        facts = _facts(group)
        _check(op, x, w, bias, facts)
        return _dispatch(op, x, w, bias, facts)
    try:
        handle = dist.group.WORLD if group is None else group
        key = (op, handle, x.shape, w.shape, x.dtype, w.dtype, x.device, w.device, x.layout, w.layout,
               None if bias is None else (bias.shape, bias.dtype, bias.device))  # fmt: skip
        found = _checked.get(key)
    except (AttributeError, TypeError):  # what is no tensor or no group is named below
        key, found = None, None
    if found is None:
        found = _groups.resolve(group)
        _check(op, x, w, bias, _Facts(found.name, found.size, found.backend))
        _checked[key] = found
    if op in PASSES and found.size > 1 and _is_plain(x) and _is_plain(w) and (bias is None or _is_plain(bias)):
        return _shaped(x, w, _ops.run(op, found, _as_matrix(x), w, bias))
    return _dispatch(op, x, w, bias, _Facts(found.name, found.size, found.backend))


def _is_plain(tensor: torch.Tensor) -> bool:
    """Nobody is going to differentiate or trace what is done to it: PyTorch's dispatcher would only cost time."""
    kind = type(tensor)
    return (kind is torch.Tensor or kind is torch.nn.Parameter) and not (tensor.requires_grad and torch.is_grad_enabled())


def _dispatch(op: str, x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, facts: _Facts) -> torch.Tensor:
    if facts.size == 1:
        y = torch.matmul(x, w)
        return y if bias is None else y + bias
    return _shaped(x, w, getattr(torch.ops.mc2, op)(_as_matrix(x), w, bias, facts.name))


def _as_matrix(x: torch.Tensor) -> torch.Tensor:
    return x if x.dim() == 2 else x.flatten(0, -2)


def _shaped(x: torch.Tensor, w: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The matrix y with the dimensions of x but for the last."""
    return y if x.dim() == 2 else y.view(-1, *x.shape[1:-1], w.shape[1])


def forget() -> None:
    _checked.clear()


def _check(op: str, x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, group: _Facts) -> None:
    """Raises Error naming the argument that is wrong."""
    for name, tensor in (("x", x), ("w", w), ("bias", bias)):
        if name == "bias" and tensor is None:
            continue
        if not isinstance(tensor, torch.Tensor):
            raise Error("invalid_spec", name, f"is a {type(tensor).__name__}; needs a tensor")
        if tensor.dtype != x.dtype or not tensor.is_floating_point():
            raise Error("invalid_spec", name, f"is {tensor.dtype}; x, w and bias need one floating-point type (x is {x.dtype})")
        if tensor.device != x.device:
            raise Error("invalid_spec", name, f"is on {tensor.device}, x on {x.device}")
        if tensor.device.type not in ("cpu", "cuda") or tensor.layout != torch.strided:
            raise Error("unsupported", name, f"is {tensor.layout} on {tensor.device}; needs a dense tensor of a CPU or GPU")
    if x.dim() < 2 or x.numel() == 0:
        raise Error("invalid_spec", "x", f"has shape {tuple(x.shape)}; needs [..., k], not empty")
    if w.dim() != 2 or w.shape[0] != x.shape[-1] or w.shape[1] == 0:
        raise Error("invalid_spec", "w", f"has shape {tuple(w.shape)}; needs [{x.shape[-1]}, n]")
    if bias is not None and tuple(bias.shape) != (w.shape[1],):
        raise Error("invalid_spec", "bias", f"has shape {tuple(bias.shape)}; needs [{w.shape[1]}]")
    if op in _HAS_ROW_SHARDS and x.shape[0] % group.size != 0:
        raise Error("invalid_spec", "x", f"its first dimension {x.shape[0]} is not a multiple of the {group.size} ranks")
    if x.is_cuda and group.backend == "gloo" and op != "matmul_all_reduce":
        raise Error("unsupported", "group", "is of backend gloo, which exchanges no tensors of a GPU; use nccl")
