"""Registers the operators with PyTorch, with fake implementations and gradients, so that torch.compile traces them."""

from __future__ import annotations

import contextlib
import typing

import torch
from torch.autograd.function import once_differentiable

from .._core import GATHERING_KINDS, SHARDED_KINDS, SUMMING_KINDS
from . import _epilogue, _groups, _passes, _plans
from ._epilogue import Epilogue
from ._groups import Group
from ._scaled import PRODUCT, Scaled

_library = torch.library.Library("mc2", "DEF")
_Gradients = tuple[typing.Optional[torch.Tensor], ...]


class _HasSize(typing.Protocol):
    @property
    def size(self) -> int:
        ...


def _rows(kind: str, group: _HasSize, m: int) -> int:
    """Number of rows of the product if x has m rows."""
    return m * group.size if kind in GATHERING_KINDS else m


def result_rows(kind: str, group: _HasSize, m: int) -> int:
    """Number of rows of the result if x has m rows."""
    is_scattered_sum = kind in SUMMING_KINDS and kind in SHARDED_KINDS
    return m // group.size if is_scattered_sum else _rows(kind, group, m)


_Added = typing.Optional[torch.Tensor]


def run(kind: str, group: Group, x: torch.Tensor, w: torch.Tensor, epilogue: Epilogue) -> torch.Tensor:
    """Runs the kind on matrices, without PyTorch's dispatcher."""
    return _plans.execute(kind, group, x, w, _rows(kind, group, x.shape[0]), epilogue)[0]


def run_scaled(kind: str, group: Group, x: Scaled, w: torch.Tensor, epilogue: Epilogue) -> torch.Tensor:
    """As run(), on 8-bit floats."""
    given = typing.cast(torch.Tensor, x)
    return _plans.execute(kind, group, given, w, _rows(kind, group, len(x.x)), epilogue)[0]


def run_with_norm(
    kind: str, group: Group, x: torch.Tensor, w: torch.Tensor, epilogue: Epilogue
) -> tuple[torch.Tensor, torch.Tensor]:
    """Runs a kind that sums, and returns its result and the normalised rows."""
    y, normed = _plans.execute(kind, group, x, w, x.shape[0], epilogue)
    return y, typing.cast(torch.Tensor, normed)


def _real(kind: str) -> typing.Callable[..., torch.Tensor]:
    return lambda x, w, bias, name, residual=None: run(
        kind, _groups.by_name(name), x, w, _epilogue.added(bias, residual)
    )


def _fake(kind: str) -> typing.Callable[..., torch.Tensor]:
    def shape(x: torch.Tensor, w: torch.Tensor, bias: _Added, group_name: str, residual: _Added = None) -> torch.Tensor:
        return x.new_empty((result_rows(kind, _groups.by_name(group_name), x.shape[0]), w.shape[1]))

    return shape


def _real_scaled(kind: str) -> typing.Callable[..., torch.Tensor]:
    return lambda x, w, x_scale, w_scale, bias, residual, name: run_scaled(
        kind, _groups.by_name(name), Scaled(x, x_scale, w_scale), w, _epilogue.added(bias, residual)
    )


def _fake_scaled(kind: str) -> typing.Callable[..., torch.Tensor]:
    def shape(
        x: torch.Tensor,
        w: torch.Tensor,
        x_scale: torch.Tensor,
        w_scale: torch.Tensor,
        bias: _Added,
        residual: _Added,
        group_name: str,
    ) -> torch.Tensor:
        return x.new_empty((result_rows(kind, _groups.by_name(group_name), x.shape[0]), w.shape[1]), dtype=PRODUCT)

    return shape


def _real_norm(kind: str) -> typing.Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    return lambda x, w, norm_weight, bias, residual, epsilon, name: run_with_norm(
        kind, _groups.by_name(name), x, w, Epilogue(bias, residual, norm_weight, epsilon)
    )


