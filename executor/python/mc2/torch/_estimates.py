"""Times of a process group's collectives by mc2's models, for a compiler that schedules collectives by their times."""

from __future__ import annotations

import math
import typing

import torch

from .. import _core
from .._core import CostModel, OpSpec
from ..errors import Error, NativeError
from . import _plans, _problem, _rewrite, _symmetric
from ._groups import Group, fingerprint

_MAX_BEYOND = 4  # a curve answers up to so many times its longest message: time grows in proportion there
_LENGTH = 256  # m per rank, n and k of the operator that models of all lengths are looked up by


class Estimate(typing.NamedTuple):
    """The time of one collective while nothing else runs."""

    us: float
    fixed_us: float  # the part that does not depend on its size


class Estimates:
    """Estimates by the models that exist now: those of this process, then those in MC2_STORE."""

    def __init__(self) -> None:
        self._curves: dict[tuple[typing.Any, ...], list[_core.LaneCost]] = {}

    def of(
        self, collective: str, group: Group, device: torch.device, dtype: torch.dtype, message_bytes: int
    ) -> Estimate | None:
        """The time of a collective; None if no model covers messages of about this size. A collective's time depends on
        its bytes and not on the matmul, so a model of any operator answers. Of several, the one whose uncut message is
        nearest in size is used, because models time shorter messages back to back, as blocks of a cut.

        message_bytes  of the whole array: the array that is reduced or exchanged, or all ranks' shards in a gather
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
    """The models of a kind, of any n and k."""
    if dtype not in _problem.DTYPES:
        return []
    own = _plans.models(kind, group, device, dtype)
    try:
        store = _plans.store()
        op = OpSpec(kind, m=_LENGTH * group.size, n=_LENGTH, k=_LENGTH, dtype=_problem.DTYPES[dtype], ranks=group.size)
        return own + (store.list_models(op, fingerprint(group, device)) if store is not None else [])
    except (Error, NativeError):  # no warning here: looking up plans in the same store fails, too, and warns
        return own
