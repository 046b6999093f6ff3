"""Running a plan once, and the timeline of a run."""

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
    """Runs a plan once on numpy arrays, a list with one array per rank for each operand, and returns every rank's
    result.

    communicator  default: one of the host backend on shared memory, opened for this call
    operands      further operands of Communicator.prepare(): bias, residual, norm_weight, normed,
                  norm_epsilon, a_scales, b_scales, bags, choices, counts, c
    """
    if not isinstance(plan, Plan):
        raise TypeError(f"plan is a {type(plan).__name__}; needs a mc2.Plan")
    world = communicator or Communicator(plan.op.ranks)
    operands.setdefault("accept_other_fingerprint", communicator is None)
    prepared = world.prepare(plan, a, b, **operands)
    prepared.run("fused", False)
    return prepared.c


def timeline_of(plan: Plan, record: RunRecord) -> Timeline:
    """The lanes of a record's slowest rank. plan.svg(measured=...) draws them beside the predicted ones."""
    slowest = max(record.ranks, key=lambda r: max(span[1] for span in r.compute + r.communication))
    lanes = {"compute": slowest.compute, "communication": slowest.communication}
    if plan.schedule == "local_first":  # the rank's own shard counts as a further block, the first of the compute lane
        lanes["compute"] = [slowest.local] + slowest.compute
        lanes["communication"] = [(0.0, 0.0)] + slowest.communication
    if plan.op.first_lane == "compute":
        return Timeline(lanes["compute"], lanes["communication"])
    return Timeline(lanes["communication"], lanes["compute"])
