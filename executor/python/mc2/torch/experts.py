"""Mixtures of experts where every expert is on one rank: rows go to the ranks of their experts and back, however
unevenly they are routed. Matmul and exchange are one call."""

from __future__ import annotations

import functools
import itertools
import typing

import torch
import torch.distributed as dist
from torch.autograd.function import once_differentiable

from ..errors import Error
from . import _autocast, _grouped, _groups, _layout, _native_experts, _plans, _problem
from ._checks import count_fault, refuse_gloo, refuse_type, require_one_type, require_tensors
from ._groups import ROUTES, Group, everyones, require_one_call
from ._routing import Routing, Rows, inverse
from .functional import uncompiled

_DISPATCH, _COMBINE = "all_to_all_matmul", "matmul_all_to_all"
_MAX_EXPERTS = 4096  # of all ranks
_LONG_PRODUCTS = 8192  # multiplications for each element that is exchanged
Activation = typing.Callable[[torch.Tensor], torch.Tensor]


@uncompiled
def route(counts: torch.Tensor | typing.Sequence[int], w: torch.Tensor, group: typing.Any = None) -> Routing:
    """Exchanges the ranks' counts and returns the routing of one step, for moe_dispatch_matmul() and
    moe_matmul_combine(). counts has the number of this rank's rows for each expert of all ranks, rank 0's experts
    first. Collective. The two operators have gradients if any rank called route() with gradients enabled. If a rank's
    counts are illegal, raises Error on all ranks."""
    require_tensors({"w": w}, "w")
    if w.dim() != 3 or w.shape[0] == 0:
        raise Error("invalid_spec", "w", "needs three dimensions: [experts of this rank, k, n], at least one expert")
    return _route(_whole_numbers(counts), w, _groups.resolve(group))


def _whole_numbers(counts: typing.Any) -> torch.Tensor:
    try:
        found = torch.as_tensor(counts)
    except (RuntimeError, TypeError, ValueError) as error:
        raise Error("invalid_spec", "counts", f"are {counts!r}; need whole numbers, a list or tensor") from error
    if found.numel() > 0 and (found.is_floating_point() or found.is_complex() or found.dtype == torch.bool):
        raise Error("invalid_spec", "counts", f"are {found.dtype}; need whole numbers")
    return found


def _route(
    counts: torch.Tensor, w: torch.Tensor, group: Group, max_rows: int = 0, w_down: torch.Tensor | None = None
) -> Routing:
    """max_rows: the most rows that a rank may have for another; 0: no limit. w_down: that of a whole layer, whose w_up
    is w [experts, k, n]."""
    refuse_gloo(w, group.backend)
    experts, w_name = w.shape[0], "w" if w_down is None else "w_up"
    if group.size * experts > _MAX_EXPERTS:
        raise Error(
            "invalid_spec",
            w_name,
            f"has {experts} experts on each of {group.size} ranks; legal: up to {_MAX_EXPERTS} in all",
        )
    given = counts.flatten().to(w.device, torch.int64)
    facts = _facts(w, len(given), max_rows, 0 if w_down is None else w_down.shape[2])
    start = len(facts)
    # Every rank sends the same number of counts, even a wrong list, so that all ranks learn whose counts are wrong.
    told = everyones(group, torch.cat([_on_device(facts, w.device), given[:_MAX_EXPERTS]]))
    told = told[:, : start + group.size * experts]
    on_host = told.cpu()  # the one wait for the device
    require_one_call(on_host[:, 0].tolist())
    _check_facts(on_host[:, 3:start].tolist(), group.size, w_name)
    refuse_type(w, group.backend)  # all ranks' types are alike here, so that all of them refuse
    shape = (group.size, group.size, experts)
    routing = Routing(
        group,
        on_host[:, start:].reshape(shape),
        told[:, start:].reshape(shape),
        bool(on_host[:, 1].any()),
        bool(on_host[:, 2].all()),
    )
    if max_rows and routing.largest > max_rows:
        raise Error("invalid_spec", "max_rows", f"is {max_rows}; a rank has {routing.largest} rows for another")
    return routing


