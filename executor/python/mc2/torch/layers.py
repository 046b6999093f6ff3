"""Linear layers whose weights are sharded over the ranks, as drop-ins for torch.nn.Linear."""

from __future__ import annotations

import math
import typing

import torch

from ..errors import Error
from . import _groups, functional

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
        shape, split, ranks = [out_features, in_features], self._split_dim, _groups.resolve(group).size
        if shape[split] % ranks != 0:
            name = ("out_features", "in_features")[split]
            raise Error("invalid_spec", name, f"{shape[split]} is not a multiple of the {ranks} ranks")
        shape[split] //= ranks
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.group, self.is_sequence_parallel = group, is_sequence_parallel
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
        return layer


class RowParallelLinear(_ParallelLinear):
    """y = x W^T + b with the columns of W split over the ranks. x is the rank's share of the last dimension; y is whole
    on every rank.

    is_sequence_parallel  y is the rank's share of the first dimension instead
    """

    _split_dim = 1

    def forward(self, x: torch.Tensor, residual: torch.Tensor | None = None) -> torch.Tensor:
        """residual has y's shape and is added once, not once per rank."""
        operator = functional.matmul_reduce_scatter if self.is_sequence_parallel else functional.matmul_all_reduce
        return operator(x, self.weight.t(), self.group, bias=self.bias, residual=residual)


class ColumnParallelLinear(_ParallelLinear):
    """y = x W^T + b with the rows of W split over the ranks. x is whole on every rank; y is the rank's share of the
    last dimension.

    is_sequence_parallel  x is the rank's share of the first dimension instead
    """

    _split_dim = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.is_sequence_parallel:
            return functional.all_gather_matmul(x, self.weight.t(), self.group, bias=self.bias)
        return functional.replicated_matmul(x, self.weight.t(), self.group, bias=self.bias)
