"""Linear layers whose weights are sharded over the ranks, as drop-ins for torch.nn.Linear."""

from __future__ import annotations

import copy
import math
import typing

import torch

from ..errors import Error
from . import _groups, _ops, functional
from ._checks import count_fault

_Layer = typing.TypeVar("_Layer", bound="_ParallelLinear")


class _ParallelLinear(torch.nn.Module):
    """A linear layer with this rank's part of the weight, [out, in] as in torch.nn.Linear; one dimension is split over
    the ranks. in_features and out_features are those of the whole layer."""

    _split_dim: int  # the dimension of weight that is split

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        group: typing.Any = None,
        is_sequence_parallel: bool = False,
        **factory: typing.Any,
    ) -> None:
        _require_count("in_features", in_features)
        _require_count("out_features", out_features)
        shape, split, ranks = [out_features, in_features], self._split_dim, _groups.resolve(group).size
        if shape[split] % ranks != 0:
            name = ("out_features", "in_features")[split]
            raise Error("invalid_spec", name, f"{shape[split]} is not a multiple of the {ranks} ranks")
        shape[split] //= ranks
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.group, self.is_sequence_parallel = group, is_sequence_parallel
        self._is_on_default_group = group is None or group is torch.distributed.group.WORLD
        self.weight = torch.nn.Parameter(torch.empty(shape, **factory))
        self.bias = torch.nn.Parameter(torch.empty(shape[0], **factory)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Each rank draws its part of the weight from torch.nn.Linear's distribution for the whole layer. Biases are
        zero, so that ranks that share a bias have equal ones."""
        bound = 1 / math.sqrt(max(self.in_features, 1))
        torch.nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    def _run(
        self, operator: typing.Callable[..., torch.Tensor], x: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The operator on x, which as in torch.nn.Linear may have one dimension, and dimensions of length 0."""
        more = {} if residual is None else {"residual": residual}
        if not _needs_flattening(x) or (x.dim() == 1 and self.is_sequence_parallel):
            return operator(x, self.weight.t(), self.group, bias=self.bias, **more)
        leading, columns = list(x.shape[:-1]), self.weight.shape[0]
        if self.is_sequence_parallel:
            leading[0] = _ops.result_rows(operator.__name__, functional.facts(self.group), leading[0])
        if isinstance(residual, torch.Tensor):
            more = {"residual": residual.reshape(-1, columns)}
        y = operator(x.reshape(-1, x.shape[-1]), self.weight.t(), self.group, bias=self.bias, **more)
        return y.reshape(*leading, columns)

    def __copy__(self: _Layer) -> _Layer:
        layer = type(self).__new__(type(self))
        layer.__dict__.update(self.__dict__)
        return layer

    def __deepcopy__(self: _Layer, memo: dict[int, typing.Any]) -> _Layer:
        """The copy has the same group, as a process group cannot be copied."""
        layer = memo[id(self)] = type(self).__new__(type(self))
        memo[id(self.group)] = self.group
        layer.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return layer

    def __getstate__(self) -> dict[str, typing.Any]:
        """For pickle. A stored layer is on the default group of the program that loads it. Raises Error (unsupported)
        where it is on another one."""
        if isinstance(self.group, str):
            return self.__dict__
        if self.group is not None and not self._is_on_default_group:
            raise Error(
                "unsupported",
                "group",
                "of a layer cannot be stored unless it is the default one; store the state_dict()",
            )
        return {**self.__dict__, "group": None}

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
            f"own_weight={tuple(self.weight.shape)}, is_sequence_parallel={self.is_sequence_parallel}"
        )

    @classmethod
    def from_linear(
        cls: type[_Layer], linear: torch.nn.Linear, *, group: typing.Any = None, is_sequence_parallel: bool = False
    ) -> _Layer:
        """Makes this rank's part of a whole layer. Every rank passes the same layer."""
        if not isinstance(linear, torch.nn.Linear):
            raise Error("invalid_spec", "linear", f"is a {type(linear).__name__}; needs a torch.nn.Linear")
        layer = cls(
            linear.in_features,
            linear.out_features,
            linear.bias is not None,
            group=group,
            is_sequence_parallel=is_sequence_parallel,
            device=linear.weight.device,
            dtype=linear.weight.dtype,
        )
        share = layer.weight.shape[cls._split_dim]
        first = _groups.resolve(group).rank * share
        with torch.no_grad():
            layer.weight.copy_(linear.weight.narrow(cls._split_dim, first, share))
            if layer.bias is not None:
                layer.bias.copy_(linear.bias if cls._split_dim else linear.bias.narrow(0, first, share))
                layer.bias.requires_grad_(linear.bias.requires_grad)
        layer.weight.requires_grad_(linear.weight.requires_grad)
        return layer.train(linear.training)


def _needs_flattening(x: typing.Any) -> bool:
    return isinstance(x, torch.Tensor) and (x.dim() == 1 or 0 in x.shape[1:-1])


def _require_count(name: str, count: typing.Any) -> None:
    fault = count_fault(count, least=0)
    if fault:
        raise Error("invalid_spec", name, fault)


class RowParallelLinear(_ParallelLinear):
    """y = x W^T + b with the columns of W split over the ranks. x is the rank's share of the last dimension; y is whole
    on every rank.

    is_sequence_parallel  y is the rank's share of the first dimension instead
    """

    _split_dim = 1

    def forward(self, x: torch.Tensor, residual: torch.Tensor | None = None) -> torch.Tensor:
        """residual has y's shape and is added once, not once per rank."""
        if self.is_sequence_parallel:
            return self._run(functional.matmul_reduce_scatter, x, residual)
        return self._run(functional.matmul_all_reduce, x, residual)


class ColumnParallelLinear(_ParallelLinear):
    """y = x W^T + b with the rows of W split over the ranks. x is whole on every rank; y is the rank's share of the
    last dimension.

    is_sequence_parallel  x is the rank's share of the first dimension instead
    """

    _split_dim = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.is_sequence_parallel:
            return self._run(functional.all_gather_matmul, x)
        return self._run(functional.replicated_matmul, x)
