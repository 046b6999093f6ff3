"""Bags of embedding rows: pooling by PyTorch's own operator, and the gradient."""

from __future__ import annotations

import typing

import torch

from ..errors import Error

MEAN = "mean"
_MODES = {"sum": 0, MEAN: 1}  # PyTorch's numbers of the modes
POOLINGS = tuple(_MODES)
_HALVES = (torch.float16, torch.bfloat16)


class Tables(typing.NamedTuple):
    """The tables that every rank holds: mc2.EmbeddingTables as a tuple, which ranks can exchange as JSON."""

    table_count: int
    row_count: int  # rows of each table
    pooling: str


class Bags(typing.NamedTuple):
    """Rows of tables [count, rows, columns]. The bag of table t and sample i has the rows indices[offsets[t m + i]],
    ..., indices[offsets[t m + i + 1] - 1]."""

    indices: torch.Tensor
    offsets: torch.Tensor  # [tables m + 1]
    pooling: str

    @property
    def is_cuda(self) -> bool:
        return self.indices.is_cuda

    @property
    def mean_length(self) -> int:
        """The average number of rows of a bag, rounded; at least 1."""
        return max(1, round(len(self.indices) / max(1, len(self.offsets) - 1)))

    def contiguous(self) -> Bags:
        return self


class Pooling:
    """Bags in an order of their own. `rows` counts the rows of all tables, one table below the other; offsets say where
    each bag starts in `rows`."""

    def __init__(self, rows: torch.Tensor, offsets: torch.Tensor, pooling: str) -> None:
        self._rows, self._offsets, self._pooling = rows, offsets, pooling

    def of(self, tables: torch.Tensor) -> torch.Tensor:
        """The pooled bags, [bags, columns], summed in f32."""
        weights = tables.detach().flatten(0, 1)
        if weights.dtype in _HALVES and not weights.is_cuda:  # not all versions of PyTorch pool these on a CPU
            return self._of_halves(weights)
        pooled = torch.nn.functional.embedding_bag(
            self._rows, weights, self._offsets, mode=self._pooling, include_last_offset=True
        )
        return typing.cast(torch.Tensor, pooled)

    def _of_halves(self, weights: torch.Tensor) -> torch.Tensor:
        lengths, bag = self._offsets.diff(), _bag_of_each(self._offsets, len(self._rows))
        sums = torch.zeros((len(lengths), weights.shape[1])).index_add_(
            0, bag, weights.index_select(0, self._rows).float()
        )
        if self._pooling == MEAN:
            sums /= lengths.clamp(min=1).unsqueeze(1)
        return sums.to(weights.dtype)


