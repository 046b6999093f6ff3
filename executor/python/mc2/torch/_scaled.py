"""Eight-bit floats: operands whose numbers stand for others by a scale, and whose products are bfloat16."""

from __future__ import annotations

import typing

import torch

from ..errors import Error

FLOAT8: torch.dtype | None = getattr(torch, "float8_e4m3fn", None)  # from PyTorch 2.1 on
PRODUCT = torch.bfloat16
_MULTIPLE = 16  # cuBLASLt's, of n and k


class Scaled(typing.NamedTuple):
    """The left operand of a product of 8-bit floats, with the scales of both. It takes the place of other calls' x."""

    x: torch.Tensor  # [rows, k]
    x_scale: torch.Tensor  # one f32, as w_scale
    w_scale: torch.Tensor

    @property
    def is_cuda(self) -> bool:
        return self.x.is_cuda

    @property
    def device(self) -> torch.device:
        return self.x.device

    @property
    def dtype(self) -> torch.dtype:
        return self.x.dtype

    def moved(self, exchange: typing.Callable[[torch.Tensor], torch.Tensor]) -> Scaled:
        """The operand with its rows exchanged, as bytes: gloo and NCCL do not take 8-bit floats everywhere."""
        return self._replace(x=exchange(self.x.view(torch.uint8)).view(self.x.dtype))

    def times(self, w: torch.Tensor) -> torch.Tensor:
        """(x_scale x) @ (w_scale w), in bfloat16."""
        if len(self.x) == 0:
            return torch.empty((0, w.shape[1]), dtype=PRODUCT, device=w.device)
        if not w.is_cuda:
            return (self.x.float() @ w.float() * (self.x_scale * self.w_scale).view(())).to(PRODUCT)
        product: typing.Any = torch._scaled_mm(  # type: ignore[attr-defined]
            self.x.contiguous(), w, scale_a=self.x_scale.view(()), scale_b=self.w_scale.view(()), out_dtype=PRODUCT
        )
        return typing.cast(torch.Tensor, product[0] if isinstance(product, tuple) else product)  # before 2.5 a tuple


def check(x: torch.Tensor, w: torch.Tensor, scales: typing.Sequence[torch.Tensor | None]) -> None:
    """Raises Error unless x and w are 8-bit floats, stored as their matmul takes them, with a scale each."""
    for name, tensor in (("x", x), ("w", w)):
        if FLOAT8 is None or tensor.dtype != FLOAT8:
            raise Error("invalid_spec", name, f"is {tensor.dtype}; with x_scale and w_scale it is torch.float8_e4m3fn")
    for name, scale in zip(("x_scale", "w_scale"), scales):
        if scale is None:
            raise Error("invalid_spec", name, f"is None; {FLOAT8} needs x_scale and w_scale, a float32 each")
        if scale.dtype != torch.float32 or scale.numel() != 1:
            raise Error("invalid_spec", name, f"is {scale.dtype} of shape {tuple(scale.shape)}; needs one float32")
    if w.dim() != 2 or not w.t().is_contiguous():
        raise Error("invalid_spec", "w", "is not the transpose of a contiguous [n, k], as 8-bit matmuls take it")
    for name, count in zip("kn", w.shape):
        if count % _MULTIPLE:
            raise Error("invalid_spec", "w", f"has {name}={count}; needs a multiple of {_MULTIPLE} in 8-bit floats")
