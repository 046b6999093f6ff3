"""How the blocks of each kind pass through the two lanes: matmuls run on the caller's stream, collectives on the
process group's."""

from __future__ import annotations

import typing

import torch
import torch.distributed as dist

from .._core import GATHERING_KINDS
from ..errors import Error
from . import _bags, _chosen, _layout
from ._groups import Group
from ._scaled import Scaled


def _is_native(group: Group, tensor: torch.Tensor) -> bool:
    """Whether the backend has collectives on whole tensors, as NCCL does. gloo has only those on lists, or none."""
    return tensor.is_cuda and group.backend != "gloo"


def _all_reduce(group: Group, tensor: torch.Tensor, is_async: bool = True) -> typing.Any:
    return dist.all_reduce(tensor, group=group.handle, async_op=is_async)


def _all_to_all(group: Group, out: torch.Tensor, given: torch.Tensor, is_async: bool = True) -> typing.Any:
    return dist.all_to_all_single(out, given, group=group.handle, async_op=is_async)


def _all_gather(group: Group, out: torch.Tensor, given: torch.Tensor, is_async: bool = True) -> typing.Any:
    """Gathers `given` [...] of all ranks into `out` [ranks, ...]."""
    if _is_native(group, given):
        return dist.all_gather_into_tensor(out, given, group=group.handle, async_op=is_async)
    if out.is_inference():
        gather = _CopiedGather(group, out, given)
        return gather if is_async else gather.wait()
    return dist.all_gather(list(out.unbind(0)), given, group=group.handle, async_op=is_async)


class _CopiedGather:
    """A gather into a tensor of inference mode. gloo's threads must not write such a tensor, so it is copied."""

    def __init__(self, group: Group, out: torch.Tensor, given: torch.Tensor) -> None:
        self._out = out
        with torch.inference_mode(False):
            self._gathered = torch.empty(out.shape, dtype=out.dtype, device=out.device)
        self._work = dist.all_gather(list(self._gathered.unbind(0)), given, group=group.handle, async_op=True)

    def wait(self) -> None:
        self._work.wait()
        self._out.copy_(self._gathered)


class _SummedExchange:
    """Reduce-scatter for backends without one (gloo): exchanges as many bytes and sums them in the order of the
    ranks."""

    def __init__(self, group: Group, out: torch.Tensor, given: torch.Tensor) -> None:
        self._out, self._received, self._given = out, torch.empty_like(given), given
        self._work = _all_to_all(group, self._received, given)

    def wait(self) -> None:
        self._work.wait()
        torch.sum(self._received, 0, out=self._out)


def _reduce_scatter(group: Group, out: torch.Tensor, given: torch.Tensor, is_async: bool = True) -> typing.Any:
    """Sums `given` [ranks, ...] over the ranks and writes this rank's part to `out` [...]."""
    if _is_native(group, given):
        return dist.reduce_scatter_tensor(out, given, group=group.handle, async_op=is_async)
    exchange = _SummedExchange(group, out, given)
    return exchange if is_async else exchange.wait()


def _multiply_shards(shards: torch.Tensor, w: torch.Tensor, out: torch.Tensor, is_batched: bool) -> None:
    """Computes out[q] = shards[q] @ w for every rank q; shards is [ranks, b, k]."""
    if is_batched and shards.shape[0] > 1:
        torch.bmm(shards, w.expand(shards.shape[0], *w.shape), out=out)
        return
    for part, product in zip(shards, out):
        torch.mm(part, w, out=product)


# NVTX ranges that profilers show, with the names that mc2's own backends use.
_COMPUTE, _COMMUNICATE = "mc2 compute block", "mc2 communication block"
_Step = typing.Callable[[int], typing.Any]


def _marked(name: str, step: _Step, i: int) -> typing.Any:
    torch.cuda.nvtx.range_push(f"{name} {i}")
    try:
        return step(i)
    finally:
        torch.cuda.nvtx.range_pop()


def _plain(name: str, step: _Step, i: int) -> typing.Any:
    return step(i)


