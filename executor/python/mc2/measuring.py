"""Profiling an operator on a communicator, and racing its best cuts."""

from __future__ import annotations

import dataclasses
import statistics
import typing

from . import _core
from ._core import CostModel, OpSpec, Plan, Profile, RaceObservation, Sample, Store, Validation

if typing.TYPE_CHECKING:
    from ._executor import Communicator, Prepared, Problem

_SEARCH_DEPTH = 100
_CONTENDER_MARGIN = 1.05  # of the best prediction: slower cuts are not worth racing
_MAX_RACE_COUNT = 3
_WARMUP_ROUNDS = 2


@dataclasses.dataclass
class Contender:
    """A cut that races, and its times; entry i of every list was taken within moments of the others."""

    plan: Plan
    fused_us: list[float] = dataclasses.field(default_factory=list)
    serial_us: list[float] = dataclasses.field(default_factory=list)
    compute_us: list[float] = dataclasses.field(default_factory=list)
    communication_us: list[float] = dataclasses.field(default_factory=list)

    def validation(self) -> Validation:
        ratio, low, high = _core.paired_ratio(self.fused_us, self.serial_us)
        medians = statistics.median(self.fused_us), statistics.median(self.serial_us)
        return Validation(*medians, benefit=(1 - ratio, 1 - high, 1 - low), pair_count=len(self.fused_us))

    def observation(self) -> RaceObservation:
        medians = [statistics.median(us) for us in (self.fused_us, self.compute_us, self.communication_us)]
        return RaceObservation(self.plan.variant, self.plan.blocks, *medians)


@dataclasses.dataclass
class Tuned:
    """What tuning one operator found."""

    plan: Plan  # the winner; uncut where no cut was faster beyond noise
    model: CostModel
    contenders: list[Contender]
    notes: list[str]


def choose_contenders(op: OpSpec, model: CostModel, options: dict[str, typing.Any], count: int = 4) -> list[Plan]:
    """The best cut, and the best ones of other numbers of blocks that are not far behind. Uncut where a local part overlaps."""
    best = _core.plan(op, model, **{**options, "runner_up_count": _SEARCH_DEPTH})
    contenders, block_counts = [best], {len(best.blocks)} if op.has_local_part else {1, len(best.blocks)}
    for other in best.runners_up:
        if len(contenders) == count or other.makespan_us > _CONTENDER_MARGIN * best.makespan_us:
            break
        if len(other.blocks) not in block_counts:
            block_counts.add(len(other.blocks))
            contenders.append(_core.predict(op, model, other.blocks, other.variant))
    return [plan for plan in contenders if plan.is_cut or op.has_local_part]


def judge(op: OpSpec, model: CostModel, contenders: list[Contender], strategy: str) -> Plan:
    """The fastest contender whose whole 95 % interval of the benefit is above zero; uncut when there is none."""
    raced = [(contender.validation(), contender) for contender in contenders]
    better = [(v, c) for v, c in raced if v.benefit_low > 0]
    if not better:
        uncut = _core.predict(op, model, [op.cut_axis_length])
        found = "; ".join(f"{c.plan.cut}: benefit {v.benefit:.1%} ({v.benefit_low:.1%} to {v.benefit_high:.1%})" for v, c in raced)
        return uncut.because("no cut was faster than serial beyond noise" + (f": {found}" if found else ""))
    validation, winner = max(better, key=lambda entry: entry[0].benefit)
    is_modelled = any(winner.plan.variant == cost.variant for cost in model.variants)
    plan = _core.predict(op, model, winner.plan.blocks, winner.plan.variant) if is_modelled else winner.plan
    return plan.with_validation(validation, f"fastest of {len(contenders)} cuts raced on this machine", strategy)


class _Bench:
    """Random matrices of an operator on a communicator, and every cut that was asked for."""

    def __init__(self, op: OpSpec, communicator: Communicator) -> None:
        self.op, self.communicator = op, communicator
        self.problem: Problem = communicator.random_problem(op)
        self._prepared: dict[tuple[str, tuple[int, ...], str], Prepared] = {}

    def prepare(self, blocks: list[int], variant: _core.Variant) -> Prepared:
        key = (str(variant), tuple(blocks), "")
        if key not in self._prepared:
            self._prepared[key] = self.problem.prepare(blocks, variant)
        return self._prepared[key]

    def prepare_plan(self, plan: Plan) -> Prepared:
        key = (str(plan.variant), tuple(plan.blocks), plan.schedule)
        if key not in self._prepared:
            self._prepared[key] = self.problem.prepare(plan)
        return self._prepared[key]

    def uncut(self, variant: _core.Variant) -> Prepared:
        return self.prepare([self.op.cut_axis_length], variant)