def _fake_norm(kind: str) -> typing.Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    def shapes(
        x: torch.Tensor,
        w: torch.Tensor,
        norm_weight: torch.Tensor,
        bias: _Added,
        residual: _Added,
        epsilon: float,
        group_name: str,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        y = _fake(kind)(x, w, bias, group_name)
        return y, torch.empty_like(y)

    return shapes


def run_with_rows(group: Group, x: torch.Tensor, w: torch.Tensor, bias: _Added) -> tuple[torch.Tensor, torch.Tensor]:
    """Runs all_gather_matmul, and returns its result and the gathered rows."""
    return _plans.execute_with_rows(group, x, w, _epilogue.added(bias, None))


def _fake_rows(
    x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, group_name: str
) -> tuple[torch.Tensor, torch.Tensor]:
    m = x.shape[0] * _groups.by_name(group_name).size
    return x.new_empty((m, w.shape[1])), x.new_empty((m, x.shape[1]))


def _matmul(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, group_name: str) -> torch.Tensor:
    return torch.mm(x, w) if bias is None else torch.addmm(bias, x, w)


def _fake_matmul(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, group_name: str) -> torch.Tensor:
    return x.new_empty((x.shape[0], w.shape[1]))


# Collectives without a matmul, which gradients need.
def _alone(
    run: typing.Callable[[Group, torch.Tensor], torch.Tensor]
) -> typing.Callable[[torch.Tensor, str], torch.Tensor]:
    return lambda x, group_name: run(_groups.by_name(group_name), x)


def _gathered(x: torch.Tensor, group_name: str) -> torch.Tensor:
    return x.new_empty((x.shape[0] * _groups.by_name(group_name).size, *x.shape[1:]))


def _same(x: torch.Tensor, group_name: str) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


# Gradients of x and w for y = collective(x @ w) and y = collective(x) @ w, from the gradient of y; only those that are
# needed. The gradient of an all-reduced result is assumed to be the same on all ranks, as in Megatron-LM's operator g,
# whose backward pass is the identity. They are not differentiated again: the collectives in them have no gradients.
_Needs = typing.Sequence[bool]


def _of_all_reduce(x: torch.Tensor, w: torch.Tensor, grad: torch.Tensor, name: str, needs: _Needs) -> _Gradients:
    return grad @ w.t() if needs[0] else None, x.t() @ grad if needs[1] else None


def _of_reduce_scatter(x: torch.Tensor, w: torch.Tensor, grad: torch.Tensor, name: str, needs: _Needs) -> _Gradients:
    return _of_all_reduce(x, w, torch.ops.mc2.all_gather(grad, name), name, needs)


def _of_all_gather(x: torch.Tensor, w: torch.Tensor, grad: torch.Tensor, name: str, needs: _Needs) -> _Gradients:
    grad_x = torch.ops.mc2.matmul_reduce_scatter(grad, w.t(), None, name) if needs[0] else None
    return grad_x, torch.ops.mc2.all_gather(x, name).t() @ grad if needs[1] else None


def _of_matmul_all_to_all(x: torch.Tensor, w: torch.Tensor, grad: torch.Tensor, name: str, needs: _Needs) -> _Gradients:
    return _of_all_reduce(x, w, torch.ops.mc2.all_to_all(grad, name), name, needs)


def _of_all_to_all_matmul(x: torch.Tensor, w: torch.Tensor, grad: torch.Tensor, name: str, needs: _Needs) -> _Gradients:
    grad_x = torch.ops.mc2.matmul_all_to_all(grad, w.t(), None, name) if needs[0] else None
    return grad_x, torch.ops.mc2.all_to_all(x, name).t() @ grad if needs[1] else None


def _of_replicated(x: torch.Tensor, w: torch.Tensor, grad: torch.Tensor, name: str, needs: _Needs) -> _Gradients:
    """x is the same on all ranks, so its gradient is summed over the ranks, as in Megatron-LM's operator f."""
    grad_x = torch.ops.mc2.matmul_all_reduce(grad, w.t(), None, name) if needs[0] else None
    return grad_x, x.t() @ grad if needs[1] else None


def _of_columns(op: str, own: torch.Tensor, name: str) -> torch.Tensor:
    """The gradient of a bias or a norm's weight. In a reduce-scatter all ranks add the same bias, each to its own rows,
    so the ranks' gradients are summed."""
    return torch.ops.mc2.all_reduce(own, name) if op == "matmul_reduce_scatter" else own


def _register_gradient(op: str, gradient: typing.Callable[..., _Gradients]) -> None:
    def set_up(ctx: typing.Any, inputs: tuple[typing.Any, ...], output: torch.Tensor) -> None:
        x, w, _, ctx.group_name, *_ = inputs
        ctx.save_for_backward(x, w)

    @once_differentiable
    def backward(ctx: typing.Any, grad: torch.Tensor) -> tuple[typing.Any, ...]:
        x, w = ctx.saved_tensors
        grad = grad.contiguous()
        needs = ctx.needs_input_grad
        grad_x, grad_w = gradient(x, w, grad, ctx.group_name, needs)
        of_bias = _of_columns(op, grad.sum(0), ctx.group_name) if needs[2] else None
        of_residual = [grad if needed else None for needed in needs[4:]]  # empty if no residual was given
        return grad_x, grad_w, of_bias, None, *of_residual

    register_autograd(op, set_up, backward)


def _register_norm_gradient(op: str, gradient: typing.Callable[..., _Gradients]) -> None:
    def set_up(ctx: typing.Any, inputs: tuple[typing.Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
        x, w, norm_weight, _, _, ctx.epsilon, ctx.group_name = inputs
        ctx.save_for_backward(x, w, norm_weight, output[0])

    @once_differentiable
    def backward(ctx: typing.Any, grad: torch.Tensor, grad_normed: torch.Tensor) -> tuple[typing.Any, ...]:
        x, w, norm_weight, y = ctx.saved_tensors
        needs, name = ctx.needs_input_grad, ctx.group_name
        of_y, of_weight = _epilogue.rms_norm_gradients(y, norm_weight, ctx.epsilon, grad_normed)
        grad = (grad + of_y).to(y.dtype).contiguous()
        grad_x, grad_w = gradient(x, w, grad, name, needs)
        of_weight = _of_columns(op, of_weight.to(y.dtype), name) if needs[2] else None
        of_bias = _of_columns(op, grad.sum(0), name) if needs[3] else None
        return grad_x, grad_w, of_weight, of_bias, grad if needs[4] else None, None, None

    register_autograd(_with_norm(op), set_up, backward)


def _with_norm(op: str) -> str:
    return f"{op}_rms_norm"


def register_autograd(op: str, set_up: typing.Any, backward: typing.Any) -> None:
    if hasattr(torch.library, "register_autograd"):
        torch.library.register_autograd(f"mc2::{op}", backward, setup_context=set_up, lib=_library)
        return
    _register_gradient_before_2_4(op, set_up, backward)


@contextlib.contextmanager
def _below_autograd() -> typing.Iterator[None]:
    guard: typing.Any = torch._C._AutoDispatchBelowAutograd()
    if hasattr(guard, "__enter__"):
        with guard:
            yield
        return
    try:  # in PyTorch 1.13 the guard is no context manager and holds as long as it lives
        yield
    finally:
        del guard


def _register_gradient_before_2_4(op: str, set_up: typing.Any, backward: typing.Any) -> None:
    def forward(ctx: typing.Any, *inputs: typing.Any) -> typing.Any:
        with _below_autograd():
            output = getattr(torch.ops.mc2, op)(*inputs)
        set_up(ctx, inputs, output)
        return output

    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    function: typing.Any = type(op, (torch.autograd.Function,), methods)
    _library.impl(op, function.apply, "Autograd")


def register(name: str, signature: str, real: typing.Any, fake: typing.Any, result: str = "Tensor") -> None:
    _library.define(f"{name}({signature}) -> {result}")
    for key in ("CPU", "CUDA"):
        _library.impl(name, real, key)
    _library.impl(name, fake, "Meta")


def _register_all() -> None:
    signature = "Tensor x, Tensor w, Tensor? bias, str group_name"
    gradients = {
        "matmul_all_reduce": _of_all_reduce,
        "matmul_reduce_scatter": _of_reduce_scatter,
        "all_gather_matmul": _of_all_gather,
        "matmul_all_to_all": _of_matmul_all_to_all,
        "all_to_all_matmul": _of_all_to_all_matmul,
    }
    for kind, gradient in gradients.items():
        register(kind, f"{signature}, Tensor? residual=None", _real(kind), _fake(kind))
        _register_gradient(kind, gradient)
        register(
            f"scaled_{kind}",
            "Tensor x, Tensor w, Tensor x_scale, Tensor w_scale, Tensor? bias, Tensor? residual, str group_name",
            _real_scaled(kind),
            _fake_scaled(kind),
        )
    for kind in ("matmul_all_reduce", "matmul_reduce_scatter"):
        register(
            _with_norm(kind),
            "Tensor x, Tensor w, Tensor norm_weight, Tensor? bias, Tensor? residual, float epsilon, str group_name",
            _real_norm(kind),
            _fake_norm(kind),
            "(Tensor, Tensor)",
        )
        _register_norm_gradient(kind, gradients[kind])
    register("replicated_matmul", signature, _matmul, _fake_matmul)
    _register_gradient("replicated_matmul", _of_replicated)
    rows = "all_gather_matmul_rows"  # for compiled graphs, whose gradients are there already
    register(
        rows,
        signature,
        lambda x, w, bias, name: run_with_rows(_groups.by_name(name), x, w, bias),
        _fake_rows,
        "(Tensor, Tensor)",
    )
    register("all_gather", "Tensor x, str group_name", _alone(_passes.all_gather), _gathered)
    register("all_reduce", "Tensor x, str group_name", _alone(_passes.all_reduce), _same)
    register("all_to_all", "Tensor x, str group_name", _alone(_passes.all_to_all), _same)


_register_all()
