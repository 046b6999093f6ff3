"""Which rows go to which experts: the counts of all ranks, and the positions of rows that follow from them."""

from __future__ import annotations

import typing

import torch

from ..errors import Error
from ._groups import Group


MAX_SIZE = 10**9  # planner::kMaxSize


class Routing:
    """How many rows every rank has for each expert of every rank, the same on all ranks, and where this rank's rows
    lie.

    On the token's rank rows are sorted by expert, in the order of the experts of all ranks. On the expert's rank they
    are sorted by the rank's own experts and, within an expert, by the rank that sent them (docs/operators.md).
    """

    def __init__(
        self, group: Group, counts: torch.Tensor, on_device: torch.Tensor, has_gradients: bool, is_transposed: bool
    ) -> None:
        """counts [from, to, expert of to] is on the host; on_device holds the same numbers on the device.
        has_gradients: some rank routes with gradients enabled. is_transposed: w has the transposed layout on all ranks.
        Raises Error for negative counts."""
        _require_counts(counts)
        own = group.rank
        self.group, self.experts, self.has_gradients, self.is_transposed = (
            group,
            counts.shape[2],
            has_gradients,
            is_transposed,
        )
        self._from: list[list[int]] = counts[:, own].tolist()  # rows from each rank for each expert
        of_pairs = counts.sum(2)
        self.sent: list[int] = of_pairs[own].tolist()
        self.received: list[int] = of_pairs[:, own].tolist()
        self.row_count, self.received_count = sum(self.sent), sum(self.received)
        self.expert_rows: list[int] = counts[:, own].sum(0).tolist()
        self.largest = int(of_pairs.max())  # rows from one rank for another
        self.capacity = rounded(self.largest)
        self.sent_counts, self.received_counts = on_device[own], on_device[:, own]  # [ranks, experts] each
        self._order: torch.Tensor | None = None
        self._places: torch.Tensor | None = None

    @property
    def order(self) -> torch.Tensor:
        """The received rows sorted by expert, as indices into the order in which the ranks send them."""
        if self._order is None:
            experts = torch.arange(self.experts, device=self.received_counts.device).repeat(self.group.size)
            expert_of = torch.repeat_interleave(
                experts, self.received_counts.flatten(), output_size=self.received_count
            )
            self._order = expert_of.argsort(stable=True)
        return self._order

    def block(self, first: int, end: int) -> Block:
        """The block of rows [first, end) of every pair of ranks; a pair may have fewer. The rank's own rows are not
        exchanged."""
        own = self.group.rank
        sent = [0 if q == own else _clipped(count, first, end) for q, count in enumerate(self.sent)]
        received = [0 if p == own else _clipped(count, first, end) for p, count in enumerate(self.received)]
        others = [p for p in range(self.group.size) if p != own]
        rows = torch.cat([self._places_of(p)[first:end] for p in others])
        starts = [self._offset(self.sent, q) + first for q in range(self.group.size)]
        return Block(sent, received, starts, self._by_expert(rows, others, first, end))

    def own(self) -> Rows:
        """The rows that this rank has for its own experts."""
        own = self.group.rank
        return self._by_expert(self._places_of(own), [own], 0, self.received[own])

    def own_slice(self) -> slice:
        """Where the rows for this rank's own experts lie among the rows on the token's rank."""
        first = self._offset(self.sent, self.group.rank)
        return slice(first, first + self.sent[self.group.rank])

    @property
    def places(self) -> torch.Tensor:
        """For each row in the order in which the ranks send them: its position in the order by expert."""
        if self._places is None:
            self._places = inverse(self.order)
        return self._places

    def _places_of(self, rank: int) -> torch.Tensor:
        first = self._offset(self.received, rank)
        return self.places[first : first + self.received[rank]]

    def _by_expert(self, places: torch.Tensor, ranks: list[int], first: int, end: int) -> Rows:
        """Rows [first, end) from each of these ranks, sorted by expert. places: their positions in the order by
        expert."""
        counts = [0] * self.experts
        for rank in ranks:
            start = 0
            for expert, count in enumerate(self._from[rank]):
                counts[expert] += _clipped(start + count, first, end) - _clipped(start, first, end)
                start += count
        at, order = places.sort()
        return Rows(at, order, counts)

    @staticmethod
    def _offset(counts: list[int], rank: int) -> int:
        return sum(counts[:rank])


class Rows(typing.NamedTuple):
    """Some of the rows on the expert's rank, sorted by expert."""

    at: torch.Tensor  # their positions among all rows by expert, ascending
    order: torch.Tensor  # their indices in the order of arrival
    counts: list[int]  # number of rows of each expert


class Block(typing.NamedTuple):
    sent: list[int]  # number of rows to each rank
    received: list[int]  # number of rows from each rank
    first_rows: list[int]  # where the rows to each rank start, on the token's rank
    rows: Rows


def inverse(order: torch.Tensor) -> torch.Tensor:
    """The inverse of a permutation: the position of each number in `order`."""
    return torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))


def _clipped(count: int, first: int, end: int) -> int:
    return max(0, min(count, end) - first)


def rounded(rows: int) -> int:
    """Rounds up to one of eight values between powers of two, so that few plans serve all steps."""
    step = max(1, 2 ** (max(rows, 1).bit_length() - 4))
    return -(-max(rows, 1) // step) * step


def _require_counts(counts: torch.Tensor) -> None:
    if not bool(((counts < 0) | (counts > MAX_SIZE)).any()):
        return
    for sender, of_sender in enumerate(counts.flatten(1).tolist()):
        for expert, count in enumerate(of_sender):
            if count > MAX_SIZE:
                raise Error(
                    "invalid_spec",
                    "counts",
                    f"rank {sender} has {count} rows for expert {expert}; at most {MAX_SIZE}",
                )
            if count < 0:
                raise Error(
                    "invalid_spec",
                    "counts",
                    f"rank {sender} has {count} rows for expert {expert}; needs 0 or more, and -1 says "
                    "that its tokens chose an expert that there is not",
                )
