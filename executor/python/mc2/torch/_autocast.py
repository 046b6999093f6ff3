"""torch.autocast: operators take floating-point operands in its type, as torch.mm does, and run without it. Gradients
come back in the operands' own types."""

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
    """Graphs that are being compiled do not ask."""
    return not is_compiling() and _is_any_on()


def type_for(x: typing.Any) -> torch.dtype | None:
    """What operands beside x become; None where autocast is off there. On CPUs before PyTorch 2 it is float32, as gloo
    exchanges no bfloat16."""
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
    """As autocast does: float64 and whole numbers stay, and so does what is no tensor."""
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
    """The function of x and other operands in this type, with autocast off."""
    with torch.autocast(x.device.type, enabled=False):
        return function(*(cast(one, dtype) for one in (x, *operands)))
