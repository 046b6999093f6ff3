"""Rows that choose experts of which every rank has a part: what is multiplied, and checked, on one rank."""

from __future__ import annotations

import typing

import torch

from ..errors import Error
from . import _grouped

KINDS = ("all_gather_grouped_matmul", "grouped_matmul_reduce_scatter", "grouped_matmul_all_reduce")


class Rows(typing.NamedTuple):
    """What the kinds multiply, as other kinds do x, and which experts all m tokens chose."""

    x: torch.Tensor  # [m / ranks, k]; of kinds that sum [m top_k, k], the choices of a token one below the other
    experts: torch.Tensor  # [m, top_k]
    weights: torch.Tensor | None  # [m, top_k] of f32, of kinds that sum

    @property
    def is_cuda(self) -> bool:
        return self.x.is_cuda

    @property
    def device(self) -> torch.device:
        return self.x.device

    @property
    def dtype(self) -> torch.dtype:
        return self.x.dtype

    def contiguous(self) -> Rows:
        return Rows(self.x.contiguous(), *self[1:])


def within(experts: torch.Tensor, count: int) -> torch.Tensor:
    """Experts that there are not become others, so that nothing is read where nothing is."""
    return experts.clamp(0, count - 1)


def by_expert(experts: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The order that brings legal ones together, and how many each has."""
    values, order = experts.sort(stable=True)
    ends = torch.searchsorted(values, torch.arange(count + 1, device=values.device))
    return order, ends.diff()


def products(x: torch.Tensor, places: torch.Tensor, experts: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Rows x[places] times the matrices w [count, k, n] of their experts; NaN of one that there is not."""
    legal = within(experts, len(w))
    order, counts = by_expert(legal, len(w))
    made = _grouped.multiply(x.index_select(0, places.index_select(0, order)), w, counts)
    is_wrong = experts != legal
    if x.is_cuda or bool(is_wrong.any()):  # a GPU's would have to be waited for
        made.masked_fill_(is_wrong.index_select(0, order).unsqueeze(1), float("nan"))
    return torch.empty_like(made).index_copy_(0, order, made)


def of_tokens(x: torch.Tensor, tokens: torch.Tensor, experts: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Row tokens[i] of x, times each of the experts [len(tokens), top_k] that it chose: [len(tokens) top_k, n]."""
    return products(x, tokens.repeat_interleave(experts.shape[1]), experts.flatten(), w)


def sums(rows: Rows, places: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Of the choices at places [tokens, top_k] of all choices: the weighted sum of each token's products, in f32 at
    least, rounded once: [tokens, n]."""
    weights = typing.cast(torch.Tensor, rows.weights).flatten()[places]
    made = products(rows.x, places.flatten(), rows.experts.flatten()[places.flatten()], w)
    of_choices = made.view(*places.shape, made.shape[1])
    return (of_choices * weights.unsqueeze(2)).sum(1).to(made.dtype)


def of_weights(x: torch.Tensor, grad: torch.Tensor, experts: torch.Tensor, count: int) -> torch.Tensor:
    """The gradient of w [count, k, n]: x and grad have a row for each choice, or for each token."""
    order, counts = by_expert(within(experts.flatten(), count), count)
    token = order // experts.shape[1]
    of_x, of_grad = (matrix.index_select(0, order if len(matrix) == len(order) else token) for matrix in (x, grad))
    return _grouped.of_weights(of_x, of_grad, counts)


def choices_fault(experts: torch.Tensor, weights: torch.Tensor | None, count: int) -> Error | None:
    """Of a CPU's: names token, choice and value."""
    if int(experts.min()) < 0 or int(experts.max()) >= count:
        token, choice = ((experts < 0) | (experts >= count)).nonzero()[0].tolist()
        return Error(
            "invalid_spec",
            "experts",
            f"token {token}, choice {choice} is expert {int(experts[token, choice])}; "
            f"there are {count}, 0 to {count - 1}",
        )
    if weights is not None and not bool(weights.isfinite().all()):
        token, choice = (~weights.isfinite()).nonzero()[0].tolist()
        return Error(
            "invalid_spec",
            "weights",
            f"token {token}, choice {choice} has weight {float(weights[token, choice])}; needs a finite number",
        )
    return None
