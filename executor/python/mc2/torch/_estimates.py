"""What collectives of a process group take by mc2's models, for a compiler that schedules them by such times."""

from __future__ import annotations

import math
import typing

import torch

from .. import _core
from .._core import CostModel, OpSpec
from ..errors import Error, NativeError
from . import _plans, _problem, _rewrite, _symmetric
from ._groups import Group, fingerprint

_MAX_BEYOND = 4  # what was measured, where time grows as the message does
_LENGTH = 256  # of an operator that stands for those of all lengths


class Estimate(typing.NamedTuple):
    """Of one collective, alone."""

    us: float
    fixed_us: float  # what it takes however little it sends


class Estimates:
    """Of the models that are there now: in this process, then in MC2_STORE."""

    def __init__(self) -> None:
        self._curves: dict[tuple[typing.Any, ...], list[_core.LaneCost]] = {}

    def of(
        self, collective: str, group: Group, device: torch.device, dtype: torch.dtype, message_bytes: int
    ) -> Estimate | None:
        """None where no model has messages of about this size. The same bytes take as long whatever the matmul is, so
        any operator's model answers: of several the one whose uncut message is nearest, as messages within a cut are
        timed back to back.

        message_bytes  of the whole array: what is reduced or exchanged, and of a gather what all ranks give together
        """
        curves = [curve for curve in self._curves_of(collective, group, device, dtype) if _has(curve, message_bytes)]
        if not curves:
            return None
        curve = min(curves, key=lambda each: abs(math.log(each.valid_range[1] / message_bytes)))
        us = curve.time_us(message_bytes)
        return Estimate(us, min(us, curve.time_us(curve.valid_range[0])))

    def _curves_of(
        self, collective: str, group: Group, device: torch.device, dtype: torch.dtype
    ) -> list[_core.LaneCost]:
        key = (collective, group.name, device, dtype)
        if key not in self._curves:
            models = [model for kind in _rewrite.kinds(collective) for model in _models(kind, group, device, dtype)]
            variants = [
                variant for model in models for variant in model.variants if variant.variant.name != _symmetric.NAME
            ]
            self._curves[key] = [variant.communication for variant in variants]
        return self._curves[key]


def _has(curve: _core.LaneCost, message_bytes: int) -> bool:
    least, most = curve.valid_range
    return 0 < least <= message_bytes <= _MAX_BEYOND * most and math.isfinite(most)


def _models(kind: str, group: Group, device: torch.device, dtype: torch.dtype) -> list[CostModel]:
    """Of any n and k."""
    if dtype not in _problem.DTYPES:
        return []
    own = _plans.models(kind, group, device, dtype)
    try:
        store = _plans.store()
        op = OpSpec(kind, m=_LENGTH * group.size, n=_LENGTH, k=_LENGTH, dtype=_problem.DTYPES[dtype], ranks=group.size)
        return own + (store.list_models(op, fingerprint(group, device)) if store is not None else [])
    except (Error, NativeError):  # a store that cannot be read gives no plans either, which is told there
        return own
