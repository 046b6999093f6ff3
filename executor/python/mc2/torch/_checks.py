"""Checks of arguments that several operators share. They are plain functions, so that torch.compile traces them."""

from __future__ import annotations

import numbers
import typing

import torch

from ..errors import Error
from ._groups import GLOO_EXCHANGES_BFLOAT16


def _cpu_multiplies(dtype: torch.dtype) -> bool:
    one = torch.ones((1, 1), dtype=dtype, device="cpu")
    try:
        torch.mm(one, one)
    except RuntimeError:
        return False
    return True


_CPU_MULTIPLIES_FLOAT16 = _cpu_multiplies(torch.float16)  # the first versions of PyTorch 2 do not yet


def is_compiling() -> bool:
    return False


if hasattr(getattr(torch, "compiler", None), "is_compiling"):
    is_compiling = torch.compiler.is_compiling


def count_fault(count: typing.Any, least: int = 1, most: int | None = None) -> str | None:
    """What is wrong with a number that has to be whole and within these bounds; None if nothing is."""
    is_whole = isinstance(count, numbers.Integral) and not isinstance(count, bool)
    if is_whole and count >= least and (most is None or count <= most):
        return None
    return f"is {count!r}; needs a whole number of {least} " + ("or more" if most is None else f"to {most}")


def require_tensors(named: dict[str, typing.Any], like: str) -> None:
    """Raises Error unless all are dense tensors on the same CPU or GPU. `like` names the first of them, whose device
    counts."""
    for name, tensor in named.items():
        if not isinstance(tensor, torch.Tensor):
            raise Error("invalid_spec", name, f"is a {type(tensor).__name__}; needs a tensor")
        if tensor.device != named[like].device:
            raise Error(
                "invalid_spec", name, f"is on {tensor.device}, {like} on {named[like].device}; all need one CPU or GPU"
            )
        if tensor.device.type not in ("cpu", "cuda") or tensor.layout != torch.strided:
            raise Error(
                "unsupported", name, f"is {tensor.layout} on {tensor.device}; needs a dense tensor of a CPU or GPU"
            )


def require_one_type(named: dict[str, torch.Tensor]) -> None:
    """Raises Error unless all have the type of x and it is a floating-point type of more than 8 bits."""
    for name, tensor in named.items():
        if tensor.dtype != named["x"].dtype or not tensor.is_floating_point() or tensor.element_size() < 2:
            raise Error(
                "invalid_spec",
                name,
                f"is {tensor.dtype}; all need one floating-point type of 16 bits or more (x is {named['x'].dtype})",
            )


def require_alike(
    of_ranks: list[dict[str, typing.Any]], code: str, text: typing.Callable[[typing.Any], str] = str
) -> None:
    """Raises Error unless all ranks have the same facts, naming the first that differs from rank 0's."""
    for rank, facts in enumerate(of_ranks):
        for name, value in facts.items():
            first = of_ranks[0].get(name)
            if value != first:
                raise Error(
                    code, name, f"is {text(value)} on rank {rank} and {text(first)} on rank 0; needs to be the same"
                )


def refuse_gloo(tensor: torch.Tensor, backend: str, is_all_reduced: bool = False) -> None:
    """Raises Error if gloo cannot exchange tensors of this device. Of GPU tensors it has an all-reduce."""
    if tensor.is_cuda and backend == "gloo" and not is_all_reduced:
        raise Error("unsupported", "group", "is of backend gloo, which exchanges no tensors of a GPU; use nccl")


def type_refusal(dtype: torch.dtype, device: torch.device, backend: str, has_matmul: bool = True) -> Error | None:
    """Why this PyTorch cannot exchange, or multiply, tensors of this type on a CPU; None if it can."""
    if device.type != "cpu":
        return None
    if dtype == torch.bfloat16 and backend == "gloo" and not GLOO_EXCHANGES_BFLOAT16:
        return Error("unsupported", "dtype", f"is {dtype}, which gloo exchanges from PyTorch 2 on only")
    if dtype == torch.float16 and has_matmul and not _CPU_MULTIPLIES_FLOAT16:
        why = f"PyTorch {torch.__version__} does not multiply on a CPU; use float32, or a later PyTorch"
        return Error("unsupported", "dtype", f"is {dtype}, which {why}")
    return None


def refuse_type(tensor: torch.Tensor, backend: str, has_matmul: bool = True) -> None:
    """Raises type_refusal()'s Error, if there is one."""
    refusal = type_refusal(tensor.dtype, tensor.device, backend, has_matmul)
    if refusal is not None:
        raise refusal
