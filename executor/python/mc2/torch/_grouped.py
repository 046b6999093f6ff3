"""Grouped matmuls: rows are sorted by expert, and each expert's rows are multiplied by the expert's matrix."""

from __future__ import annotations

import functools
import itertools
import typing

import torch

from ..errors import Error
from . import _epilogue, _layout

MULTIPLE = 8  # grouped matmuls of GPUs need multiples of it as numbers of rows and columns of a matrix
Counts = typing.Union[typing.List[int], torch.Tensor]  # number of rows of each expert, on host or the rows' device


@functools.lru_cache(maxsize=None)
def _grouped_mm() -> typing.Any:
    return getattr(torch.nn.functional, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)


_FIRST_REFUSED, _HOPPER = 1024, (9, 0)  # number of experts, compute capability


def waits_for_counts(dtype: torch.dtype, device: torch.device, count: int, n: int, k: int) -> bool:
    """Whether the host must know each expert's number of rows, because PyTorch has no grouped matmul for `count`
    experts [k, n] on this GPU. The host then waits for the device, which a CUDA graph cannot hold."""
    is_known = dtype == torch.bfloat16 and _grouped_mm() is not None and count < _FIRST_REFUSED
    return not is_known or n % MULTIPLE != 0 or k % MULTIPLE != 0 or torch.cuda.get_device_capability(device) != _HOPPER


def _ends(counts: Counts, rows: torch.Tensor, other: torch.Tensor) -> torch.Tensor | None:
    """Where each expert's rows end, as PyTorch's grouped matmul takes it. None where PyTorch has no grouped matmul for
    these matrices, or a wrong one: on GPUs other than Hopper, gradients of experts without rows are not zero
    (https://github.com/pytorch/pytorch/issues/172439)."""
    if not rows.is_cuda or rows.numel() == 0:
        return None
    if waits_for_counts(rows.dtype, rows.device, len(counts), other.shape[-1], rows.shape[1]):
        return None
    for matrix in (rows, other):
        is_dense = (
            matrix.stride() == (matrix.shape[1], 1) if matrix.dim() == 2 else _layout.layout(matrix) != _layout.STRIDED
        )
        if not is_dense or matrix.data_ptr() % (MULTIPLE * rows.element_size()):
            return None
    if isinstance(counts, torch.Tensor):
        return counts.cumsum(0, dtype=torch.int32)
    return torch.tensor(list(itertools.accumulate(counts)), dtype=torch.int32).to(rows.device, non_blocking=True)


def _on_device(counts: Counts, device: torch.device) -> torch.Tensor:
    return counts if isinstance(counts, torch.Tensor) else torch.tensor(counts).to(device, non_blocking=True)


def _on_host(counts: Counts) -> list[int]:
    """The counts as a list. Waits for the device if it has them; raises Error while a CUDA graph is captured."""
    if isinstance(counts, torch.Tensor) and counts.is_cuda and torch.cuda.is_current_stream_capturing():
        raise Error(
            "unsupported",
            "x",
            "is captured into a CUDA graph, where PyTorch's matmuls of these experts would wait for their choices; "
            "tune the call, or use bfloat16 on Hopper with dimensions that are multiples of 8",
        )
    return typing.cast("list[int]", counts.tolist()) if isinstance(counts, torch.Tensor) else counts


def multiply(rows: torch.Tensor, w: torch.Tensor, counts: Counts, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Rows sorted by expert, each times its expert's matrix of w [experts, k, n], plus its expert's row of bias
    [experts, n]."""
    ends = _ends(counts, rows, w)
    if ends is not None:
        made = typing.cast(torch.Tensor, _grouped_mm()(rows, w, offs=ends))  # takes no bias
        if bias is None:
            return made
        return made.add_(bias.repeat_interleave(_on_device(counts, rows.device), 0, output_size=len(rows)))
    counts, out = _on_host(counts), rows.new_empty((len(rows), w.shape[2]))
    for expert, (part, matrix, product) in enumerate(zip(rows.split(counts), w, out.split(counts))):
        if len(part) == 0:
            continue
        if bias is None:
            torch.mm(part, matrix, out=product)
        else:
            torch.addmm(bias[expert], part, matrix, out=product)
    return out


def of_weights(rows: torch.Tensor, grads: torch.Tensor, counts: Counts) -> torch.Tensor:
    """The gradient of w [experts, k, n]. grads is the gradient of the products of `rows`."""
    ends = _ends(counts, rows, grads)
    if ends is not None:
        return typing.cast(torch.Tensor, _grouped_mm()(rows.t(), grads, offs=ends))
    counts, out = _on_host(counts), rows.new_empty((len(counts), rows.shape[1], grads.shape[1]))
    for part, grad, product in zip(rows.split(counts), grads.split(counts), out):
        torch.mm(part.t(), grad, out=product)
    return out


def experts_of_rows(counts: list[int], device: torch.device) -> torch.Tensor:
    """The expert's number for each row, for rows sorted by expert."""
    numbers = torch.arange(len(counts), device=device)
    return numbers.repeat_interleave(_on_device(counts, device), output_size=sum(counts))


def of_bias(grads: torch.Tensor, experts: torch.Tensor, count: int) -> torch.Tensor:
    """The gradient of bias [count, n], summed in f32 or a longer type. grads is the gradient of the products of rows;
    experts has each row's expert."""
    sums = torch.zeros((count, grads.shape[1]), dtype=_epilogue.precise_type(grads.dtype), device=grads.device)
    return sums.index_add_(0, experts, grads.to(sums.dtype)).to(grads.dtype)
