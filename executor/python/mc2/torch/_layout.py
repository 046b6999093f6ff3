"""How a matrix lies in memory, by what mc2's own kernels can read."""

from __future__ import annotations

import torch

PLAIN, TRANSPOSED, STRIDED = "plain", "transposed", "strided"


def layout(w: torch.Tensor) -> str:
    """How w lies, or each matrix of experts' w: as it is, as torch.nn.Linear's weight (the transpose of what is
    contiguous), or neither."""
    return PLAIN if w.is_contiguous() else TRANSPOSED if w.transpose(-2, -1).is_contiguous() else STRIDED


def layout_fault(w_layout: str) -> str:
    return "w is neither contiguous nor the transpose of what is" if w_layout == STRIDED else ""
