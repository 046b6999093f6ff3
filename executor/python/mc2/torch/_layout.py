"""The layouts of a matrix in memory that mc2's own kernels distinguish."""

from __future__ import annotations

import torch

PLAIN, TRANSPOSED, STRIDED = "plain", "transposed", "strided"


def layout(w: torch.Tensor) -> str:
    """The layout of w, or of each matrix of experts' w: PLAIN (contiguous), TRANSPOSED (the transpose of a contiguous
    matrix, as torch.nn.Linear's weight is passed), or STRIDED (neither)."""
    return PLAIN if w.is_contiguous() else TRANSPOSED if w.transpose(-2, -1).is_contiguous() else STRIDED


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy that is contiguous and holds its values: a view may have a negation or conjugation pending,
    which collectives would not see."""
    return tensor.resolve_conj().resolve_neg().contiguous()


def layout_fault(w_layout: str) -> str:
    return "w is neither contiguous nor the transpose of what is" if w_layout == STRIDED else ""
