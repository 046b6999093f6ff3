"""Embedding tables that are divided among the ranks: each rank pools the bags of all samples for its tables, and gets
the features from all tables for its own samples."""

from __future__ import annotations

import typing

import torch
from torch.autograd.function import once_differentiable

from ..errors import Error
from . import _bags, _groups, _ops, _passes, _plans
from ._bags import Bags
from ._checks import count_fault, refuse_gloo, refuse_type, require_tensors
from ._routing import MAX_SIZE
from .functional import Facts, facts, is_compiling, is_plain

_KIND = "embedding_all_to_all"
_INDEX_TYPES = (torch.int32, torch.int64)


def embedding_all_to_all(
    indices: torch.Tensor,
    tables: torch.Tensor,
    offsets: torch.Tensor,
    group: typing.Any = None,
    *,
    pooling: str = "sum",
    sparse: bool = False,
    k: int | None = None,
) -> torch.Tensor:
    """Pools this rank's tables [count, rows, columns] for all m samples of the batch, and gives every rank the features
    of its share of the samples: [m / ranks, ranks * count * columns], those of rank 0's tables first.

    The bag of table t and sample i names the rows indices[offsets[t m + i]], ..., indices[offsets[t m + i + 1] - 1], as
    in torch.nn.functional.embedding_bag with include_last_offset. The tables have the same shape on all ranks.

    pooling  "sum" or "mean" of the rows; an empty bag gives zeros
    sparse   the tables' gradient is a sparse tensor, for optimizers that take one
    k        average number of rows of a bag, as given to tune(); the same on all ranks. Default: the average in rank
             0's first call of a shape. The first call's k finds the plan; results do not depend on it
    """
    found: Facts | _groups.Group = typing.cast(Facts, facts(group)) if is_compiling() else _groups.resolve(group)
    _check(indices, tables, offsets, pooling, k, found)
    operands = tables, indices, offsets, pooling, sparse, k or 0, found.name
    if is_compiling() or type(tables) not in (torch.Tensor, torch.nn.Parameter):
        return typing.cast(torch.Tensor, torch.ops.mc2.embedding_all_to_all(*operands))
    # PyTorch's dispatcher would only cost time.
    return _real(*operands) if is_plain(tables) else typing.cast(torch.Tensor, _Eager.apply(*operands))


def _check(
    indices: torch.Tensor,
    tables: torch.Tensor,
    offsets: torch.Tensor,
    pooling: str,
    k: int | None,
    group: _groups.Group | Facts,
) -> None:
    """Raises Error naming the argument that is wrong."""
    require_tensors({"tables": tables, "indices": indices, "offsets": offsets}, "tables")
    for name, tensor in {"indices": indices, "offsets": offsets}.items():
        if tensor.dim() != 1 or tensor.dtype not in _INDEX_TYPES or tensor.dtype != indices.dtype:
            raise Error(
                "invalid_spec",
                name,
                f"is {tensor.dtype} of shape {tuple(tensor.shape)}; indices and offsets need one dimension, "
                "and both int64 or both int32",
            )
    if tables.dim() != 3 or tables.numel() == 0 or not tables.is_floating_point() or not tables.is_contiguous():
        raise Error(
            "invalid_spec",
            "tables",
            f"is {tables.dtype} of shape {tuple(tables.shape)}; needs a contiguous floating-point tensor "
            "[tables, rows, columns], not empty",
        )
    bag_count = len(offsets) - 1
    if bag_count < 1 or bag_count % (tables.shape[0] * group.size) != 0:
        raise Error(
            "invalid_spec",
            "offsets",
            f"has {len(offsets)} numbers; needs tables times samples and one more, where the {group.size} ranks "
            f"divide the samples and tables are {tables.shape[0]}",
        )
    if pooling not in _bags.POOLINGS:
        raise Error("unknown_name", "pooling", f"'{pooling}' is none of {', '.join(_bags.POOLINGS)}")
    fault = None if k is None else count_fault(k, most=MAX_SIZE)
    if fault:
        raise Error("invalid_spec", "k", f"{fault}, the rows of a bag")
    refuse_gloo(tables, group.backend)
    refuse_type(tables, group.backend, has_matmul=False)


def _real(
    tables: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    pooling: str,
    sparse: bool,
    k: int,
    group_name: str,
) -> torch.Tensor:
    bags = Bags(indices.contiguous(), offsets.contiguous(), pooling)
    fault = None if tables.is_cuda else _bags.rows_fault(bags, tables.shape)
    y = _plans.execute_bags(_groups.by_name(group_name), _bags.emptied(bags) if fault else bags, tables, k)
    if fault:  # raised after the exchange, because ranks that were given legal bags wait in it for this rank
        raise fault
    return y


def _fake(
    tables: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    pooling: str,
    sparse: bool,
    k: int,
    group_name: str,
) -> torch.Tensor:
    ranks = _groups.by_name(group_name).size
    return tables.new_empty(
        ((offsets.shape[0] - 1) // (tables.shape[0] * ranks), ranks * tables.shape[0] * tables.shape[2])
    )


def _set_up(ctx: typing.Any, inputs: tuple[typing.Any, ...], output: torch.Tensor) -> None:
    tables, indices, offsets, ctx.pooling, ctx.is_sparse, _, ctx.group_name = inputs
    ctx.sizes = list(tables.shape)
    ctx.save_for_backward(indices, offsets)


@once_differentiable
def _backward(ctx: typing.Any, grad: torch.Tensor) -> tuple[typing.Any, ...]:
    run = _of_tables if type(grad) is torch.Tensor else torch.ops.mc2.embedding_all_to_all_backward
    indices, offsets = ctx.saved_tensors
    of_tables = run(grad, indices, offsets, ctx.sizes, ctx.pooling, ctx.is_sparse, ctx.group_name)
    return of_tables, None, None, None, None, None, None


def _of_tables(
    grad: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    sizes: list[int],
    pooling: str,
    sparse: bool,
    group_name: str,
) -> torch.Tensor:
    group = _groups.by_name(group_name)
    features = _passes.by_table_rank(group, grad)
    return _bags.gradient(Bags(indices, offsets, pooling), sizes, features, sparse)


def _fake_of_tables(
    grad: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    sizes: list[int],
    pooling: str,
    sparse: bool,
    group_name: str,
) -> torch.Tensor:
    if sparse:
        raise Error("unsupported", "sparse", "gradients that are sparse are not traced; compile with sparse=False")
    return grad.new_empty(sizes)


def _forward(ctx: typing.Any, *operands: typing.Any) -> torch.Tensor:
    output = _real(*operands)
    _set_up(ctx, operands, output)
    return output


_Eager: typing.Any = type(
    "Eager", (torch.autograd.Function,), {"forward": staticmethod(_forward), "backward": staticmethod(_backward)}
)

_ops.register(
    _KIND,
    "Tensor tables, Tensor indices, Tensor offsets, str pooling, bool sparse, int k, str group_name",
    _real,
    _fake,
)
_ops.register(
    f"{_KIND}_backward",
    "Tensor grad, Tensor indices, Tensor offsets, int[] sizes, str pooling, bool sparse, str group_name",
    _of_tables,
    _fake_of_tables,
)
_ops.register_autograd(_KIND, _set_up, _backward)
