"""Running a plan once, and drawing what ran."""

from __future__ import annotations

import typing

from ._core import Plan, Timeline
from ._executor import Communicator, RunRecord


def run(
    plan: Plan,
    a: typing.Sequence[typing.Any] | None = None,
    b: typing.Sequence[typing.Any] | None = None,
    *,
    communicator: Communicator | None = None,
    **operands: typing.Any,
) -> list[typing.Any]:
    """Runs a plan once on numpy arrays, one of each per rank, and returns every rank's result.

    communicator  default: the host backend on shared memory, opened for this call
    operands      as Communicator.prepare takes them: bias, residual, norm_weight, normed,
                  norm_epsilon, a_scales, b_scales, bags, choices, counts, c
    """
    world = communicator or Communicator(plan.op.ranks)
    operands.setdefault("accept_other_fingerprint", communicator is None)
    prepared = world.prepare(plan, a, b, **operands)
    prepared.run("fused", False)
    return prepared.c


def timeline_of(plan: Plan, record: RunRecord) -> Timeline:
    """The lanes of a record's slowest rank, to draw beside the plan's: plan.svg(measured=...)."""
    slowest = max(record.ranks, key=lambda r: max(span[1] for span in r.compute + r.communication))
    lanes = {"compute": slowest.compute, "communication": slowest.communication}
    if plan.schedule == "local_first":  # the own shard is a block of the compute lane of its own
        lanes["compute"] = [slowest.local] + slowest.compute
        lanes["communication"] = [(0.0, 0.0)] + slowest.communication
    if plan.op.first_lane == "compute":
        return Timeline(lanes["compute"], lanes["communication"])
    return Timeline(lanes["communication"], lanes["compute"])
