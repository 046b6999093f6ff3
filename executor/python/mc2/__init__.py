"""Plans, measures and runs fused matmul + collective operators.

    model = mc2.CostModel.from_json(open("model.json").read())
    plan = mc2.plan(mc2.OpSpec("matmul_all_reduce", m=4096, n=8192, k=3072, dtype="f16", ranks=8), model)

docs/python.md describes the package; mc2.torch is the part for PyTorch.
"""

from __future__ import annotations

import typing

from ._core import (
    Bench,
    ChosenExperts,
    Contender,
    CostModel,
    CutBelief,
    CutRule,
    EmbeddingTables,
    Estimate,
    Fingerprint,
    FitSummary,
    FoundPlan,
    LaneCost,
    LearnedFactor,
    MeasuredAccount,
    MeasuredCut,
    OpSpec,
    Plan,
    PlanGap,
    PlanRange,
    PlanRanges,
    Profile,
    Race,
    RaceObservation,
    Recalibration,
    Refinement,
    RunnerUp,
    Sample,
    Staleness,
    Store,
    StoredPlan,
    Timeline,
    Tuned,
    Validation,
    Variant,
    VariantCost,
    default_options,
    device_model,
    find_plan,
    find_plan_ranges,
    fit,
    paired_ratio,
    plan,
    predict,
    profile_on,
    race_on,
    recalibrate,
    refine,
    sweep,
    sweep_block_rows,
    topology_model,
    transfer,
    tune_on,
    winner_of,
)
from .errors import Error, NativeError

if typing.TYPE_CHECKING:
    from ._client import Client, PlanAnswer
    from ._executor import Communicator, NodeCollectives, Prepared, Problem, RankTimes, RunRecord, backends
    from ._finder import PlanFinder, uncut_plan
    from .measuring import profile, tune
    from .running import run, timeline_of

__version__ = "0.1.0"

# Modules that are imported on the first use of a name: planning alone needs no oneDNN, MPI or HTTP library.
_LATER = {
    "Client": "_client",
    "PlanAnswer": "_client",
    "Communicator": "_executor",
    "NodeCollectives": "_executor",
    "Prepared": "_executor",
    "Problem": "_executor",
    "RankTimes": "_executor",
    "RunRecord": "_executor",
    "backends": "_executor",
    "PlanFinder": "_finder",
    "uncut_plan": "_finder",
    "profile": "measuring",
    "tune": "measuring",
    "run": "running",
    "timeline_of": "running",
}


def __getattr__(name: str) -> typing.Any:
    if name not in _LATER:
        raise AttributeError(f"module 'mc2' has no attribute '{name}'")
    import importlib

    value = getattr(importlib.import_module("." + _LATER[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


__all__ = [
    "Bench",
    "ChosenExperts",
    "Client",
    "Communicator",
    "Contender",
    "CostModel",
    "CutBelief",
    "CutRule",
    "EmbeddingTables",
    "Error",
    "Estimate",
    "Fingerprint",
    "FitSummary",
    "FoundPlan",
    "LaneCost",
    "LearnedFactor",
    "MeasuredAccount",
    "MeasuredCut",
    "NativeError",
    "NodeCollectives",
    "OpSpec",
    "Plan",
    "PlanAnswer",
    "PlanFinder",
    "PlanGap",
    "PlanRange",
    "PlanRanges",
    "Prepared",
    "Problem",
    "Profile",
    "Race",
    "RaceObservation",
    "RankTimes",
    "Recalibration",
    "Refinement",
    "RunRecord",
    "RunnerUp",
    "Sample",
    "Staleness",
    "Store",
    "StoredPlan",
    "Timeline",
    "Tuned",
    "Validation",
    "Variant",
    "VariantCost",
    "backends",
    "default_options",
    "device_model",
    "find_plan",
    "find_plan_ranges",
    "fit",
    "paired_ratio",
    "plan",
    "predict",
    "profile",
    "profile_on",
    "race_on",
    "recalibrate",
    "refine",
    "run",
    "sweep",
    "sweep_block_rows",
    "timeline_of",
    "topology_model",
    "transfer",
    "tune",
    "tune_on",
    "uncut_plan",
    "winner_of",
]
