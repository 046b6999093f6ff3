"""Profiling and tuning an operator on a communicator."""

from __future__ import annotations

import typing

from . import _core
from ._core import Bench, CostModel, OpSpec, Profile, Store, Tuned

if typing.TYPE_CHECKING:
    from ._executor import Communicator

__all__ = ["Bench", "Tuned", "profile", "tune"]


def profile(
    op: OpSpec,
    communicator: Communicator,
    *,
    store: Store | None = None,
    alignment: int | None = None,
    budget_s: float = 60.0,
    max_count: int = 40,
) -> Profile:
    """Times both lanes, alone and together, over a sweep of block lengths, for the backend's variants. If these share
    their matmul, leaves out those that a few runs show to be the fastest at no size.

    store      keeps the samples, too; None: only the result has them
    alignment  block lengths are multiples of it; default: the backend's alignment
    budget_s   after this many seconds no new round starts
    max_count  the most samples of one block length
    """
    return _core.profile_on(
        communicator.bench(op), alignment=alignment, budget_s=budget_s, max_count=max_count, store=store
    )


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
    """Profiles, fits, plans, checks the best cuts' results, races them against serial and keeps the winner, as the
    program "mc2 tune" does.

    store        keeps samples, model, plan and measurements; None: nothing is kept. mc2.find_plan() with this store
                 and the same options finds the plan
    model        plans with this model instead of profiling
    budget_s     time for profiling and races together; afterwards only the few rounds that a race needs are run
    max_count    the most samples of one block length
    race_rounds  number of pairs in each race, or as many as the 95 % intervals take (6 for one cut, 8 for four);
                 None: until the intervals are narrow
    options      of the planner, as for mc2.plan(); default: the backend's
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