def _equal_blocks(rows: int, length: int) -> list[int]:
    return [length] * (rows // length) + ([rows % length] if rows % length else [])


def _cases(bench: _Bench, variant: _core.Variant, length: int) -> typing.Iterator[tuple[str, typing.Callable[[], list[Sample]]]]:
    """Each lane alone, and both together at lengths near typical plans of 4 to 16 blocks."""
    from . import _executor

    rows, unit_bytes = bench.op.cut_axis_length, bench.op.bytes_per_unit
    prepared = bench.prepare(_equal_blocks(rows, length), variant)
    full_count = rows // length

    def sample(component: str, context: str, time: tuple[float, int]) -> Sample:
        message_bytes = unit_bytes * length if component == "collective" else 0
        return Sample(component, length, time[0], context=context, variant=str(variant), message_bytes=message_bytes,
                      block_count=time[1])  # fmt: skip

    def alone(component: str, mode: str) -> list[Sample]:
        return [sample(component, "alone", _executor.block_time(prepared.run(mode), component, full_count))]

    def together() -> list[Sample]:
        lanes = {"matmul": prepared.run("compute"), "collective": prepared.run("communication")}
        both = prepared.run("independent")
        return [sample(c, "co_run", _executor.contended_time(r, both, c, full_count)) for c, r in lanes.items()]

    yield f"{variant} matmul {length}", lambda: alone("matmul", "compute")
    yield f"{variant} collective {length}", lambda: alone("collective", "communication")
    if length * 3 <= rows <= length * 17:
        yield f"{variant} both lanes {length}", together


def _profile(bench: _Bench, alignment: int, **limits: typing.Any) -> Profile:
    rows = bench.op.cut_axis_length
    lengths = _core.sweep_block_rows(rows, alignment)
    variants = bench.communicator.variants(bench.op)
    cases = [case for variant in variants for length in lengths for case in _cases(bench, variant, length)]
    return Profile(bench.op, bench.communicator.fingerprint, _core.sweep(cases, **limits))


def profile(
    op: OpSpec, communicator: Communicator, *, alignment: int | None = None, budget_s: float = 120.0, max_count: int = 40
) -> Profile:
    """Times both lanes, alone and together, over a sweep of block lengths, for every variant of the backend.

    alignment  rows that blocks are multiples of; default: the backend's
    budget_s   no new round starts later; max_count: samples of one size at most
    """
    aligned = alignment or communicator.default_options["alignment"]
    return _profile(_Bench(op, communicator), aligned, budget_s=budget_s, max_count=max_count)


def _race(bench: _Bench, plans: list[Plan], rounds: int) -> list[Contender]:
    contenders = [Contender(plan) for plan in plans]
    fused = [bench.prepare_plan(plan) for plan in plans]
    for plan in plans:
        bench.uncut(plan.variant)
    variants = bench.communicator.variants(bench.op)
    serial_times: dict[str, list[float]] = {str(v): [] for v in variants}
    for _ in range(_WARMUP_ROUNDS + 3):
        for v in variants:
            serial_times[str(v)].append(bench.uncut(v).run("serial", False).wall_us)
    serial = bench.uncut(min(variants, key=lambda v: statistics.median(serial_times[str(v)])))
    for turn in range(-_WARMUP_ROUNDS, rounds):
        for i, contender in enumerate(contenders):
            is_fused_first = (turn + i) % 2 == 0  # so that a steady drift cancels
            order = (fused[i], "fused"), (serial, "serial")
            times = {mode: p.run(mode, False).wall_us for p, mode in (order if is_fused_first else order[::-1])}
            uncut = bench.uncut(contender.plan.variant)
            parts = uncut.run("compute", False).wall_us, uncut.run("communication", False).wall_us
            if turn >= 0:
                for kept, us in zip((contender.fused_us, contender.serial_us, contender.compute_us, contender.communication_us),
                                    (times["fused"], times["serial"], *parts)):  # fmt: skip
                    kept.append(us)
    return contenders


def tune(
    op: OpSpec,
    communicator: Communicator,
    *,
    store: Store | None = None,
    model: CostModel | None = None,
    budget_s: float = 120.0,
    max_count: int = 40,
    race_rounds: int = 21,
    **options: typing.Any,
) -> Tuned:
    """Profiles, fits, plans, checks the best cuts' results, races them against serial and keeps the winner.

    store    where samples, model, plan and measurements are kept (purpose "tuned"); None keeps nothing
    model    taken instead of profiling
    options  of the planner, as mc2.plan takes them; default: what fits the backend
    """
    bench = _Bench(op, communicator)
    planning: dict[str, typing.Any] = {**communicator.default_options, **options}
    notes: list[str] = []
    if model is None:
        measured = _profile(bench, planning["alignment"], budget_s=budget_s, max_count=max_count)
        if store:
            store.append_samples(measured)
        summary = _core.fit(measured)
        model, notes = summary.model, list(summary.notes)
    contenders: list[Contender] = []
    plans = choose_contenders(op, model, planning)
    for turn in range(_MAX_RACE_COUNT if plans else 0):
        if not communicator.is_virtual:
            for plan in plans[len(contenders) :]:
                bench.problem.verify(bench.prepare_plan(plan), plan.blocks)
        contenders = _race(bench, plans, race_rounds)
        learned = _core.recalibrate(model, [contender.observation() for contender in contenders])
        model = learned.model
        notes.append("recalibrated: " + learned.text)
        best = _core.plan(op, model, **planning)
        if not (best.is_cut or op.has_local_part) or any(best.blocks == p.blocks and best.variant == p.variant for p in plans):
            break
        if turn < _MAX_RACE_COUNT - 1:
            plans.append(best)
    winner = judge(op, model, contenders, planning.get("strategy", "search"))
    if store:
        keep(store, [winner], model, contenders)
    return Tuned(winner, model, contenders, notes)


def keep(store: Store, winners: list[Plan], model: CostModel, contenders: list[Contender]) -> None:
    """In one store: the model, every race and the winners."""
    store.put_model(model)
    for contender in contenders:
        raced = contender.plan.with_validation(contender.validation(), "raced")
        store.add_measurement(raced, statistics.median(contender.compute_us), statistics.median(contender.communication_us))
    for winner in winners:
        store.put_plan(winner)
