"""Finding plans in files, at a service, in stores and in models."""

import os
import typing

from ._core import CostModel, Fingerprint, FoundPlan as FoundPlan, OpSpec, Plan, PlanRanges, Variant

_Path = str | os.PathLike[str]

class PlanFinder:
    def __init__(
        self,
        *,
        plan_files: typing.Sequence[_Path] = ...,
        server: str | None = ...,
        token: str = ...,
        store: _Path | None = ...,
        read_only_stores: typing.Sequence[_Path] = ...,
        models: typing.Sequence[CostModel] = ...,
        may_transfer: bool = ...,
        is_disabled: bool = ...,
    ) -> None: ...
    @staticmethod
    def from_environment() -> PlanFinder: ...
    def find(
        self, op: OpSpec, fingerprint: Fingerprint, *, variant: Variant | None = ..., may_transfer: bool = ...
    ) -> FoundPlan: ...
    def find_ranges(self, op: OpSpec, fingerprint: Fingerprint, first_m: typing.SupportsIndex) -> PlanRanges: ...

def uncut_plan(op: OpSpec, fingerprint: Fingerprint) -> Plan: ...