class Pass:
    """One run of a kind on x [m, k] (all_gather_matmul: a rank's shard) and w [k, n], in blocks of the cut axis.

    compute(i) and communicate(i) may be called in any order that the kind allows. The pass keeps their tensors alive.
    """

    is_compute_first: typing.ClassVar[bool]
    can_batch: typing.ClassVar[bool] = False  # whether a block's matmuls with the ranks' rows may run as a batch
    local: typing.Callable[[], None] | None = None
    y: torch.Tensor

    def __init__(
        self,
        group: Group,
        x: torch.Tensor,
        w: torch.Tensor,
        blocks: list[int],
        is_batched: bool,
        rows: torch.Tensor | None = None,
    ) -> None:
        """rows [m, k], all_gather_matmul only: gets the gathered rows."""
        self.group, self.x, self.w, self.is_batched, self.rows = group, x, w, is_batched, rows
        self.block_count = len(blocks)
        self.shape(blocks)

    @classmethod
    def has_common_k(cls) -> bool:
        """Whether k is the same on all ranks. In kinds that compute first it is a rank's share, which may differ."""
        return not cls.is_compute_first

    @staticmethod
    def unfused(group: Group, x: typing.Any, w: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        """Makes y as a program without mc2 does."""
        raise NotImplementedError

    def shape(self, blocks: list[int]) -> None:
        raise NotImplementedError

    def compute(self, i: int) -> None:
        raise NotImplementedError

    def communicate(self, i: int) -> typing.Any:
        raise NotImplementedError

    def finish(self, i: int) -> None:
        """Does the rest of block i after communicate(i) has ended."""

    def new(self, *shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=self.w.dtype, device=self.w.device)

    def shards(self, matrix: torch.Tensor, blocks: list[int]) -> typing.Sequence[torch.Tensor]:
        """Views of the blocks, which take b rows of every rank's shard: [ranks, b, columns] each."""
        return matrix.view(self.group.size, -1, matrix.shape[1]).split(blocks, 1)

    def run(self) -> torch.Tensor:
        count, works = self.block_count, []
        marked = _marked if self.w.is_cuda else _plain
        if self.is_compute_first:
            for i in range(count):
                marked(_COMPUTE, self.compute, i)
                works.append(marked(_COMMUNICATE, self.communicate, i))
            for i in range(count):
                works[i].wait()
                self.finish(i)
            return self.y
        for i in range(count):
            works.append(marked(_COMMUNICATE, self.communicate, i))
        if self.local is not None:
            self.local()
        for i in range(count):
            works[i].wait()
            marked(_COMPUTE, self.compute, i)
        return self.y


class MatmulAllReduce(Pass):
    is_compute_first = True

    @staticmethod
    def unfused(group: Group, x: typing.Any, w: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        y = torch.mm(x, w)
        _all_reduce(group, y, False)
        return y

    def shape(self, blocks: list[int]) -> None:
        self.y = self.new(self.x.shape[0], self.w.shape[1])
        self._a, self._c = self.x.split(blocks), self.y.split(blocks)

    def compute(self, i: int) -> None:
        torch.mm(self._a[i], self.w, out=self._c[i])

    def communicate(self, i: int) -> typing.Any:
        return _all_reduce(self.group, self._c[i])


class _ShardedProduct(Pass):
    """Kinds that multiply the rows of every rank's shard and then send the products."""

    is_compute_first = True
    can_batch = True

    def shape(self, blocks: list[int]) -> None:
        self._a = self.shards(self.x, blocks)
        self._products = [self.new(self.group.size, b, self.w.shape[1]) for b in blocks]

    def compute(self, i: int) -> None:
        _multiply_shards(self._a[i], self.w, self._products[i], self.is_batched)


class MatmulReduceScatter(_ShardedProduct):
    @staticmethod
    def unfused(group: Group, x: typing.Any, w: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        return reduce_scatter(group, torch.mm(x, w))

    def shape(self, blocks: list[int]) -> None:
        super().shape(blocks)
        self.y = self.new(self.x.shape[0] // self.group.size, self.w.shape[1])
        self._c = self.y.split(blocks)

    def communicate(self, i: int) -> typing.Any:
        return _reduce_scatter(self.group, self._c[i], self._products[i])


class MatmulAllToAll(_ShardedProduct):
    @staticmethod
    def unfused(group: Group, x: typing.Any, w: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        return all_to_all(group, torch.mm(x, w))

    def shape(self, blocks: list[int]) -> None:
        super().shape(blocks)
        self.y = self.new(self.x.shape[0], self.w.shape[1])
        self._c = self.shards(self.y, blocks)
        self._received = [torch.empty_like(product) for product in self._products]

    def communicate(self, i: int) -> typing.Any:
        return _all_to_all(self.group, self._received[i], self._products[i])

    def finish(self, i: int) -> None:
        self._c[i].copy_(self._received[i])


class _Arriving(Pass):
    """Kinds that communicate first: a rank's own rows are multiplied while the others' arrive."""

    is_compute_first = False
    can_batch = True
    _own: torch.Tensor

    def own_product(self) -> None:
        shard = self.y.shape[0] // self.group.size
        torch.mm(self._own, self.w, out=self.y[self.group.rank * shard : (self.group.rank + 1) * shard])

    def compute(self, i: int) -> None:
        rank, rows, c = self.group.rank, self._arrived[i], self._c[i]
        if rank > 0:
            _multiply_shards(rows[:rank], self.w, c[:rank], self.is_batched)
        if rank + 1 < self.group.size:
            _multiply_shards(rows[rank + 1 :], self.w, c[rank + 1 :], self.is_batched)

    _arrived: list[torch.Tensor]
    _c: typing.Sequence[torch.Tensor]


class AllGatherMatmul(_Arriving):
    @staticmethod
    def unfused(group: Group, x: typing.Any, w: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        return torch.mm(all_gather(group, x, rows), w)

    def shape(self, blocks: list[int]) -> None:
        self.y = self.new(self.x.shape[0] * self.group.size, self.w.shape[1])
        self._own, self._sent, self._c = self.x, self.x.split(blocks), self.shards(self.y, blocks)
        self._kept = self.shards(self.rows, blocks) if self.rows is not None else []
        is_in_place = bool(self._kept) and not _is_native(self.group, self.x)  # gloo gathers into any list of tensors
        self._arrived = (
            list(self._kept) if is_in_place else [self.new(self.group.size, b, self.x.shape[1]) for b in blocks]
        )
        self.local = self.own_product

    def communicate(self, i: int) -> typing.Any:
        return _all_gather(self.group, self._arrived[i], self._sent[i])

    def run(self) -> torch.Tensor:
        y = super().run()
        for kept, arrived in zip(self._kept, self._arrived):
            if kept is not arrived:
                kept.copy_(arrived)
        return y


class AllToAllMatmul(_Arriving):
    @staticmethod
    def unfused(group: Group, x: typing.Any, w: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        return torch.mm(all_to_all(group, x), w)

    def shape(self, blocks: list[int]) -> None:
        self.y = self.new(self.x.shape[0], self.w.shape[1])
        shard = self.x.shape[0] // self.group.size
        self._own = self.x[self.group.rank * shard : (self.group.rank + 1) * shard]
        self._sent, self._c = self.shards(self.x, blocks), self.shards(self.y, blocks)
        self._arrived = [self.new(self.group.size, b, self.x.shape[1]) for b in blocks]
        self.local = self.own_product

    def communicate(self, i: int) -> typing.Any:
        return _all_to_all(self.group, self._arrived[i], self._sent[i].contiguous())


class EmbeddingAllToAll(Pass):
    """x is Bags, w the tables [count, rows, columns]."""

    is_compute_first = True

    @classmethod
    def has_common_k(cls) -> bool:
        return True  # the rows of a bag

    @staticmethod
    def unfused(group: Group, x: typing.Any, w: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        pooled = _bags.all_at_once(x, w).of(w).view(w.shape[0], -1, w.shape[2])
        return by_sample(group, pooled.transpose(0, 1).flatten(1))

    def shape(self, blocks: list[int]) -> None:
        ranks = self.group.size
        columns = self.w.shape[0] * self.w.shape[2]
        self._poolings = _bags.in_blocks(typing.cast(_bags.Bags, self.x), self.w, ranks, blocks)
        self._products = [self.new(ranks, b, columns) for b in blocks]
        self._received = [torch.empty_like(product) for product in self._products]
        self.y = self.new(sum(blocks), ranks * columns)
        self._c = self.y.view(-1, ranks, columns).split(blocks)

    def compute(self, i: int) -> None:
        self._products[i] = self._poolings[i].of(self.w).view_as(self._received[i])

    def communicate(self, i: int) -> typing.Any:
        return _all_to_all(self.group, self._received[i], self._products[i])

    def finish(self, i: int) -> None:
        self._c[i].copy_(self._received[i].transpose(0, 1))


class AllGatherGroupedMatmul(Pass):
    """x is _chosen.Rows, w the experts [count, k, n]."""

    is_compute_first = False

    @staticmethod
    def unfused(group: Group, x: typing.Any, w: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        gathered = all_gather(group, x.x)
        return _chosen.of_tokens(gathered, torch.arange(len(gathered), device=w.device), x.experts, w)

    def shape(self, blocks: list[int]) -> None:
        rows, ranks, own = typing.cast(_chosen.Rows, self.x), self.group.size, self.group.rank
        share, top_k = len(rows.x), rows.experts.shape[1]
        self.y = self.new(ranks * share * top_k, self.w.shape[2])
        self._own, self._sent = rows.x, rows.x.split(blocks)
        self._arrived = [self.new(ranks, b, rows.x.shape[1]) for b in blocks]
        by_rank = rows.experts.view(ranks, share, top_k)
        self._own_experts, self._experts = by_rank[own], by_rank.split(blocks, 1)
        self._c = self.y.view(ranks, share, -1).split(blocks, 1)
        self._others = torch.tensor([rank for rank in range(ranks) if rank != own], device=self.w.device)
        self.local = self.own_products

    def communicate(self, i: int) -> typing.Any:
        return _all_gather(self.group, self._arrived[i], self._sent[i])

    def own_products(self) -> None:
        shard = self.y.view(self.group.size, -1, self.y.shape[1])[self.group.rank]
        tokens = torch.arange(len(self._own), device=self.w.device)
        shard.copy_(_chosen.of_tokens(self._own, tokens, self._own_experts, self.w))

    def compute(self, i: int) -> None:
        b, arrived = self._arrived[i].shape[1], self._arrived[i].flatten(0, 1)
        tokens = torch.arange(len(arrived), device=self.w.device).view(-1, b)[self._others].flatten()
        made = _chosen.of_tokens(arrived, tokens, self._experts[i][self._others].flatten(0, 1), self.w)
        self._c[i][self._others] = made.view(len(self._others), b, -1)


class GroupedMatmulAllReduce(Pass):
    """x is _chosen.Rows with a row for each choice, w the experts [count, k, n]."""

    is_compute_first = True

    @staticmethod
    def unfused(group: Group, x: typing.Any, w: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        y = _chosen.sums(x, _places(x), w)
        _all_reduce(group, y, False)
        return y

    def shape(self, blocks: list[int]) -> None:
        rows = typing.cast(_chosen.Rows, self.x)
        self.y = self.new(len(rows.experts), self.w.shape[2])
        self._places, self._c = _places(rows).split(blocks), self.y.split(blocks)

    def compute(self, i: int) -> None:
        self._c[i].copy_(_chosen.sums(typing.cast(_chosen.Rows, self.x), self._places[i], self.w))

    def communicate(self, i: int) -> typing.Any:
        return _all_reduce(self.group, self._c[i])


class GroupedMatmulReduceScatter(Pass):
    """x and w are as in GroupedMatmulAllReduce."""

    is_compute_first = True

    @staticmethod
    def unfused(group: Group, x: typing.Any, w: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        return reduce_scatter(group, _chosen.sums(x, _places(x), w))

    def shape(self, blocks: list[int]) -> None:
        rows, ranks = typing.cast(_chosen.Rows, self.x), self.group.size
        (m, top_k), columns = rows.experts.shape, self.w.shape[2]
        self.y = self.new(m // ranks, columns)
        self._places, self._c = _places(rows).view(ranks, -1, top_k).split(blocks, 1), self.y.split(blocks)
        self._products = [self.new(ranks, b, columns) for b in blocks]

    def compute(self, i: int) -> None:
        sums = _chosen.sums(typing.cast(_chosen.Rows, self.x), self._places[i].flatten(0, 1), self.w)
        self._products[i].copy_(sums.view_as(self._products[i]))

    def communicate(self, i: int) -> typing.Any:
        return _reduce_scatter(self.group, self._c[i], self._products[i])


def _places(rows: _chosen.Rows) -> torch.Tensor:
    """The numbers of all choices, [m, top_k]: the row of x that belongs to each."""
    return torch.arange(rows.experts.numel(), device=rows.device).view(rows.experts.shape)


PASSES: dict[str, type[Pass]] = {
    "matmul_all_reduce": MatmulAllReduce,
    "matmul_reduce_scatter": MatmulReduceScatter,
    "all_gather_matmul": AllGatherMatmul,
    "matmul_all_to_all": MatmulAllToAll,
    "all_to_all_matmul": AllToAllMatmul,
    "embedding_all_to_all": EmbeddingAllToAll,
    "all_gather_grouped_matmul": AllGatherGroupedMatmul,
    "grouped_matmul_reduce_scatter": GroupedMatmulReduceScatter,
    "grouped_matmul_all_reduce": GroupedMatmulAllReduce,
}


# The collectives below are not asynchronous, as a program calls them. From PyTorch 2.8 on they then use the caller's
# stream.


def all_reduce(group: Group, x: torch.Tensor) -> torch.Tensor:
    y = x.clone(memory_format=torch.contiguous_format)
    _all_reduce(group, y, False)
    return y


def all_gather(group: Group, x: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
    """Every rank's rows, one rank below the other; written to `rows` if it is given."""
    y = x.new_empty((group.size * x.shape[0], *x.shape[1:])) if rows is None else rows
    _all_gather(group, y.view(group.size, *x.shape), _layout.dense(x), False)
    return y


def reduce_scatter(group: Group, x: torch.Tensor) -> torch.Tensor:
    parts = _layout.dense(x).view(group.size, len(x) // group.size, *x.shape[1:])
    y = torch.empty_like(parts[0])
    _reduce_scatter(group, y, parts, False)
    return y


def all_to_all(group: Group, x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    _all_to_all(group, y, _layout.dense(x), False)
    return y


def by_sample(group: Group, features: torch.Tensor) -> torch.Tensor:
    """Exchanges the features of all samples from this rank's tables, [m, n], for those of this rank's samples from all
    ranks' tables, [m / ranks, ranks n]."""
    received = all_to_all(group, features) if group.size > 1 else features
    parts = received.view(group.size, -1, features.shape[1]).transpose(0, 1)
    # Not a view: the result of an autograd function that is a view must not be changed in place.
    y = features.new_empty((parts.shape[0], group.size * features.shape[1]))
    y.view(parts.shape).copy_(parts)
    return y


def by_table_rank(group: Group, features: torch.Tensor) -> torch.Tensor:
    """The inverse of by_sample(), which is also its gradient."""
    given = features.view(len(features), group.size, -1).transpose(0, 1).flatten(0, 1)
    return all_to_all(group, given) if group.size > 1 else given


def unfused(kind: str, group: Group, x: typing.Any, w: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
    """Runs the kind as a program without mc2 does. rows [m, k], all_gather_matmul only: gets the gathered rows."""
    if kind not in PASSES:
        raise Error("unknown_name", "kind", f"'{kind}' is none of {', '.join(PASSES)}")
    return _unfused_scaled(kind, group, x, w) if isinstance(x, Scaled) else PASSES[kind].unfused(group, x, w, rows)


def _unfused_scaled(kind: str, group: Group, x: Scaled, w: torch.Tensor) -> torch.Tensor:
    if not PASSES[kind].is_compute_first:
        is_gathered = kind in GATHERING_KINDS
        return x.moved(lambda rows: all_gather(group, rows) if is_gathered else all_to_all(group, rows)).times(w)
    y = x.times(w)
    if kind == "matmul_all_reduce":
        _all_reduce(group, y, False)
        return y
    return reduce_scatter(group, y) if kind == "matmul_reduce_scatter" else all_to_all(group, y)
