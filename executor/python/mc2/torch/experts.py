"""A mixture of experts: rows to the ranks of their experts and back, matmul and exchange in one call, however unevenly they are routed."""

from __future__ import annotations

import itertools
import typing

import torch
import torch.distributed as dist
from torch.autograd.function import once_differentiable

from ..errors import Error
from . import _groups, _native, _plans
from ._groups import Group, held

_DISPATCH, _COMBINE = "all_to_all_matmul", "matmul_all_to_all"
_MAX_EXPERTS = 4096  # of all ranks
Activation = typing.Callable[[torch.Tensor], torch.Tensor]

_Function = typing.TypeVar("_Function", bound=typing.Callable[..., typing.Any])


def _uncompiled(function: _Function) -> _Function:
    """torch.compile leaves a gap for it: how many rows there are differs from step to step."""
    disable = getattr(getattr(torch, "compiler", None), "disable", None)
    return function if disable is None else typing.cast(_Function, disable(function))


class Routing:
    """How many rows every rank has for each expert of every rank, agreed on by all ranks, and where this rank's lie.

    On the token's rank rows are packed by expert, in the order of the experts of all ranks. On the expert's rank they are packed by its
    own experts, and those of one expert by the rank that they are from (docs/operators.md).
    """

    def __init__(self, group: Group, table: list[list[list[int]]], device: torch.device, has_gradients: bool, is_transposed: bool) -> None:
        """table[from][to][expert of to]; has_gradients: some rank routes with gradients enabled; is_transposed: all ranks' w are"""
        self.group, self.experts, self.has_gradients, self.is_transposed = group, len(table[0][0]), has_gradients, is_transposed
        self._from = [of_sender[group.rank] for of_sender in table]  # rows from each rank for each expert
        self.sent = [sum(of_rank) for of_rank in table[group.rank]]
        self.received = [sum(counts) for counts in self._from]
        self.row_count, self.received_count = sum(self.sent), sum(self.received)
        self.expert_rows = [sum(of_sender[expert] for of_sender in self._from) for expert in range(self.experts)]
        self.capacity = _rounded(max(sum(of_rank) for of_sender in table for of_rank in of_sender))
        # on the device, [ranks, experts] each
        self.sent_counts, self.received_counts = torch.tensor([table[group.rank], self._from]).to(device, non_blocking=True)
        self._order: torch.Tensor | None = None
        self._places: torch.Tensor | None = None  # where each of them lies on this expert's rank

    @property
    def order(self) -> torch.Tensor:
        """Of the rows as the ranks send them, by expert."""
        if self._order is None:
            experts = torch.arange(self.experts, device=self.received_counts.device).repeat(self.group.size)
            expert_of = torch.repeat_interleave(experts, self.received_counts.flatten(), output_size=self.received_count)
            self._order = expert_of.argsort(stable=True)
        return self._order

    def block(self, first: int, end: int) -> _Block:
        """Rows [first, end) of every pair, as far as the pair has them; the rank's own are not exchanged."""
        own = self.group.rank
        sent = [0 if q == own else _clipped(count, first, end) for q, count in enumerate(self.sent)]
        received = [0 if p == own else _clipped(count, first, end) for p, count in enumerate(self.received)]
        others = [p for p in range(self.group.size) if p != own]
        rows = torch.cat([self._places_of(p)[first:end] for p in others])
        starts = [self._offset(self.sent, q) + first for q in range(self.group.size)]
        return _Block(sent, received, starts, self._by_expert(rows, others, first, end))

    def own(self) -> _Rows:
        """The rows that are here already."""
        own = self.group.rank
        return self._by_expert(self._places_of(own), [own], 0, self.received[own])

    def own_slice(self) -> slice:
        """Of the rows on the token's rank."""
        first = self._offset(self.sent, self.group.rank)
        return slice(first, first + self.sent[self.group.rank])

    def _places_of(self, rank: int) -> torch.Tensor:
        if self._places is None:
            self._places = torch.empty_like(self.order)
            self._places[self.order] = torch.arange(len(self.order), device=self.order.device)
        first = self._offset(self.received, rank)
        return self._places[first : first + self.received[rank]]

    def _by_expert(self, places: torch.Tensor, ranks: list[int], first: int, end: int) -> _Rows:
        """Of rows [first, end) of these ranks, which lie at these places."""
        counts = [0] * self.experts
        for rank in ranks:
            start = 0
            for expert, count in enumerate(self._from[rank]):
                counts[expert] += _clipped(start + count, first, end) - _clipped(start, first, end)
                start += count
        at, order = places.sort()
        return _Rows(at, order, counts)

    @staticmethod
    def _offset(counts: list[int], rank: int) -> int:
        return sum(counts[:rank])


