"""The epilogue of an operator: bias and residual are added to the result; its normalised rows are a second result."""

from __future__ import annotations

import typing

import torch

USUAL_EPSILON = 1e-6  # value of Llama's and Qwen's models


class Epilogue(typing.NamedTuple):
    """The operands of y + bias + residual and of the norm of its rows."""

    bias: torch.Tensor | None = None  # [n]; [experts, n] in all_gather_grouped_matmul
    residual: torch.Tensor | None = None  # shaped as y
    norm_weight: torch.Tensor | None = None  # [n]
    epsilon: float = USUAL_EPSILON

    @property
    def kind(self) -> tuple[typing.Any, ...] | None:
        """A key for prepared plans: equal for epilogues with the same operands present and the same epsilon."""
        return (
            None if self is NONE else (self.bias is None, self.residual is None, self.norm_weight is None, self.epsilon)
        )

    @property
    def name(self) -> str:
        """The text of OpSpec's epilogue, e.g. "bias+residual"; "none" if there is none."""
        parts = {"bias": self.bias, "residual": self.residual, "rms_norm": self.norm_weight}
        return "+".join(part for part, tensor in parts.items() if tensor is not None) or "none"

    def finish(self, y: torch.Tensor, experts: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Adds bias and residual to y in place, and returns y and its normalised rows. experts: the expert of each row
        of y, where each expert has a bias."""
        if self is NONE:
            return y, None
        if self.bias is not None:
            y.add_(self.bias if experts is None else self.bias.index_select(0, experts))
        if self.residual is not None:
            y.add_(self.residual)
        return y, None if self.norm_weight is None else rms_norm(y, self.norm_weight, self.epsilon)


NONE = Epilogue()


def added(bias: torch.Tensor | None, residual: torch.Tensor | None) -> Epilogue:
    return NONE if bias is None and residual is None else Epilogue(bias, residual)


def precise_type(dtype: torch.dtype) -> torch.dtype:
    """The type in which numbers of this type are summed: f32, or a longer type."""
    return torch.promote_types(dtype, torch.float32)


def precise(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(precise_type(tensor.dtype))


def inverse_root(y: torch.Tensor, epsilon: float) -> torch.Tensor:
    """1 / sqrt(mean of a row's squares + epsilon), [rows, 1], in precise_type()."""
    return torch.rsqrt(precise(y).square().mean(-1, keepdim=True) + epsilon)


def rms_norm(y: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    if hasattr(torch.nn.functional, "rms_norm"):  # from 2.4 on, one kernel on GPUs
        return torch.nn.functional.rms_norm(y, (y.shape[-1],), weight, epsilon)
    return (precise(y) * inverse_root(y, epsilon) * weight).to(y.dtype)


def rms_norm_gradients(
    y: torch.Tensor, weight: torch.Tensor, epsilon: float, grad: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of y and of weight, in precise_type(). grad is the gradient of the normalised rows. Source:
    docs/operators.md#rmsnorm."""
    c, g, root = precise(y), precise(grad), inverse_root(y, epsilon)
    weighted = g * weight
    of_y = root * (weighted - c * root.square() * (weighted * c).mean(-1, keepdim=True))
    return of_y, (g * c * root).sum(0)
