"""The description of a call by which plans, models and prepared runs are found."""

from __future__ import annotations

import typing

import torch

from .. import _core
from .._core import ChosenExperts, EmbeddingTables, OpSpec
from . import _scaled
from ._bags import Tables
from ._groups import EAGER, Calls, Group, fingerprint

DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
if _scaled.FLOAT8 is not None:
    DTYPES[_scaled.FLOAT8] = "f8e4m3"


class Experts(typing.NamedTuple):
    """mc2.ChosenExperts as a tuple, which ranks can exchange as JSON."""

    expert_count: int
    top_k: int


class Problem(typing.NamedTuple):
    """The shape, type, group and device of a call. The ranks of a group make calls with equal problems in the same
    order; k may differ where it is a rank's share."""

    kind: str
    group: Group
    device: torch.device
    dtype: torch.dtype
    m: int  # rows of the product
    n: int
    k: int
    tables: Tables | None = None
    experts: Experts | None = None  # only kinds whose rows choose experts

    @property
    def is_scaled(self) -> bool:
        """Whether operands are 8-bit floats with scales."""
        return self.dtype == _scaled.FLOAT8

    @property
    def product_type(self) -> torch.dtype:
        return _scaled.PRODUCT if self.is_scaled else self.dtype

    def op(self, epilogue: str = "none") -> OpSpec:
        """The operator. Plans are made for the one without an epilogue, which is the default."""
        return OpSpec(
            self.kind,
            m=self.m,
            n=self.n,
            k=self.k,
            dtype=DTYPES[self.dtype],
            ranks=self.group.size,
            epilogue=epilogue,
            tables=self.embedding_tables(),
            experts=self.chosen_experts(),
        )

    def embedding_tables(self) -> EmbeddingTables | None:
        return EmbeddingTables(*self.tables) if self.tables else None

    def chosen_experts(self) -> ChosenExperts | None:
        return ChosenExperts(*self.experts) if self.experts else None

    def text(self) -> str:
        tables = (
            f" {self.tables.table_count} tables of {self.tables.row_count} rows, {self.tables.pooling},"
            if self.tables
            else ""
        )
        own = self.experts
        experts = f" {own.expert_count} experts of which {own.top_k} are chosen" if own else ""
        return f"{self.kind} m={self.m} n={self.n} k={self.k}{tables}{experts} {self.dtype} x{self.group.size}"

    def exchange_device(self) -> torch.device:
        """The device of small tensors that ranks exchange: gloo takes tensors of the CPU only."""
        return self.device if self.group.backend != "gloo" else torch.device("cpu")

    def fingerprint(self, calls: Calls = EAGER) -> _core.Fingerprint:
        return fingerprint(self.group, self.device, calls)
