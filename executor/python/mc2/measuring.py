"""Profiling and tuning an operator on a communicator."""

from __future__ import annotations

import typing

from . import _core
from ._core import Bench, CostModel, OpSpec, Profile, Store, Tuned

if typing.TYPE_CHECKING:
    from ._executor import Communicator

__all__ = ["Bench", "Tuned", "profile", "tune"]


def profile(
    op: OpSpec, communicator: Communicator, *, alignment: int | None = None, budget_s: float = 60.0, max_count: int = 40
) -> Profile:
    """Times both lanes, alone and together, over a sweep of block lengths, for every variant of the backend.

    alignment  rows that blocks are multiples of; default: the backend's
    budget_s   no new round starts later; max_count: samples of one size at most
    """
    return _core.profile_on(communicator.bench(op), alignment=alignment, budget_s=budget_s, max_count=max_count)


def tune(
    op: OpSpec,
    communicator: Communicator,
    *,
    store: Store | None = None,
    model: CostModel | None = None,
    budget_s: float = 60.0,
    max_count: int = 40,
    race_rounds: int | None = None,
    **options: typing.Any,
) -> Tuned:
    """Profiles, fits, plans, checks the best cuts' results, races them against serial and keeps the winner: what mc2
    tune does.

    store        where samples, model, plan and measurements are kept; None keeps nothing.
                 mc2.find_plan() with the same options finds the plan there
    model        taken instead of profiling
    budget_s     of profiling and races together; nothing new starts later but the few rounds that are needed
    race_rounds  so many pairs in each race; None: until the intervals are narrow
    options      of the planner, as mc2.plan takes them; default: what fits the backend
    """
    return _core.tune_on(
        communicator.bench(op),
        store=store,
        model=model,
        budget_s=budget_s,
        max_count=max_count,
        race_rounds=race_rounds,
        **options,
    )
