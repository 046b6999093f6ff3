"""Kinds whose rows choose experts, of which every rank holds a part: the matmuls and checks of one rank."""

from __future__ import annotations

import typing

import torch

from ..errors import Error
from . import _grouped, _layout


class Rows(typing.NamedTuple):
    """The left operand of these kinds, with the experts that all m tokens chose. It takes the place of other kinds'
    x."""

    x: torch.Tensor  # [m / ranks, k]; kinds that sum: [m top_k, k], a token's top_k rows one below the other
    experts: torch.Tensor  # [m, top_k]
    weights: torch.Tensor | None  # [m, top_k] of f32; only kinds that sum

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
        return Rows(_layout.dense(self.x), *self[1:])


def within(experts: torch.Tensor, count: int) -> torch.Tensor:
    """Replaces expert numbers that do not exist by others that do, so that nothing is read out of bounds."""
    return experts.clamp(0, count - 1)


def by_expert(experts: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The order that sorts choices by expert, and the number of choices of each expert. All numbers must be legal."""
    values, order = experts.sort(stable=True)
    ends = torch.searchsorted(values, torch.arange(count + 1, device=values.device))
    return order, ends.diff()


def products(x: torch.Tensor, places: torch.Tensor, experts: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Rows x[places], each times its expert's matrix of w [count, k, n]; NaN where the expert does not exist."""
    legal = within(experts, len(w))
    order, counts = by_expert(legal, len(w))
    made = _grouped.multiply(x.index_select(0, places.index_select(0, order)), w, counts)
    is_wrong = experts != legal
    if x.is_cuda or bool(is_wrong.any()):  # on a GPU always: asking whether any is wrong would wait for it
        made.masked_fill_(is_wrong.index_select(0, order).unsqueeze(1), float("nan"))
    return torch.empty_like(made).index_copy_(0, order, made)


def of_tokens(x: torch.Tensor, tokens: torch.Tensor, experts: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Row tokens[i] of x times each of its experts, [len(tokens), top_k]. Returns [len(tokens) top_k, n]."""
    return products(x, tokens.repeat_interleave(experts.shape[1]), experts.flatten(), w)


def sums(rows: Rows, places: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """The weighted sum of each token's products, [tokens, n], summed in f32 or a longer type and rounded once. places
    [tokens, top_k] are the numbers of the tokens' choices among all choices."""
    weights = typing.cast(torch.Tensor, rows.weights).flatten()[places]
    made = products(rows.x, places.flatten(), rows.experts.flatten()[places.flatten()], w)
    of_choices = made.view(*places.shape, made.shape[1])
    return (of_choices * weights.unsqueeze(2)).sum(1).to(made.dtype)


def of_weights(x: torch.Tensor, grad: torch.Tensor, experts: torch.Tensor, count: int) -> torch.Tensor:
    """The gradient of w [count, k, n]. x and grad each have a row for each choice or for each token."""
    order, counts = by_expert(within(experts.flatten(), count), count)
    token = order // experts.shape[1]
    of_x, of_grad = (matrix.index_select(0, order if len(matrix) == len(order) else token) for matrix in (x, grad))
    return _grouped.of_weights(of_x, of_grad, counts)


def choices_fault(experts: torch.Tensor, weights: torch.Tensor | None, count: int) -> Error | None:
    """Checks choices in CPU memory. Returns an Error naming token, choice and value, or None."""
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