def rows_of(bags: Bags, shape: typing.Sequence[int]) -> torch.Tensor:
    """The bags' rows as row numbers of all tables [count, rows, columns], one table below the other. On a GPU, a row
    that a table does not have becomes the number after the last, which PyTorch's operator refuses. On a CPU,
    rows_fault() has found such rows before."""
    table_count, row_count, _ = shape
    starts = bags.offsets[:: (len(bags.offsets) - 1) // table_count].long()
    places = torch.arange(len(bags.indices), device=bags.indices.device)
    rows = bags.indices + row_count * torch.bucketize(places, starts[1:-1].contiguous(), right=True)
    if not bags.is_cuda:
        return rows
    return torch.where((bags.indices >= 0) & (bags.indices < row_count), rows, table_count * row_count)


def all_at_once(bags: Bags, tables: torch.Tensor) -> Pooling:
    """All bags in the order in which they were given: table after table."""
    return Pooling(rows_of(bags, tables.shape), bags.offsets.long(), bags.pooling)


def in_blocks(bags: Bags, tables: torch.Tensor, ranks: int, blocks: list[int]) -> list[Pooling]:
    """The bags of each block. A block has the same samples of every rank's share; its bags are ordered by rank, then by
    sample, then by table."""
    bag_count, table_count = len(bags.offsets) - 1, tables.shape[0]
    numbers = torch.arange(bag_count, device=tables.device).view(table_count, ranks, -1)
    parts = [part.permute(1, 2, 0).flatten() for part in numbers.split(blocks, 2)]
    order, lengths, rows = torch.cat(parts), bags.offsets.diff(), rows_of(bags, tables.shape)
    ordered = lengths[order]
    ends = torch.nn.functional.pad(ordered.cumsum(0), (1, 0))
    places = torch.repeat_interleave(bags.offsets[:-1][order] - ends[:-1], ordered, output_size=len(rows))
    rows = rows[places + torch.arange(len(rows), device=rows.device)]
    made, first = [], 0
    for part in parts:
        offsets = ends[first : first + len(part) + 1]
        made.append(Pooling(rows[int(offsets[0]) : int(offsets[-1])], offsets - offsets[0], bags.pooling))
        first += len(part)
    return made


def _bag_of_each(offsets: torch.Tensor, count: int) -> torch.Tensor:
    """The bag of each of `count` indices. The result is within bounds even for illegal offsets, which mc2's own GPU
    backend reports later."""
    ends = offsets[1:-1].long().clamp(0, count)
    passed = torch.zeros(count + 1, dtype=torch.int64, device=ends.device).index_add_(0, ends, torch.ones_like(ends))
    return passed.cumsum(0)[:-1]


def gradient(bags: Bags, shape: typing.Sequence[int], grad: torch.Tensor, is_sparse: bool) -> torch.Tensor:
    """The gradient of tables of this shape. grad is the gradient of the pooled features of all samples, [m, tables *
    columns]. Rows that do not exist, which mc2's own GPU backend reports later, write nothing outside of the result."""
    table_count, row_count, columns = shape
    of_bags = grad.view(-1, table_count, columns).transpose(0, 1).reshape(-1, columns)
    bag_count, lengths, bag = len(of_bags), bags.offsets.diff().long(), _bag_of_each(bags.offsets, len(bags.indices))
    if is_sparse:
        if bags.pooling == MEAN:
            of_bags = of_bags / lengths.clamp(min=1).unsqueeze(1)
        rows = bags.indices.clamp(0, row_count - 1) if bags.is_cuda else bags.indices
        places = torch.stack([bag // (bag_count // table_count), rows])
        values = of_bags[bag]
        # The constructor of PyTorch's own sparse gradients, which does not warn.
        made = torch.ops.aten._sparse_coo_tensor_with_dims_and_tensors(
            2, 1, shape, places, values, dtype=values.dtype, layout=torch.sparse_coo, device=values.device
        )
        return typing.cast(torch.Tensor, made)
    if grad.dtype in _HALVES and not grad.is_cuda:  # sums in f32, which are rounded once
        of_bags = of_bags.float()
    last = table_count * row_count
    dense = torch.ops.aten._embedding_bag_dense_backward(
        of_bags, rows_of(bags, shape), bag, lengths, bag[:0], last, False, _MODES[bags.pooling], None, last
    )
    return typing.cast(torch.Tensor, dense.to(grad.dtype).view(*shape))


def emptied(bags: Bags) -> Bags:
    """As many bags, without rows."""
    return bags._replace(indices=bags.indices[:0], offsets=torch.zeros_like(bags.offsets))


def rows_fault(bags: Bags, shape: typing.Sequence[int]) -> Error | None:
    """Checks bags in CPU memory. Returns an Error naming table, sample and value, or None."""
    table_count, row_count, _ = shape
    offsets, indices = bags.offsets, bags.indices
    samples = (len(offsets) - 1) // table_count
    if int(offsets[0]) != 0 or int(offsets[-1]) != len(indices):
        return Error(
            "invalid_spec",
            "offsets",
            f"go from {int(offsets[0])} to {int(offsets[-1])}; need to go from 0 to the {len(indices)} indices",
        )
    falling = (offsets.diff() < 0).nonzero()
    if len(falling):
        bag = int(falling[0])
        return Error(
            "invalid_spec",
            "offsets",
            f"fall from {int(offsets[bag])} to {int(offsets[bag + 1])} in table {bag // samples}, "
            f"sample {bag % samples}; need to ascend",
        )
    if len(indices) and (int(indices.min()) < 0 or int(indices.max()) >= row_count):
        place = int(((indices < 0) | (indices >= row_count)).nonzero()[0])
        bag = int(torch.searchsorted(offsets, place, right=True)) - 1
        return Error(
            "invalid_spec",
            "indices",
            f"table {bag // samples}, sample {bag % samples} names row {int(indices[place])}; a table has "
            f"rows 0 to {row_count - 1}",
        )
    return None