def _facts(w: torch.Tensor, count: int, max_rows: int, columns: int) -> tuple[int, ...]:
    """What a rank tells the others beside its counts; all but the second and the third need to be alike. columns: of
    w_down."""
    dtype = list(_problem.DTYPES).index(w.dtype) if w.dtype in _problem.DTYPES else -1
    is_transposed = _layout.layout(w) == _layout.TRANSPOSED
    return ROUTES, int(torch.is_grad_enabled()), int(is_transposed), columns, max_rows, count, *w.shape, dtype


@functools.lru_cache(maxsize=256)
def _on_device(numbers: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """The numbers as a tensor on the device. Cached, because the host waits for each copy to a device."""
    with torch.inference_mode(False):
        return torch.tensor(numbers, dtype=torch.int64, device=device)


def _check_facts(of_ranks: list[list[int]], size: int, w_name: str) -> None:
    for rank, (columns, max_rows, count, experts, *others) in enumerate(of_ranks):
        if [experts, *others] != of_ranks[0][3:]:
            raise Error(
                "invalid_spec",
                w_name,
                f"rank {rank} has {_experts_text(experts, *others)} and rank 0 {_experts_text(*of_ranks[0][3:])}; "
                "needs as many, of one shape and type",
            )
        if count != size * experts:
            raise Error(
                "invalid_spec",
                "counts",
                f"rank {rank} gives {count} numbers; needs one for each of the {size * experts} experts",
            )
        if max_rows != of_ranks[0][1]:
            raise Error(
                "invalid_spec",
                "max_rows",
                f"is {max_rows} on rank {rank} and {of_ranks[0][1]} on rank 0; needs to be the same",
            )
        if columns != of_ranks[0][0]:
            raise Error(
                "invalid_spec",
                "w_down",
                f"has {columns} columns on rank {rank} and {of_ranks[0][0]} on rank 0; needs as many",
            )


def _experts_text(experts: int, k: int, n: int, dtype: int) -> str:
    return f"{experts} experts [{k}, {n}] of {list(_problem.DTYPES)[dtype] if dtype >= 0 else 'another type'}"


@uncompiled
def moe_dispatch_matmul(
    x: torch.Tensor,
    w: torch.Tensor,
    routing: Routing,
    *,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Sends the rows of x [rows, k], sorted by expert of all ranks, to the ranks of their experts, and multiplies the
    rows that arrive by this rank's experts w [experts, k, n]. Returns [received rows, n], sorted by expert and, within
    an expert, by the rank that sent the row. Row e of bias [experts, n] is added to the rows of expert e; either all
    ranks pass a bias or none does."""
    if (dtype := _autocast.type_for(x)) is not None:
        return _autocast.call(dtype, lambda x, w, bias: moe_dispatch_matmul(x, w, routing, bias=bias), x, w, bias)
    _check("x", x, w, bias, routing)
    return typing.cast(torch.Tensor, _Dispatch.apply(x, w, bias, routing))


@uncompiled
def moe_matmul_combine(
    y: torch.Tensor,
    w: torch.Tensor,
    routing: Routing,
    *,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Multiplies the rows of y [received rows, k], in the order of moe_dispatch_matmul()'s result, by their experts w
    [experts, k, n], and sends the products back to the ranks and places that the rows came from. Returns [rows, n].
    bias [experts, n] as in moe_dispatch_matmul()."""
    if (dtype := _autocast.type_for(y)) is not None:
        return _autocast.call(dtype, lambda y, w, bias: moe_matmul_combine(y, w, routing, bias=bias), y, w, bias)
    _check("y", y, w, bias, routing)
    return typing.cast(torch.Tensor, _Combine.apply(y, w, bias, routing))


class _Choice:
    """The order of the chosen rows by expert, and the inverse order. With both, gradients gather rows and need no
    scattered sums."""

    def __init__(self, order: torch.Tensor, token_count: int, top_k: int) -> None:
        self.shape = token_count, top_k
        self.order, self.places, self.token = order, inverse(order), order // max(top_k, 1)


@uncompiled
def moe_layer(
    x: torch.Tensor,
    experts: torch.Tensor,
    weights: torch.Tensor,
    w_up: torch.Tensor,
    w_down: torch.Tensor,
    group: typing.Any = None,
    *,
    bias_up: torch.Tensor | None = None,
    bias_down: torch.Tensor | None = None,
    activation: Activation = torch.nn.functional.silu,
    max_rows: int | None = None,
) -> torch.Tensor:
    """A mixture-of-experts layer on this rank's tokens x [tokens, h]: returns the weighted sum of each token's experts,
    [tokens, h].

    experts     [tokens, top k]: the experts that a router chose, numbered over all ranks
    weights     [tokens, top k]: their weights
    w_up        [experts of this rank, h, f]; bias_up [experts of this rank, f] is added to its product
    activation  applied between the two matmuls; its result has f' columns
    w_down      [experts of this rank, f', h]; bias_down [experts of this rank, h] is added to its product
    max_rows    a promise: no rank has more rows (tokens times chosen experts) for one rank. mc2's own GPU backend then
                needs no counts on the host, so that the call returns at once and a CUDA graph may hold it. Must be the
                same in all calls, and needs torch.no_grad(). The activation must then work row by row; it also gets
                rows without meaning after the last one

    If the activation fails on a rank, its error is raised there, and the other ranks' tokens that chose experts of this
    rank become NaN. Expert numbers that do not exist, and broken promises, raise Error on all ranks. A call that does
    not wait for the device cannot raise: its result is NaN, and a later call raises NativeError."""
    found = _groups.resolve(group)
    if (dtype := _autocast.type_for(x)) is not None:  # which stays on for the activation
        x, w_up, w_down = (_autocast.cast(one, dtype) for one in (x, w_up, w_down))
        bias_up, bias_down = (_autocast.cast(one, dtype) for one in (bias_up, bias_down))
    _check_layer(x, experts, weights, w_up, w_down, activation)
    if max_rows is not None:
        _check_promise(max_rows)
    for name, w, bias in (("bias_up", w_up, bias_up), ("bias_down", w_down, bias_down)):
        _check_bias(bias, w, name)
    total = found.size * w_up.shape[0]
    chosen, order = experts.flatten().to(torch.int64).sort(stable=True)
    ends = torch.searchsorted(chosen, torch.arange(total + 1, device=chosen.device))
    # An expert number that does not exist makes all counts -1, which no count can be, so that all ranks learn of it
    # without a wait for the device here.
    counts = torch.where(ends[-1] - ends[0] == len(chosen), ends.diff(), -1)
    choice = _Choice(order, *experts.shape)
    halves = _native_experts.Half(w_up, bias_up), _native_experts.Half(w_down, bias_down)
    native = None if max_rows is None else _native_experts.layer_of(found, x, *halves, max_rows)
    if native:
        product = native(x, choice.token, counts, *halves, activation)
    else:
        rows = _Rows.apply(x, choice)  # enqueued before _route() waits for the counts
        try:
            routing = _route(counts, w_up, found, max_rows or 0, w_down)
        except Error as error:
            wrong = chosen[(chosen < 0) | (chosen >= total)].tolist()[:1]
            if not wrong:
                raise
            raise Error(
                "invalid_spec", "experts", f"name expert {wrong[0]}; there are {total}, 0 to {total - 1}"
            ) from error
        dispatched = moe_dispatch_matmul(rows, w_up, routing, bias=bias_up)
        shape = routing.received_count, w_down.shape[1]
        hidden, failure = _native_experts.activated(activation, dispatched, shape)
        product = moe_matmul_combine(hidden.to(w_down.dtype), w_down, routing, bias=bias_down)
        if failure is not None:
            raise failure
    of_tokens = _Return.apply(product, choice).view(*experts.shape, product.shape[1])
    return typing.cast(torch.Tensor, (of_tokens * weights[..., None].to(product.dtype)).sum(1))


def _check_layer(
    x: torch.Tensor,
    experts: torch.Tensor,
    weights: torch.Tensor,
    w_up: torch.Tensor,
    w_down: torch.Tensor,
    activation: Activation,
) -> None:
    """Raises Error naming the argument that is wrong."""
    if not callable(activation):
        raise Error("invalid_spec", "activation", f"is a {type(activation).__name__}; needs a function of a tensor")
    require_tensors({"x": x, "experts": experts, "weights": weights, "w_up": w_up, "w_down": w_down}, "x")
    require_one_type({"x": x, "w_up": w_up, "w_down": w_down})
    if x.dim() != 2:
        raise Error("invalid_spec", "x", f"has shape {tuple(x.shape)}; needs [tokens, h]")
    if experts.dim() != 2 or len(experts) != len(x) or experts.dtype not in (torch.int32, torch.int64):
        raise Error(
            "invalid_spec",
            "experts",
            f"is {experts.dtype} of shape {tuple(experts.shape)}; needs int64 or int32 [{len(x)}, top k], as x has "
            f"{len(x)} tokens",
        )
    if weights.shape != experts.shape or not weights.is_floating_point():
        raise Error(
            "invalid_spec",
            "weights",
            f"is {weights.dtype} of shape {tuple(weights.shape)}; needs floating-point numbers {list(experts.shape)}",
        )
    if w_up.dim() != 3 or w_up.shape[0] == 0 or w_up.shape[1] != x.shape[1]:
        raise Error(
            "invalid_spec",
            "w_up",
            f"has shape {tuple(w_up.shape)}; needs [experts of this rank, {x.shape[1]}, f], at least one expert",
        )
    if w_down.dim() != 3 or w_down.shape[0] != w_up.shape[0]:
        raise Error(
            "invalid_spec",
            "w_down",
            f"has shape {tuple(w_down.shape)}; needs [{w_up.shape[0]}, columns of the activation, h]",
        )


def _check_promise(max_rows: int) -> None:
    fault = count_fault(max_rows)
    if fault:
        raise Error("invalid_spec", "max_rows", fault)
    if torch.is_grad_enabled():
        raise Error(
            "invalid_spec", "max_rows", "is for calls without gradients; call under torch.no_grad(), or without it"
        )


def _check_bias(bias: torch.Tensor | None, w: torch.Tensor, name: str = "bias") -> None:
    if bias is not None and (not isinstance(bias, torch.Tensor) or bias.shape != (w.shape[0], w.shape[2])):
        shape = tuple(bias.shape) if isinstance(bias, torch.Tensor) else bias
        needed = [w.shape[0], w.shape[2]]
        raise Error("invalid_spec", name, f"has shape {shape}; needs {needed}, a row for each expert")
    if bias is not None and (bias.dtype != w.dtype or bias.device != w.device):
        raise Error(
            "invalid_spec", name, f"is {bias.dtype} on {bias.device} and w {w.dtype} on {w.device}; " "need to be alike"
        )


def _check(name: str, rows: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, routing: Routing) -> None:
    """name: the caller's name of `rows`, "x" in a dispatch and "y" in a combine."""
    if not isinstance(routing, Routing):
        raise Error("invalid_spec", "routing", f"is a {type(routing).__name__}; needs what route() gives")
    require_tensors({name: rows, "w": w}, name)
    needs_gradients = any(isinstance(one, torch.Tensor) and one.requires_grad for one in (rows, w, bias))
    if torch.is_grad_enabled() and needs_gradients and not routing.has_gradients:
        raise Error("invalid_spec", "routing", "was made where no rank had gradients enabled; call route() with them")
    row_count = routing.row_count if name == "x" else routing.received_count
    if rows.dim() != 2 or len(rows) != row_count:
        raise Error("invalid_spec", name, f"has shape {tuple(rows.shape)}; the routing has {row_count} rows here")
    if w.dim() != 3 or w.shape[:2] != (routing.experts, rows.shape[1]):
        raise Error("invalid_spec", "w", f"has shape {tuple(w.shape)}; needs [{routing.experts}, {rows.shape[1]}, n]")
    if rows.dtype != w.dtype:
        raise Error("invalid_spec", "w", f"is {w.dtype} and {name} {rows.dtype}; need to be alike")
    _check_bias(bias, w)


def _blocks(kind: str, routing: Routing, x: torch.Tensor, w: torch.Tensor) -> list[tuple[int, int]]:
    """The blocks of a plan, as [first, end) of the rows that each rank has for each rank."""
    lengths = _plans.counted_blocks(kind, routing.group, x, w[0], routing.capacity * routing.group.size)
    ends = list(itertools.accumulate(lengths))
    return list(zip([0, *ends], ends))


def _native_of(
    kind: str,
    routing: Routing,
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None,
    is_backward: bool,
) -> _native_experts.NativeExperts | None:
    """mc2's own backend for these experts; None where it does not run. None also for long matmuls of many rows, which
    lose more by the SMs that the exchange takes than the exchange costs (docs/gpu_results.md). w has the layout of
    route()'s w; in backward passes it is the transpose of such a w. The first call is collective."""
    experts, k, n = w.shape
    products_of_an_element = n if kind == _DISPATCH else k  # multiplications for each element that is exchanged
    if (
        products_of_an_element > _LONG_PRODUCTS
        and routing.capacity * routing.group.size > _native_experts.NativeExperts.FEW_ROWS * experts
    ):
        return None
    problem = _native_experts.problem_of(kind, routing.group, x, experts, k, n, routing.capacity)
    half, is_transposed = _native_experts.Half(w, bias), routing.is_transposed != is_backward
    return problem and _native_experts.experts_of(problem, experts, half, is_transposed)


def _exchange(
    routing: Routing, given: torch.Tensor, sent: list[int], received: list[int]
) -> tuple[torch.Tensor, typing.Any]:
    out = given.new_empty((sum(received), given.shape[1]))
    return out, dist.all_to_all_single(out, given, received, sent, group=routing.group.handle, async_op=True)


def _dispatch(
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None,
    routing: Routing,
    keeps_rows: bool,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Returns the product and the rows that it was made of; mc2's own backend, used only if not keeps_rows, returns no
    rows. All exchanges start at once. The rank's own rows are multiplied first, the others as they arrive."""
    if not keeps_rows and (native := _native_of(_DISPATCH, routing, x, w, bias, False)):
        return native(x, _native_experts.Half(w, bias), routing.sent_counts, routing.received_count), None
    x = _layout.dense(x)
    blocks = _blocks(_DISPATCH, routing, x, w)
    if len(blocks) == 1:
        received, work = _exchange(routing, x, routing.sent, routing.received)
        work.wait()
        rows = received.index_select(0, routing.order)
        return _grouped.multiply(rows, w, routing.expert_rows, bias), rows
    y = x.new_empty((routing.received_count, w.shape[2]))
    arrived = x.new_empty((routing.received_count, x.shape[1]))

    def multiply(rows: torch.Tensor, placed: Rows) -> None:
        rows = rows.index_select(0, placed.order)
        arrived.index_copy_(0, placed.at, rows)
        y.index_copy_(0, placed.at, _grouped.multiply(rows, w, placed.counts, bias))

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


def _combine(
    y: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None,
    routing: Routing,
    is_backward: bool,
) -> torch.Tensor:
    """Each block's exchange runs while the next blocks are multiplied. Rows that stay on this rank are multiplied
    last."""
    if native := _native_of(_COMBINE, routing, y, w, bias, is_backward):
        return native(y, _native_experts.Half(w, bias), routing.received_counts, routing.row_count)
    blocks = _blocks(_COMBINE, routing, y, w)
    if len(blocks) == 1:
        made = _grouped.multiply(y, w, routing.expert_rows, bias)
        returned, work = _exchange(routing, made.index_select(0, routing.places), routing.received, routing.sent)
        work.wait()
        return returned
    z = y.new_empty((routing.row_count, w.shape[2]))

    def product(placed: Rows) -> torch.Tensor:
        made = _grouped.multiply(y.index_select(0, placed.at), w, placed.counts, bias)
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


def _function(name: str, forward: typing.Any, backward: typing.Any) -> typing.Any:
    """An autograd function. It refuses gradients of gradients, because its matmuls write to given outputs."""
    methods = {"forward": staticmethod(forward), "backward": staticmethod(once_differentiable(backward))}
    return type(name, (torch.autograd.Function,), methods)


def _of_bias(grad: torch.Tensor, routing: Routing) -> torch.Tensor:
    return _grouped.of_bias(grad, _grouped.experts_of_rows(routing.expert_rows, grad.device), routing.experts)


def _forward_dispatch(
    ctx: typing.Any,
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None,
    routing: Routing,
) -> torch.Tensor:
    y, arrived = _dispatch(x, w, bias, routing, routing.has_gradients)
    ctx.routing = routing
    ctx.save_for_backward(arrived if ctx.needs_input_grad[1] else None, w)
    return y


def _backward_dispatch(ctx: typing.Any, grad: torch.Tensor) -> tuple[typing.Any, ...]:
    arrived, w = ctx.saved_tensors
    grad = grad.contiguous()
    of_x = _combine(grad, w.transpose(1, 2), None, ctx.routing, True)  # even if x needs none: other ranks' x may
    of_w = _grouped.of_weights(arrived, grad, ctx.routing.expert_rows) if ctx.needs_input_grad[1] else None
    of_bias = _of_bias(grad, ctx.routing) if ctx.needs_input_grad[2] else None
    return of_x, of_w, of_bias, None


def _forward_combine(
    ctx: typing.Any,
    y: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None,
    routing: Routing,
) -> torch.Tensor:
    ctx.routing, y = routing, y.contiguous()
    ctx.save_for_backward(y if ctx.needs_input_grad[1] else None, w)
    return _combine(y, w, bias, routing, False)


def _backward_combine(ctx: typing.Any, grad: torch.Tensor) -> tuple[typing.Any, ...]:
    y, w = ctx.saved_tensors
    of_y, arrived = _dispatch(grad.contiguous(), w.transpose(1, 2), None, ctx.routing, True)
    of_w = _grouped.of_weights(y, arrived, ctx.routing.expert_rows) if ctx.needs_input_grad[1] else None
    of_bias = _of_bias(typing.cast(torch.Tensor, arrived), ctx.routing) if ctx.needs_input_grad[2] else None
    return of_y, of_w, of_bias, None


def _forward_rows(ctx: typing.Any, x: torch.Tensor, choice: _Choice) -> torch.Tensor:
    ctx.choice = choice
    return x.index_select(0, choice.token)


def _backward_rows(ctx: typing.Any, grad: torch.Tensor) -> tuple[typing.Any, ...]:
    return grad.index_select(0, ctx.choice.places).view(*ctx.choice.shape, grad.shape[1]).sum(1), None


def _forward_return(ctx: typing.Any, product: torch.Tensor, choice: _Choice) -> torch.Tensor:
    ctx.choice = choice
    return product.index_select(0, choice.places)


def _backward_return(ctx: typing.Any, grad: torch.Tensor) -> tuple[typing.Any, ...]:
    return grad.index_select(0, ctx.choice.order), None


_Rows = _function("Rows", _forward_rows, _backward_rows)
_Return = _function("Return", _forward_return, _backward_return)
_Dispatch = _function("Dispatch", _forward_dispatch, _backward_dispatch)
_Combine = _function("Combine", _forward_combine, _backward_combine)