class _Rows(typing.NamedTuple):
    """Rows on the expert's rank, by expert."""

    at: torch.Tensor  # their places there, ascending
    order: torch.Tensor  # which of the rows that were given each is
    counts: list[int]  # of each expert


class _Block(typing.NamedTuple):
    sent: list[int]  # rows for each rank
    received: list[int]
    first_rows: list[int]  # where those for each rank start, on the token's rank
    rows: _Rows


def _clipped(count: int, first: int, end: int) -> int:
    return max(0, min(count, end) - first)


def _rounded(rows: int) -> int:
    """Up, to one of eight values between powers of two, so that few plans serve all steps."""
    step = max(1, 2 ** (max(rows, 1).bit_length() - 4))
    return -(-max(rows, 1) // step) * step


@_uncompiled
def route(counts: torch.Tensor | typing.Sequence[int], w: torch.Tensor, group: typing.Any = None) -> Routing:
    """What the counts of all ranks come to: rows of this rank for each expert of all ranks, those of rank 0 first. Collective; moe_dispatch_matmul
    and moe_matmul_combine of one step share it, and have gradients where some rank's route() was called with gradients enabled. Raises Error
    on all ranks for counts that any of them cannot have."""
    found = _groups.resolve(group)
    if not isinstance(w, torch.Tensor) or w.dim() != 3 or w.shape[0] == 0:
        raise Error("invalid_spec", "w", "needs three dimensions: [experts of this rank, k, n], at least one expert")
    if w.is_cuda and found.backend == "gloo":
        raise Error("unsupported", "group", "is of gloo, which exchanges tensors of the CPU; w is on a GPU")
    experts, k, n = w.shape
    if found.size * experts > _MAX_EXPERTS:
        raise Error("invalid_spec", "w", f"has {experts} experts on each of {found.size} ranks; legal: up to {_MAX_EXPERTS} in all")
    device = w.device if found.backend != "gloo" else torch.device("cpu")
    given = torch.as_tensor(counts)
    if given.is_floating_point() and given.numel() > 0:
        raise Error("invalid_spec", "counts", f"are {given.dtype}; need whole numbers")
    given = given.flatten().to(device, torch.int64)
    # Of one length whatever they are, so that what is wrong with one rank's is told to all.
    dtype = list(_plans.DTYPES).index(w.dtype) if w.dtype in _plans.DTYPES else -1
    facts = [int(torch.is_grad_enabled()), int(_native.layout(w) == _native.TRANSPOSED), len(given), experts, k, n, dtype]
    start = len(facts)
    mine = torch.zeros(start + _MAX_EXPERTS, dtype=torch.int64, device=device)
    mine[:start] = torch.tensor(facts)
    mine[start : start + min(len(given), _MAX_EXPERTS)] = given[:_MAX_EXPERTS]
    rows = [held(torch.empty_like(mine)) for _ in range(found.size)]
    dist.all_gather(rows, held(mine), group=found.handle)
    all_rows = torch.stack(rows)[:, : start + found.size * experts].cpu()  # the one wait for the device
    _check_facts(all_rows[:, 2:start].tolist(), found.size)
    table = all_rows[:, start:].reshape(found.size, found.size, experts).tolist()
    for sender, of_sender in enumerate(table):
        for number, count in enumerate(itertools.chain(*of_sender)):
            if count < 0:
                raise Error("invalid_spec", "counts", f"rank {sender} has {count} rows for expert {number}; needs 0 or more, and -1 says "
                            "that its tokens chose an expert that there is not")  # fmt: skip
    return Routing(found, table, w.device, bool(all_rows[:, 0].any()), bool(all_rows[:, 1].all()))


def _check_facts(of_ranks: list[list[int]], size: int) -> None:
    for rank, (count, experts, *others) in enumerate(of_ranks):
        if [experts, *others] != of_ranks[0][1:]:
            raise Error("invalid_spec", "w", f"rank {rank} has {experts} experts [{others[0]}, {others[1]}] and rank 0 {of_ranks[0][1]} "
                        f"[{of_ranks[0][2]}, {of_ranks[0][3]}]; needs as many, of one type")  # fmt: skip
        if count != size * experts:
            raise Error("invalid_spec", "counts", f"rank {rank} gives {count} numbers; needs one for each of the {size * experts} experts")


@_uncompiled
def moe_dispatch_matmul(x: torch.Tensor, w: torch.Tensor, routing: Routing) -> torch.Tensor:
    """Rows of x [rows, k], packed by expert of all ranks, go to their experts' ranks, which multiply them by w [experts, k, n] of their own:
    [received rows, n], packed by expert, those of one expert by the rank that they are from."""
    _check(x, w, routing, routing.row_count)
    return typing.cast(torch.Tensor, _Dispatch.apply(x, w, routing))


@_uncompiled
def moe_matmul_combine(y: torch.Tensor, w: torch.Tensor, routing: Routing) -> torch.Tensor:
    """Rows of y [received rows, k], as moe_dispatch_matmul gives them, times w [experts, k, n] of their experts, return to the ranks and places
    that they are from: [rows, n]."""
    _check(y, w, routing, routing.received_count)
    return typing.cast(torch.Tensor, _Combine.apply(y, w, routing))


@_uncompiled
def moe_layer(
    x: torch.Tensor, experts: torch.Tensor, weights: torch.Tensor, w_up: torch.Tensor, w_down: torch.Tensor, group: typing.Any = None, *,
    activation: Activation = torch.nn.functional.silu,
) -> torch.Tensor:  # fmt: skip
    """A mixture of experts' layer on this rank's tokens x [tokens, h]. A router has chosen experts [tokens, top k], numbers among those of all
    ranks, and their weights of the same shape; w_up [experts of this rank, h, f], w_down [experts of this rank, f', h], activation between
    them (f' columns). The weighted sum of each token's experts: [tokens, h]."""
    found = _groups.resolve(group)
    if x.dim() != 2 or experts.shape != weights.shape or experts.dim() != 2 or len(experts) != len(x):
        raise Error("invalid_spec", "experts", f"has shape {tuple(experts.shape)} and weights {tuple(weights.shape)}; both need [{len(x)}, top k]")
    total = found.size * w_up.shape[0]
    chosen = experts.flatten().to(torch.int64)
    order = chosen.argsort(stable=True)
    # An expert that there is not is told to all ranks, as a count that there cannot be; nothing here waits for the device.
    is_wrong = (chosen < 0) | (chosen >= total)
    counts = torch.zeros(total + 1, dtype=torch.int64, device=chosen.device)
    counts.scatter_add_(0, torch.where(is_wrong, total, chosen), torch.ones_like(chosen))
    token = order // experts.shape[1]
    rows = x[token]  # while the counts are waited for
    try:
        routing = route(torch.where(counts[total] > 0, -1, counts[:total]), w_up, found.handle)
    except Error as error:
        wrong = chosen[is_wrong].tolist()[:1]
        if not wrong:
            raise
        raise Error("invalid_spec", "experts", f"name expert {wrong[0]}; there are {total}, 0 to {total - 1}") from error
    product = moe_matmul_combine(activation(moe_dispatch_matmul(rows, w_up, routing)), w_down, routing)
    weighted = product * weights.flatten()[order, None].to(product.dtype)
    return torch.zeros_like(x, dtype=product.dtype).index_add(0, token, weighted)


def _check(rows: torch.Tensor, w: torch.Tensor, routing: Routing, row_count: int) -> None:
    if torch.is_grad_enabled() and (rows.requires_grad or w.requires_grad) and not routing.has_gradients:
        raise Error("invalid_spec", "routing", "was made where no rank had gradients enabled; call route() with them")
    if rows.dim() != 2 or len(rows) != row_count:
        raise Error("invalid_spec", "x", f"has shape {tuple(rows.shape)}; the routing has {row_count} rows here")
    if w.dim() != 3 or w.shape[:2] != (routing.experts, rows.shape[1]):
        raise Error("invalid_spec", "w", f"has shape {tuple(w.shape)}; needs [{routing.experts}, {rows.shape[1]}, n]")
    if rows.dtype != w.dtype or rows.device != w.device:
        raise Error("invalid_spec", "w", f"is {w.dtype} on {w.device} and x {rows.dtype} on {rows.device}; need to be alike")


def _blocks(kind: str, routing: Routing, x: torch.Tensor, w: torch.Tensor) -> list[tuple[int, int]]:
    """[first, end) of every pair's rows."""
    lengths = _plans.counted_blocks(kind, routing.group, x, w[0], routing.capacity * routing.group.size)
    ends = list(itertools.accumulate(lengths))
    return list(zip([0, *ends], ends))


def _native_of(kind: str, routing: Routing, x: torch.Tensor, w: torch.Tensor, is_backward: bool) -> _native.NativeExperts | None:
    """mc2's own backend for it, for w that lie as those of route() do, or in backward passes as their transposes, where it has one for such
    experts and they are not mostly products of large matrices, which lose more by the SMs of the exchange than it takes (docs/gpu_results.md).
    Collective on first calls."""
    multiple, long_products = 8, 8192
    if not x.is_cuda or routing.group.size == 1 or x.dtype not in (torch.bfloat16, torch.float16):
        return None
    if w.shape[1] % multiple or w.shape[2] % multiple:
        return None
    products_of_an_element = w.shape[2] if kind == _DISPATCH else w.shape[1]  # that is exchanged
    if products_of_an_element > long_products and routing.capacity * routing.group.size > _native.NativeExperts.FEW_ROWS * routing.experts:
        return None
    rows = -(-routing.capacity // routing.experts) * routing.experts
    problem = _plans.Problem(kind, routing.group, x.device, x.dtype, rows * routing.group.size, w.shape[2], w.shape[1])
    return None if _native.experts_fault(problem) else _native.experts_of(problem, routing.experts, w, routing.is_transposed != is_backward)


def _multiply(rows: torch.Tensor, w: torch.Tensor, counts: list[int]) -> torch.Tensor:
    """Rows by expert times their experts' matrices."""
    out = rows.new_empty((len(rows), w.shape[2]))
    for part, matrix, product in zip(rows.split(counts), w, out.split(counts)):
        if len(part):
            torch.mm(part, matrix, out=product)
    return out


def _exchange(routing: Routing, given: torch.Tensor, sent: list[int], received: list[int]) -> tuple[torch.Tensor, typing.Any]:
    out = given.new_empty((sum(received), given.shape[1]))
    return out, dist.all_to_all_single(out, given, received, sent, group=routing.group.handle, async_op=True)


def _dispatch(x: torch.Tensor, w: torch.Tensor, routing: Routing, keeps_rows: bool) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The product, and the rows that it was made of where they are to be kept. All exchanges start at once; rows are multiplied as they arrive, the own ones first."""
    if not keeps_rows and (native := _native_of(_DISPATCH, routing, x, w, False)):
        return native(x, w, routing.sent_counts, routing.received_count), None
    x = x.contiguous()
    blocks = _blocks(_DISPATCH, routing, x, w)
    if len(blocks) == 1:
        sent, work = _exchange(routing, x, routing.sent, routing.received)
        work.wait()
        rows = sent.index_select(0, routing.order)
        return _multiply(rows, w, routing.expert_rows), rows
    y = x.new_empty((routing.received_count, w.shape[2]))
    arrived = x.new_empty((routing.received_count, x.shape[1]))

    def multiply(rows: torch.Tensor, placed: _Rows) -> None:
        rows = rows.index_select(0, placed.order)
        arrived.index_copy_(0, placed.at, rows)
        y.index_copy_(0, placed.at, _multiply(rows, w, placed.counts))

    pending = []
    for first, end in blocks:
        block = routing.block(first, end)
        parts = [x[start : start + count] for start, count in zip(block.first_rows, block.sent)]
        pending.append((block, *_exchange(routing, torch.cat(parts), block.sent, block.received)))
    multiply(x[routing.own_slice()], routing.own())
    for block, rows, work in pending:
        work.wait()
        multiply(rows, block.rows)
    return y, arrived


def _combine(y: torch.Tensor, w: torch.Tensor, routing: Routing, is_backward: bool) -> torch.Tensor:
    """Each block's exchange runs beside the next blocks' matmuls; the rows that stay here are multiplied last."""
    if native := _native_of(_COMBINE, routing, y, w, is_backward):
        return native(y, w, routing.received_counts, routing.row_count)
    blocks = _blocks(_COMBINE, routing, y, w)
    if len(blocks) == 1:
        made = _multiply(y, w, routing.expert_rows)
        returned, work = _exchange(routing, torch.empty_like(made).index_copy_(0, routing.order, made), routing.received, routing.sent)
        work.wait()
        return returned
    z = y.new_empty((routing.row_count, w.shape[2]))

    def product(placed: _Rows) -> torch.Tensor:
        made = _multiply(y.index_select(0, placed.at), w, placed.counts)
        return torch.empty_like(made).index_copy_(0, placed.order, made)

    pending = []
    for first, end in blocks:
        block = routing.block(first, end)
        pending.append((block, *_exchange(routing, product(block.rows), block.received, block.sent)))
    z[routing.own_slice()] = product(routing.own())
    for block, rows, work in pending:
        work.wait()
        for start, part in zip(block.first_rows, rows.split(block.sent)):
            z[start : start + len(part)] = part
    return z


def _of_weights(rows: torch.Tensor, grads: torch.Tensor, counts: list[int]) -> torch.Tensor:
    out = rows.new_empty((len(counts), rows.shape[1], grads.shape[1]))
    for part, grad, product in zip(rows.split(counts), grads.split(counts), out):
        torch.mm(part.t(), grad, out=product)
    return out


def _function(name: str, forward: typing.Any, backward: typing.Any) -> typing.Any:
    """Gradients of gradients are refused: the matmuls write where they are told to."""
    methods = {"forward": staticmethod(forward), "backward": staticmethod(once_differentiable(backward))}
    return type(name, (torch.autograd.Function,), methods)


def _forward_dispatch(ctx: typing.Any, x: torch.Tensor, w: torch.Tensor, routing: Routing) -> torch.Tensor:
    y, arrived = _dispatch(x, w, routing, routing.has_gradients)
    ctx.routing = routing
    ctx.save_for_backward(arrived if ctx.needs_input_grad[1] else None, w)
    return y


def _backward_dispatch(ctx: typing.Any, grad: torch.Tensor) -> tuple[typing.Any, ...]:
    arrived, w = ctx.saved_tensors
    grad = grad.contiguous()
    of_x = _combine(grad, w.transpose(1, 2), ctx.routing, True)  # also where x needs none: the other ranks' may
    of_w = _of_weights(arrived, grad, ctx.routing.expert_rows) if ctx.needs_input_grad[1] else None
    return of_x, of_w, None


def _forward_combine(ctx: typing.Any, y: torch.Tensor, w: torch.Tensor, routing: Routing) -> torch.Tensor:
    ctx.routing = routing
    ctx.save_for_backward(y if ctx.needs_input_grad[1] else None, w)
    return _combine(y, w, routing, False)


def _backward_combine(ctx: typing.Any, grad: torch.Tensor) -> tuple[typing.Any, ...]:
    y, w = ctx.saved_tensors
    of_y, arrived = _dispatch(grad.contiguous(), w.transpose(1, 2), ctx.routing, True)
    of_w = _of_weights(y, arrived, ctx.routing.expert_rows) if ctx.needs_input_grad[1] else None
    return of_y, of_w, None


_Dispatch = _function("Dispatch", _forward_dispatch, _backward_dispatch)
_Combine = _function("Combine", _forward_combine, _backward_combine)
