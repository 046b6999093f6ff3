"""Mixtures of experts where every rank holds a part of each expert: rows choose experts, and matmul and collective are
one call."""

from __future__ import annotations

import typing

import torch
from torch.autograd.function import once_differentiable

from .._core import CHOOSING_KINDS
from ..errors import Error
from . import _autocast, _chosen, _epilogue, _grouped, _groups, _ops, _plans
from ._checks import refuse_gloo, refuse_type, require_one_type, require_tensors
from ._chosen import Rows
from ._problem import Experts
from .functional import Facts, facts, is_compiling, is_plain

_GATHER, _SCATTER, _SUM = CHOOSING_KINDS
_MAX_TOP_K = 64
_Added = typing.Optional[torch.Tensor]
_Gradients = typing.Tuple[_Added, ...]


def all_gather_grouped_matmul(
    x: torch.Tensor,
    w: torch.Tensor,
    experts: torch.Tensor,
    group: typing.Any = None,
    *,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Gathers all ranks' rows x [m / ranks, k] and multiplies each row by its chosen experts, of which w [count, k, n]
    holds this rank's part. Returns [m top_k, n], the top_k products of a row one below the other. experts [m, top_k]
    has the expert numbers that all m rows chose; bias [count, n] has a row for each expert."""
    return _call(_GATHER, x, w, experts, None, bias, None, group)


def grouped_matmul_reduce_scatter(
    x: torch.Tensor,
    w: torch.Tensor,
    experts: torch.Tensor,
    weights: torch.Tensor,
    group: typing.Any = None,
    *,
    bias: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
) -> torch.Tensor:
    """Multiplies the rows of x [m top_k, k], ordered as in the result of all_gather_grouped_matmul(), by the experts w
    [count, k, n] that they chose. Sums the products of each token, times their weights [m, top_k], over its choices and
    over the ranks, and returns this rank's share [m / ranks, n]. bias [n] and residual (the result's shape) are added
    once. All ranks must pass the same experts and weights."""
    return _call(_SCATTER, x, w, experts, weights, bias, residual, group)


def grouped_matmul_all_reduce(
    x: torch.Tensor,
    w: torch.Tensor,
    experts: torch.Tensor,
    weights: torch.Tensor,
    group: typing.Any = None,
    *,
    bias: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
) -> torch.Tensor:
    """As grouped_matmul_reduce_scatter(), but every rank gets all rows [m, n]. All ranks must pass the same bias and
    residual."""
    return _call(_SUM, x, w, experts, weights, bias, residual, group)


def _call(
    kind: str,
    x: torch.Tensor,
    w: torch.Tensor,
    experts: torch.Tensor,
    weights: _Added,
    bias: _Added,
    residual: _Added,
    group: typing.Any,
) -> torch.Tensor:
    if _autocast.is_any_on() and (dtype := _autocast.type_for(x)) is not None:  # weights keep their type: f32 sums

        def call(x: torch.Tensor, w: torch.Tensor, bias: _Added, residual: _Added) -> torch.Tensor:
            return _call(kind, x, w, experts, weights, bias, residual, group)

        return _autocast.call(dtype, call, x, w, bias, residual)
    found: Facts | _groups.Group = typing.cast(Facts, facts(group)) if is_compiling() else _groups.resolve(group)
    added = {"bias": bias, "residual": residual}
    _check(kind, x, w, experts, weights, {name: one for name, one in added.items() if one is not None}, found)
    tensors = (x, w, experts, *((bias,) if kind == _GATHER else (weights, bias, residual)))
    if not is_compiling() and all(one is None or is_plain(one) for one in tensors):
        return typing.cast(torch.Tensor, _REAL[kind](*tensors, found.name))  # PyTorch's dispatcher would only cost time
    return typing.cast(torch.Tensor, getattr(torch.ops.mc2, kind)(*tensors, found.name))


def _check(
    kind: str,
    x: torch.Tensor,
    w: torch.Tensor,
    experts: torch.Tensor,
    weights: _Added,
    added: dict[str, torch.Tensor],
    group: _groups.Group | Facts,
) -> None:
    """Raises Error naming the argument that is wrong."""
    sums = kind != _GATHER
    require_tensors({"x": x, "w": w, "experts": experts, **({"weights": weights} if sums else {}), **added}, "x")
    require_one_type({"x": x, "w": w, **added})
    if experts.dim() != 2 or experts.numel() == 0 or experts.dtype not in (torch.int32, torch.int64):
        raise Error(
            "invalid_spec",
            "experts",
            f"is {experts.dtype} of shape {tuple(experts.shape)}; needs int64 or int32 "
            "[rows of all ranks, top k], not empty",
        )
    if w.dim() != 3 or w.numel() == 0:
        raise Error("invalid_spec", "w", f"has shape {tuple(w.shape)}; needs [experts, k, n], not empty")
    (m, top_k), (count, k, n), most = experts.shape, w.shape, min(_MAX_TOP_K, len(w))
    if top_k > most:
        raise Error(
            "invalid_spec",
            "experts",
            f"has shape {tuple(experts.shape)}; a row chooses at most {most} of {count} experts",
        )
    if kind != _SUM and m % group.size != 0:
        raise Error(
            "invalid_spec",
            "experts",
            f"has shape {tuple(experts.shape)}; needs rows that the {group.size} ranks divide",
        )
    if weights is not None and (weights.shape != experts.shape or not weights.is_floating_point()):
        raise Error(
            "invalid_spec",
            "weights",
            f"is {weights.dtype} of shape {tuple(weights.shape)}; needs floating-point numbers {list(experts.shape)}",
        )
    row_count = m * top_k if sums else m // group.size
    if list(x.shape) != [row_count, k]:
        raise Error(
            "invalid_spec",
            "x",
            f"has shape {tuple(x.shape)}; needs {[row_count, k]}, by w, experts {list(experts.shape)} and "
            f"{group.size} ranks",
        )
    shapes = {"bias": [n] if sums else [count, n], "residual": [m if kind == _SUM else m // group.size, n]}
    for name, tensor in added.items():
        if list(tensor.shape) != shapes[name]:
            raise Error("invalid_spec", name, f"has shape {tuple(tensor.shape)}; needs {shapes[name]}")
    refuse_gloo(x, group.backend, kind == _SUM)
    refuse_type(x, group.backend)


def _run(
    kind: str,
    x: torch.Tensor,
    w: torch.Tensor,
    experts: torch.Tensor,
    weights: _Added,
    bias: _Added,
    residual: _Added,
    name: str,
) -> torch.Tensor:
    rows = Rows(
        x, experts.long(), None if weights is None else weights.to(_epilogue.precise_type(x.dtype)).contiguous()
    )
    own, added = Experts(len(w), experts.shape[1]), _epilogue.added(bias, residual)
    y, _ = _plans.execute(kind, _groups.by_name(name), typing.cast(torch.Tensor, rows), w, len(experts), added, own)
    fault = None if x.is_cuda else _chosen.choices_fault(experts, weights, len(w))
    if fault:  # raised after the exchange, because ranks that were given legal choices wait in it for this rank
        raise fault
    return y


def _real_gather(x: torch.Tensor, w: torch.Tensor, experts: torch.Tensor, bias: _Added, name: str) -> torch.Tensor:
    return _run(_GATHER, x, w, experts, None, bias, None, name)


def _fake_gather(
    x: torch.Tensor, w: torch.Tensor, experts: torch.Tensor, bias: _Added, group_name: str
) -> torch.Tensor:
    return x.new_empty((experts.shape[0] * experts.shape[1], w.shape[2]))


def _set_up_gather(ctx: typing.Any, inputs: tuple[typing.Any, ...], output: torch.Tensor) -> None:
    x, w, experts, _, ctx.group_name = inputs
    ctx.save_for_backward(x, w, experts)


@once_differentiable
def _backward_gather(ctx: typing.Any, grad: torch.Tensor) -> _Gradients:
    x, w, experts = ctx.saved_tensors
    needs, ops, grad = ctx.needs_input_grad, torch.ops.mc2, grad.contiguous()
    of_x = of_w = of_bias = None
    if needs[0]:
        once = torch.ones(experts.shape, device=x.device)
        of_x = ops.grouped_matmul_reduce_scatter(grad, w.transpose(1, 2), experts, once, None, None, ctx.group_name)
    if needs[1]:
        of_w = ops.chosen_experts_gradient(ops.all_gather(x, ctx.group_name), grad, experts, w.shape[0])
    if needs[3]:
        of_bias = ops.chosen_bias_gradient(grad, experts, w.shape[0])
    return of_x, of_w, None, of_bias, None


def _real_sum(kind: str) -> typing.Callable[..., torch.Tensor]:
    return lambda x, w, experts, weights, bias, residual, name: _run(kind, x, w, experts, weights, bias, residual, name)


def _fake_sum(kind: str) -> typing.Callable[..., torch.Tensor]:
    def shape(
        x: torch.Tensor,
        w: torch.Tensor,
        experts: torch.Tensor,
        weights: torch.Tensor,
        bias: _Added,
        residual: _Added,
        group_name: str,
    ) -> torch.Tensor:
        parts = _groups.by_name(group_name).size if kind == _SCATTER else 1
        return x.new_empty((experts.shape[0] // parts, w.shape[2]))

    return shape


def _set_up_sum(ctx: typing.Any, inputs: tuple[typing.Any, ...], output: torch.Tensor) -> None:
    x, w, experts, weights, _, _, ctx.group_name = inputs
    ctx.save_for_backward(x, w, experts, weights)


def _backward_sum(kind: str) -> typing.Callable[..., _Gradients]:
    """Makes the backward function. It assumes that the gradient of an all-reduced result is the same on all ranks. The
    gradient of the weights, which all ranks have, is summed over the ranks."""

    @once_differentiable
    def backward(ctx: typing.Any, grad: torch.Tensor) -> _Gradients:
        x, w, experts, weights = ctx.saved_tensors
        needs, ops, name, grad = ctx.needs_input_grad, torch.ops.mc2, ctx.group_name, grad.contiguous()
        of_x = of_w = of_weights = None
        if needs[0] or needs[3]:
            back = w.transpose(1, 2)
            unweighted = (
                ops.all_gather_grouped_matmul(grad, back, experts, None, name)
                if kind == _SCATTER
                else ops.chosen_matmul(grad, back, experts)
            )
            of_x = _scaled(unweighted, weights) if needs[0] else None
            if needs[3]:
                own = (_epilogue.precise(x) * _epilogue.precise(unweighted)).sum(1).view(weights.shape)
                of_weights = ops.all_reduce(own, name).to(weights.dtype)
        if needs[1]:
            whole = ops.all_gather(grad, name) if kind == _SCATTER else grad
            of_w = ops.chosen_experts_gradient(_scaled(x, weights), whole, experts, w.shape[0])
        of_bias = None
        if needs[4]:
            of_bias = ops.all_reduce(grad.sum(0), name) if kind == _SCATTER else grad.sum(0)
        return of_x, of_w, None, of_weights, of_bias, grad if needs[5] else None, None

    return backward


def _scaled(rows: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return (rows * weights.reshape(-1, 1)).to(rows.dtype)


# Parts of gradients. Each is one operator because a trace does not know how many rows an expert has.


def _matmul(x: torch.Tensor, w: torch.Tensor, experts: torch.Tensor) -> torch.Tensor:
    return _chosen.of_tokens(x, torch.arange(len(x), device=x.device), experts.long(), w)


def _fake_matmul(x: torch.Tensor, w: torch.Tensor, experts: torch.Tensor) -> torch.Tensor:
    return x.new_empty((experts.shape[0] * experts.shape[1], w.shape[2]))


def _of_weights(x: torch.Tensor, grad: torch.Tensor, experts: torch.Tensor, count: int) -> torch.Tensor:
    return _chosen.of_weights(x, grad, experts.long(), count)


def _fake_of_weights(x: torch.Tensor, grad: torch.Tensor, experts: torch.Tensor, count: int) -> torch.Tensor:
    return x.new_empty((count, x.shape[1], grad.shape[1]))


def _of_bias(grad: torch.Tensor, experts: torch.Tensor, count: int) -> torch.Tensor:
    return _grouped.of_bias(grad, _chosen.within(experts.long().flatten(), count), count)


def _fake_of_bias(grad: torch.Tensor, experts: torch.Tensor, count: int) -> torch.Tensor:
    return grad.new_empty((count, grad.shape[1]))


_REAL: dict[str, typing.Callable[..., torch.Tensor]] = {
    _GATHER: _real_gather,
    **{kind: _real_sum(kind) for kind in (_SCATTER, _SUM)},
}


def _register_all() -> None:
    _ops.register(
        _GATHER, "Tensor x, Tensor w, Tensor experts, Tensor? bias, str group_name", _real_gather, _fake_gather
    )
    _ops.register_autograd(_GATHER, _set_up_gather, _backward_gather)
    for kind in (_SCATTER, _SUM):
        signature = "Tensor x, Tensor w, Tensor experts, Tensor weights, Tensor? bias, Tensor? residual, str group_name"
        _ops.register(kind, signature, _REAL[kind], _fake_sum(kind))
        _ops.register_autograd(kind, _set_up_sum, _backward_sum(kind))
    _ops.register("chosen_matmul", "Tensor x, Tensor w, Tensor experts", _matmul, _fake_matmul)
    _ops.register(
        "chosen_experts_gradient", "Tensor x, Tensor grad, Tensor experts, int count", _of_weights, _fake_of_weights
    )
    _ops.register("chosen_bias_gradient", "Tensor grad, Tensor experts, int count", _of_bias, _fake_of_bias)


_register_all()
