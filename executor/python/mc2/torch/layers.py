"""Linear layers whose weights are sharded over the ranks, as drop-ins for torch.nn.Linear."""

from __future__ import annotations

import math
import typing

import torch

from ..errors import Error
from . import _groups, functional


def _share(name: str, length: int, ranks: int) -> int:
    if length % ranks != 0:
        raise Error("invalid_spec", name, f"{length} is not a multiple of the {ranks} ranks")
    return length // ranks


class _ParallelLinear(torch.nn.Module):
    """weight [out, in] of this rank, as torch.nn.Linear lays it out."""

    def __init__(
        self, shape: tuple[int, int], bias_length: int, group: typing.Any, fan_in: int, **factory: typing.Any
    ) -> None:
        super().__init__()
        self.group = group
        self.weight = torch.nn.Parameter(torch.empty(shape, **factory))
        self.bias = torch.nn.Parameter(torch.empty(bias_length, **factory)) if bias_length else None
        self._bound = 1 / math.sqrt(fan_in)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As torch.nn.Linear of the whole layer; each rank draws its own part."""
        torch.nn.init.uniform_(self.weight, -self._bound, self._bound)
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)


class RowParallelLinear(_ParallelLinear):
    """y = x W^T + b with the columns of W over the ranks: x is a rank's share of the last dimension, y whole on every
    rank.

    is_sequence_parallel  y is the rank's share of the first dimension instead
    """

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
        share = _share("in_features", in_features, _groups.resolve(group).size)
        super().__init__((out_features, share), out_features if bias else 0, group, in_features, **factory)
        self.is_sequence_parallel = is_sequence_parallel

    def forward(self, x: torch.Tensor, residual: torch.Tensor | None = None) -> torch.Tensor:
        """residual, of y's shape, is added once."""
        operator = functional.matmul_reduce_scatter if self.is_sequence_parallel else functional.matmul_all_reduce
        return operator(x, self.weight.t(), self.group, bias=self.bias, residual=residual)

    @classmethod
    def from_linear(
        cls, linear: torch.nn.Linear, *, group: typing.Any = None, is_sequence_parallel: bool = False
    ) -> RowParallelLinear:
        """This rank's part of a layer that every rank has."""
        found, weight = _groups.resolve(group), linear.weight
        layer = cls(
            linear.in_features,
            linear.out_features,
            linear.bias is not None,
            group=group,
            is_sequence_parallel=is_sequence_parallel,
            device=weight.device,
            dtype=weight.dtype,
        )
        share = layer.weight.shape[1]
        with torch.no_grad():
            layer.weight.copy_(weight[:, found.rank * share : (found.rank + 1) * share])
            if layer.bias is not None:
                layer.bias.copy_(linear.bias)
        return layer


class ColumnParallelLinear(_ParallelLinear):
    """y = x W^T + b with the rows of W over the ranks: x is whole on every rank, y a rank's share of the last
    dimension.

    is_sequence_parallel  x is the rank's share of the first dimension instead
    """

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
        share = _share("out_features", out_features, _groups.resolve(group).size)
        super().__init__((share, in_features), share if bias else 0, group, in_features, **factory)
        self.is_sequence_parallel = is_sequence_parallel

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.is_sequence_parallel:
            return functional.all_gather_matmul(x, self.weight.t(), self.group, bias=self.bias)
        return functional.replicated_matmul(x, self.weight.t(), self.group, bias=self.bias)

    @classmethod
    def from_linear(
        cls, linear: torch.nn.Linear, *, group: typing.Any = None, is_sequence_parallel: bool = False
    ) -> ColumnParallelLinear:
        """This rank's part of a layer that every rank has."""
        found, weight = _groups.resolve(group), linear.weight
        layer = cls(
            linear.in_features,
            linear.out_features,
            linear.bias is not None,
            group=group,
            is_sequence_parallel=is_sequence_parallel,
            device=weight.device,
            dtype=weight.dtype,
        )
        share = layer.weight.shape[0]
        mine = slice(found.rank * share, (found.rank + 1) * share)
        with torch.no_grad():
            layer.weight.copy_(weight[mine])
            if layer.bias is not None:
                layer.bias.copy_(linear.bias[mine])
        return layer
