"""The operators as functions: the matmul of x [..., k] and w [k, n], with a collective along the first dimension of x
or of the result.

With x_scale and w_scale, one float32 each, x and w are torch.float8_e4m3fn and stand for x_scale x and w_scale w; bias,
residual and result are bfloat16. Such calls have no gradients."""

from __future__ import annotations

import math
import typing

import torch
import torch.distributed as dist

from .._core import GATHERING_KINDS, SHARDED_KINDS
from ..errors import Error
from . import _autocast, _groups, _ops, _plans, _scaled
from ._checks import is_compiling as is_compiling, refuse_gloo, refuse_type, require_one_type, require_tensors
from ._epilogue import NONE, USUAL_EPSILON, Epilogue, added, rms_norm
from ._groups import Group
from ._passes import PASSES

_Scales = typing.Tuple[typing.Optional[torch.Tensor], typing.Optional[torch.Tensor]]  # of x and of w


def matmul_all_reduce(
    x: torch.Tensor,
    w: torch.Tensor,
    group: typing.Any = None,
    *,
    bias: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
    x_scale: torch.Tensor | None = None,
    w_scale: torch.Tensor | None = None,
) -> torch.Tensor:
    """The sum over ranks of x @ w, on every rank. x is [..., k], w [k, n]. bias [n] and residual (the result's shape)
    are added once, to the sum; every rank must pass the same."""
    return _call("matmul_all_reduce", x, w, group, added(bias, residual), x_scale, w_scale)


def matmul_reduce_scatter(
    x: torch.Tensor,
    w: torch.Tensor,
    group: typing.Any = None,
    *,
    bias: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
    x_scale: torch.Tensor | None = None,
    w_scale: torch.Tensor | None = None,
) -> torch.Tensor:
    """The sum over ranks of x @ w, of which each rank gets its share of the first dimension. That dimension must be a
    multiple of the number of ranks."""
    return _call("matmul_reduce_scatter", x, w, group, added(bias, residual), x_scale, w_scale)


def all_gather_matmul(
    x: torch.Tensor,
    w: torch.Tensor,
    group: typing.Any = None,
    *,
    bias: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
    x_scale: torch.Tensor | None = None,
    w_scale: torch.Tensor | None = None,
) -> torch.Tensor:
    """All ranks' x, concatenated in the first dimension, times this rank's w."""
    return _call("all_gather_matmul", x, w, group, added(bias, residual), x_scale, w_scale)


def matmul_all_to_all(
    x: torch.Tensor,
    w: torch.Tensor,
    group: typing.Any = None,
    *,
    bias: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
    x_scale: torch.Tensor | None = None,
    w_scale: torch.Tensor | None = None,
) -> torch.Tensor:
    """Computes x @ w and sends equal parts of its first dimension to ranks 0, 1, ... Returns the parts that the ranks
    sent to this one, concatenated in the order of the ranks. The bias is this rank's, added to the rows that arrived,
    as in `all_to_all(x @ w) + bias`; a Communicator adds the sender's."""
    return _call("matmul_all_to_all", x, w, group, added(bias, residual), x_scale, w_scale)


def all_to_all_matmul(
    x: torch.Tensor,
    w: torch.Tensor,
    group: typing.Any = None,
    *,
    bias: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
    x_scale: torch.Tensor | None = None,
    w_scale: torch.Tensor | None = None,
) -> torch.Tensor:
    """Sends equal parts of the first dimension of x to ranks 0, 1, ... Returns the parts that the ranks sent to this
    one, concatenated in the order of the ranks, times w."""
    return _call("all_to_all_matmul", x, w, group, added(bias, residual), x_scale, w_scale)


