"""torch.autocast: as torch.mm does, operators cast floating-point operands to its type and then run with autocast off.
Gradients have the operands' own types."""

from __future__ import annotations

import typing

import torch

from ._checks import is_compiling
from ._epilogue import NONE, Epilogue
from ._groups import GLOO_EXCHANGES_BFLOAT16

_Result = typing.TypeVar("_Result")
_Operand = typing.TypeVar("_Operand")


def _is_any_on() -> bool:
    return torch.is_autocast_enabled() or torch.is_autocast_cpu_enabled()


_is_any_on = getattr(torch._C, "_is_any_autocast_enabled", _is_any_on)  # from 2.0 on


def is_any_on() -> bool:
    """Whether autocast is on for any device. False while torch.compile traces."""
    return not is_compiling() and _is_any_on()


def type_for(x: typing.Any) -> torch.dtype | None:
    """The type that autocast casts operands on x's device to; None where it is off. On CPUs before PyTorch 2 the type
    is float32, because gloo cannot exchange bfloat16."""
    if is_compiling() or not isinstance(x, torch.Tensor) or x.device.type not in ("cpu", "cuda"):
        return None
    if hasattr(torch, "get_autocast_dtype"):  # from 2.4 on
        is_on, dtype = torch.is_autocast_enabled(x.device.type), torch.get_autocast_dtype(x.device.type)
    elif x.is_cuda:
        is_on, dtype = torch.is_autocast_enabled(), torch.get_autocast_gpu_dtype()
    else:
        is_on, dtype = torch.is_autocast_cpu_enabled(), torch.get_autocast_cpu_dtype()
        dtype = dtype if GLOO_EXCHANGES_BFLOAT16 else torch.float32
    return dtype if is_on else None


def cast(operand: _Operand, dtype: torch.dtype) -> _Operand:
    """Casts an operand as autocast does: float64 and integer tensors, and objects that are no tensors, stay."""
    found: typing.Any = operand
    if isinstance(found, Epilogue):
        bias, residual, norm_weight = (cast(one, dtype) for one in found[:3])
        added = Epilogue(bias, residual, norm_weight, found.epsilon)
        return operand if found is NONE else typing.cast(_Operand, added)
    if not isinstance(found, torch.Tensor) or not found.is_floating_point() or found.dtype == torch.float64:
        return operand
    return typing.cast(_Operand, found.to(dtype))


def call(
    dtype: torch.dtype, function: typing.Callable[..., _Result], x: torch.Tensor, *operands: typing.Any
) -> _Result:
    """Casts x and the other operands to the type and calls the function with autocast off."""
    with torch.autocast(x.device.type, enabled=False):
        return function(*(cast(one, dtype) for one in (x, *operands)))