def replicated_matmul(
    x: torch.Tensor, w: torch.Tensor, group: typing.Any = None, *, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """x @ w, where x is the same on all ranks and w holds this rank's columns. x's gradient is summed over the
    ranks."""
    return _call("replicated_matmul", x, w, group, added(bias, None))


def matmul_all_reduce_rms_norm(
    x: torch.Tensor,
    w: torch.Tensor,
    norm_weight: torch.Tensor,
    group: typing.Any = None,
    *,
    bias: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
    epsilon: float = USUAL_EPSILON,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns y as matmul_all_reduce() does, and y with normalised rows: y / sqrt(mean(y^2) + epsilon) * norm_weight
    [n]. The squares are summed in f32."""
    return _call_with_norm("matmul_all_reduce", x, w, group, Epilogue(bias, residual, norm_weight, epsilon))


def matmul_reduce_scatter_rms_norm(
    x: torch.Tensor,
    w: torch.Tensor,
    norm_weight: torch.Tensor,
    group: typing.Any = None,
    *,
    bias: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
    epsilon: float = USUAL_EPSILON,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns y as matmul_reduce_scatter() does, and y with its rows normalised as in matmul_all_reduce_rms_norm()."""
    return _call_with_norm("matmul_reduce_scatter", x, w, group, Epilogue(bias, residual, norm_weight, epsilon))


class Facts(typing.NamedTuple):
    name: str
    size: int
    backend: str


def facts(group: typing.Any) -> Facts:
    found = _groups.resolve(group)
    return Facts(found.name, found.size, found.backend)


# torch.compile takes the facts of a group at compile time as constants and does not trace into this function.
if hasattr(getattr(torch, "compiler", None), "assume_constant_result"):
    facts = torch.compiler.assume_constant_result(facts)


_Function = typing.TypeVar("_Function", bound=typing.Callable[..., typing.Any])


def uncompiled(function: _Function) -> _Function:
    """Makes torch.compile break its graph at the function instead of tracing it."""
    disable = getattr(getattr(torch, "compiler", None), "disable", None)
    return function if disable is None else typing.cast(_Function, disable(function))


_checked: dict[typing.Any, Group] = _groups.table()  # groups by the facts of arguments that have passed _check()


def _call(
    op: str,
    x: torch.Tensor,
    w: torch.Tensor,
    group: typing.Any,
    epilogue: Epilogue,
    x_scale: torch.Tensor | None = None,
    w_scale: torch.Tensor | None = None,
) -> torch.Tensor:
    if x_scale is not None or w_scale is not None:
        return _call_scaled(op, x, w, group, epilogue, (x_scale, w_scale))
    if _autocast.is_any_on() and (dtype := _autocast.type_for(x)) is not None:
        return _autocast.call(dtype, lambda x, w, cast: _call(op, x, w, group, cast), x, w, epilogue)
    found = _checked_group(op, x, w, group, epilogue)
    if isinstance(found, Group) and op in PASSES and found.size > 1 and _are_plain(x, w, epilogue):
        return _shaped(x, w, _ops.run(op, found, _as_matrix(x), w, _of_matrices(epilogue)))
    if found.size == 1:
        return _with(torch.matmul(x, w), epilogue)
    arguments = [_as_matrix(x), w, epilogue.bias, found.name]
    if epilogue.residual is not None:
        arguments.append(_as_matrix(epilogue.residual))
    return _shaped(x, w, getattr(torch.ops.mc2, op)(*arguments))


def _call_scaled(
    op: str, x: torch.Tensor, w: torch.Tensor, group: typing.Any, epilogue: Epilogue, scales: _Scales
) -> torch.Tensor:
    found = _checked_group(op, x, w, group, epilogue, scales)
    epilogue = _of_matrices(epilogue)
    x_scale, w_scale = typing.cast("tuple[torch.Tensor, torch.Tensor]", scales)
    operand = _scaled.Scaled(_as_matrix(x), x_scale, w_scale)
    if found.size == 1:
        y = epilogue.finish(operand.times(w))[0]
    elif isinstance(found, Group) and _are_plain(x, w, epilogue) and is_plain(x_scale) and is_plain(w_scale):
        y = _ops.run_scaled(op, found, operand, w, epilogue)
    else:
        operator = getattr(torch.ops.mc2, f"scaled_{op}")
        y = operator(operand.x, w, x_scale, w_scale, epilogue.bias, epilogue.residual, found.name)
    return _shaped(x, w, y)


def _call_with_norm(
    op: str,
    x: torch.Tensor,
    w: torch.Tensor,
    group: typing.Any,
    epilogue: Epilogue,
) -> tuple[torch.Tensor, torch.Tensor]:
    if epilogue.norm_weight is None:
        raise Error("invalid_spec", "norm_weight", "is None; needs a tensor [n]")
    if _autocast.is_any_on() and (dtype := _autocast.type_for(x)) is not None:
        return _autocast.call(dtype, lambda x, w, cast: _call_with_norm(op, x, w, group, cast), x, w, epilogue)
    found, weight = _checked_group(op, x, w, group, epilogue), epilogue.norm_weight
    if found.size == 1:
        y = _with(torch.matmul(x, w), epilogue)
        return y, rms_norm(y, weight, epilogue.epsilon)
    epilogue = _of_matrices(epilogue)
    if isinstance(found, Group) and _are_plain(x, w, epilogue):
        results = _ops.run_with_norm(op, found, _as_matrix(x), w, epilogue)
    else:
        operator = getattr(torch.ops.mc2, f"{op}_rms_norm")
        results = operator(_as_matrix(x), w, weight, epilogue.bias, epilogue.residual, epilogue.epsilon, found.name)
    return _shaped(x, w, results[0]), _shaped(x, w, results[1])


def _with(y: torch.Tensor, epilogue: Epilogue) -> torch.Tensor:
    """y plus bias and residual. Not in place, because gradients need y."""
    for more in (epilogue.bias, epilogue.residual):
        y = y if more is None else y + more
    return y


def _checked_group(
    op: str, x: torch.Tensor, w: torch.Tensor, group: typing.Any, epilogue: Epilogue, scales: _Scales | None = None
) -> Group | Facts:
    """Checks the arguments and returns the group, or its facts where torch.compile traces the call. If x has no rows,
    there is nothing to exchange, and the returned size is 1; outside graphs the ranks first agree on that. Raises Error
    naming the argument that is wrong."""
    if is_compiling():
        of_group = facts(group)
        _check(op, x, w, epilogue, of_group, scales)
        return of_group if x.shape[0] > 0 else Facts(of_group.name, 1, of_group.backend)
    if isinstance(group, str):  # not kept by its name, which a later group may have, too
        group = _groups.by_name(group).handle
    try:
        handle = dist.group.WORLD if group is None else group
        key = (
            op,
            handle,
            x.shape,
            w.shape,
            x.dtype,
            w.dtype,
            x.device,
            w.device,
            x.layout,
            w.layout,
            None if epilogue is NONE else _facts_of(epilogue),
            None if scales is None else _facts_of_scaled(x, w, epilogue, scales),
        )
        _groups.drop_destroyed()
        found = _checked.get(key)
    except (AttributeError, TypeError):  # _groups.resolve() and _check() name an argument that is no group or tensor
        key, found = None, None
    if found is None:
        found = _groups.resolve(group)
        _check(op, x, w, epilogue, Facts(found.name, found.size, found.backend), scales)
        _checked[key] = found
    if x.shape[0] > 0 or found.size == 1:
        return found
    if op in PASSES:
        _plans.agree_on_no_rows(op, found, x, w, epilogue)
    return found._replace(size=1)


def _facts_of(epilogue: Epilogue) -> tuple[typing.Any, ...]:
    bias, residual, norm_weight, epsilon = epilogue
    return _fact_of(bias), _fact_of(residual), _fact_of(norm_weight), epsilon


def _facts_of_scaled(x: torch.Tensor, w: torch.Tensor, epilogue: Epilogue, scales: _Scales) -> tuple[typing.Any, ...]:
    with_gradient = [tensor is not None and tensor.requires_grad for tensor in (x, w, *scales, *epilogue[:2])]
    return w.stride(), *map(_fact_of, scales), torch.is_grad_enabled() and any(with_gradient)


def _fact_of(tensor: torch.Tensor | None) -> tuple[typing.Any, ...] | None:
    return None if tensor is None else (tensor.shape, tensor.dtype, tensor.device, tensor.layout)


def _are_plain(x: torch.Tensor, w: torch.Tensor, epilogue: Epilogue) -> bool:
    """Whether the call needs neither gradients nor tracing, so that PyTorch's dispatcher would only cost time."""
    if not (is_plain(x) and is_plain(w)):
        return False
    if epilogue is NONE:
        return True
    bias, residual, norm_weight, _ = epilogue
    return (
        (bias is None or is_plain(bias))
        and (residual is None or is_plain(residual))
        and (norm_weight is None or is_plain(norm_weight))
    )


def is_plain(tensor: torch.Tensor) -> bool:
    kind = type(tensor)
    return (kind is torch.Tensor or kind is torch.nn.Parameter) and not (
        tensor.requires_grad and torch.is_grad_enabled()
    )


def _of_matrices(epilogue: Epilogue) -> Epilogue:
    bias, residual, norm_weight, epsilon = epilogue
    if residual is None or residual.dim() == 2:
        return epilogue
    return Epilogue(bias, _as_matrix(residual), norm_weight, epsilon)  # torch.compile does not trace _replace()


def _as_matrix(x: torch.Tensor) -> torch.Tensor:
    return x if x.dim() == 2 else x.flatten(0, -2)


def _shaped(x: torch.Tensor, w: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The matrix y as a tensor with the dimensions of x except for the last."""
    return y if x.dim() == 2 else y.view(-1, *x.shape[1:-1], w.shape[1])


def forget() -> None:
    _checked.clear()


def _check(
    op: str, x: torch.Tensor, w: torch.Tensor, epilogue: Epilogue, group: Facts, scales: _Scales | None = None
) -> None:
    """Raises Error naming the argument that is wrong."""
    optional = {"bias": epilogue.bias, "residual": epilogue.residual, "norm_weight": epilogue.norm_weight}
    more = {name: tensor for name, tensor in optional.items() if tensor is not None}
    if epilogue.norm_weight is not None:
        _check_epsilon(epilogue.epsilon)
    require_tensors({"x": x, "w": w, **more}, "x")
    if scales is None:
        _refuse_unscaled(op, x)
        require_one_type({"x": x, "w": w, **more})
    else:
        _check_scales(x, w, more, scales)
    if x.dim() < 2 or 0 in x.shape[1:]:
        raise Error(
            "invalid_spec", "x", f"has shape {tuple(x.shape)}; needs [..., k], of which only the first may be 0"
        )
    if w.dim() != 2 or w.shape[0] != x.shape[-1] or w.shape[1] == 0:
        raise Error("invalid_spec", "w", f"has shape {tuple(w.shape)}; needs [{x.shape[-1]}, n]")
    if op in SHARDED_KINDS and op not in GATHERING_KINDS and x.shape[0] % group.size != 0:
        raise Error(
            "invalid_spec", "x", f"its first dimension {x.shape[0]} is not a multiple of the {group.size} ranks"
        )
    for name, tensor in more.items():
        leading = (_ops.result_rows(op, group, x.shape[0]), *x.shape[1:-1]) if name == "residual" else ()
        shape = (*leading, w.shape[1])
        if tuple(tensor.shape) != shape:
            raise Error("invalid_spec", name, f"has shape {tuple(tensor.shape)}; needs {list(shape)}")
    if group.size > 1:
        refuse_gloo(x, group.backend, op == "matmul_all_reduce")
        refuse_type(x, group.backend)


def _refuse_unscaled(op: str, x: torch.Tensor) -> None:
    if op in PASSES and _scaled.FLOAT8 is not None and x.dtype == _scaled.FLOAT8:
        raise Error("invalid_spec", "x_scale", f"is None; x is {x.dtype}, which needs x_scale and w_scale")


def _check_scales(x: torch.Tensor, w: torch.Tensor, more: dict[str, torch.Tensor], scales: _Scales) -> None:
    given = {name: scale for name, scale in zip(("x_scale", "w_scale"), scales) if scale is not None}
    require_tensors({"x": x, **given}, "x")
    _scaled.check(x, w, scales)
    for name, tensor in more.items():
        if tensor.dtype != _scaled.PRODUCT:
            raise Error("invalid_spec", name, f"is {tensor.dtype}; products of {x.dtype} are {_scaled.PRODUCT}")
    for name, tensor in {"x": x, "w": w, **given, **more}.items():
        if tensor.requires_grad and torch.is_grad_enabled():
            raise Error("unsupported", name, f"requires a gradient, which products of {x.dtype} have not")


def _check_epsilon(epsilon: float) -> None:
    if not isinstance(epsilon, (int, float)) or not 0 < epsilon < math.inf:
        raise Error("invalid_spec", "epsilon", f"is {epsilon!r}; needs a number above 0, e.g. 1e-6")
