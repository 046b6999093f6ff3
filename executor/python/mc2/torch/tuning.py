"""Measuring an operator on a process group, and racing its best cuts against the unfused calls."""

from __future__ import annotations

import dataclasses
import time
import typing

import torch
import torch.distributed as dist

from .. import _core, measuring
from .._core import CostModel, Plan, Profile, Sample
from ..errors import Error
from ..measuring import Contender, choose_contenders, judge
from . import _groups, _native, _plans, _symmetric
from ._passes import PASSES, Pass, unfused
from ._plans import BATCHED, LOOPED, Problem

_WARMUP_ROUNDS = 3
_MAX_LENGTH_COUNT = 8


@dataclasses.dataclass
class Tuned:
    """What tuning one shape found; the same on all ranks."""

    plan: Plan  # uncut without validation: runs unfused
    model: CostModel
    is_fused: bool
    text: str  # one line for people


_SLEEP_CYCLES = 2_000_000  # about 1 ms, longer than launching a few dozen kernels takes


class Clock:
    """Times a callable on this rank: the wall clock, or events on the caller's stream of a GPU, which is kept waiting until
    everything is launched, as in a program that keeps its GPU busy. Ranks start together."""

    def __init__(self, group: _groups.Group, device: torch.device) -> None:
        self._group, self._is_cuda = group, device.type == "cuda"
        self._flag = torch.zeros(1, device=device)

    def time_us(self, call: typing.Callable[[], typing.Any]) -> float:
        if self._is_cuda:
            torch.cuda._sleep(_SLEEP_CYCLES)  # type: ignore[attr-defined]
        dist.all_reduce(self._flag, group=self._group.handle)
        if not self._is_cuda:
            start = time.perf_counter()
            call()
            return (time.perf_counter() - start) * 1e6
        start_event, end_event = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start_event.record()
        call()
        end_event.record()
        end_event.synchronize()
        return float(start_event.elapsed_time(end_event)) * 1e3


def _slowest(problem: Problem, times: list[float]) -> list[float]:
    """Each entry's maximum over the ranks. Collective."""
    device = problem.exchange_device()
    tensor = torch.tensor(times, dtype=torch.float64, device=device)
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=problem.group.handle)
    return typing.cast("list[float]", tensor.tolist())


def _shared(problem: Problem, text: str) -> str:
    """Rank 0's text, on every rank. Collective."""
    device = problem.exchange_device()
    mine = torch.frombuffer(bytearray(text.encode() + b"\n"), dtype=torch.uint8).to(device)  # no tensor may be empty
    lengths = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(problem.group.size)]
    dist.all_gather(lengths, torch.tensor([mine.numel()], dtype=torch.int64, device=device), group=problem.group.handle)
    longest = max(int(length) for length in lengths)
    padded = torch.zeros(longest, dtype=torch.uint8, device=device)
    padded[: mine.numel()] = mine
    everyones = [torch.empty_like(padded) for _ in lengths]
    dist.all_gather(everyones, padded, group=problem.group.handle)
    return bytes(everyones[0][: int(lengths[0])].cpu().tolist()).decode()[:-1]


class _Bench:
    """Random matrices of a problem and passes over them."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.op, self.clock = problem, problem.op(), Clock(problem.group, problem.device)
        generator = torch.Generator(device=problem.device).manual_seed(problem.group.rank)
        rows = problem.m // problem.group.size if problem.kind == "all_gather_matmul" else problem.m

        def random(*shape: int) -> torch.Tensor:
            return torch.empty(shape, device=problem.device).uniform_(-1, 1, generator=generator).to(problem.dtype)

        self.x, self.w = random(rows, problem.k), random(problem.k, problem.n)

    def new_pass(self, blocks: list[int], variant: str) -> Pass:
        return PASSES[self.problem.kind](self.problem.group, self.x, self.w, blocks, variant == BATCHED)

    def fused(self, plan: Plan) -> typing.Callable[[], typing.Any]:
        problem = self.problem
        schedule = _plans.Schedule(PASSES[problem.kind], plan.blocks, plan.variant.name)
        return lambda: _plans.run(problem.kind, problem.group, self.x, self.w, schedule)

    def unfused(self) -> typing.Callable[[], typing.Any]:
        return lambda: unfused(self.problem.kind, self.problem.group, self.x, self.w)

    def check(self, what: str, result: torch.Tensor) -> None:
        """A result agrees with the unfused one's, to the dtype's rounding of sums in another order. Raises Error (mismatch), on all
        ranks. Collective."""
        reference = self.unfused()()
        scale = float(reference.abs().max())
        worst = float((result.double() - reference.double()).abs().max()) / max(scale, 1e-30)
        allowed = 8 * torch.finfo(self.problem.dtype).eps * self.problem.group.size
        worst = _slowest(self.problem, [worst if worst == worst else float("inf")])[0]
        if not worst <= allowed:
            raise Error("mismatch", "plan", f"{what}: differs from the unfused result by {worst:.1e} of its largest element")

    def communicate(self, one: Pass) -> typing.Callable[[], None]:
        def call() -> None:
            one.communicate(0).wait()
            one.finish(0)

        return call

    def together(self, one: Pass) -> typing.Callable[[], None]:
        """One block's matmul while another's collective runs."""

        def call() -> None:
            work = one.communicate(0)
            one.compute(1)
            work.wait()
            one.finish(0)

        return call


def _variants(problem: Problem) -> list[str]:
    """Matmuls of several ranks' rows are batched on a GPU or done one by one; a CPU gains nothing by batches."""
    if problem.kind == "matmul_all_reduce" or problem.device.type != "cuda":
        return [LOOPED]
    return [BATCHED, LOOPED]


def _lengths(problem: Problem) -> list[int]:
    rows = problem.op().cut_axis_length
    lengths = [x for x in _core.sweep_block_rows(rows, _plans.options(problem)["alignment"]) if x * _plans.MAX_BLOCK_COUNT >= rows]
    step = max(1, -(-len(lengths) // _MAX_LENGTH_COUNT))
    return sorted({*lengths[::step], rows})


_Case = tuple[str, str, int, typing.Callable[[], None]]  # variant, what, length, the call


def _cases(bench: _Bench) -> list[_Case]:
    rows = bench.op.cut_axis_length
    cases: list[_Case] = []
    for variant in _variants(bench.problem):
        for length in _lengths(bench.problem):
            blocks = [length] * (rows // length) + ([rows % length] if rows % length else [])
            one = bench.new_pass(blocks, variant)
            cases.append((variant, "matmul", length, lambda one=one: one.compute(0)))  # type: ignore[misc]
            cases.append((variant, "collective", length, bench.communicate(one)))
            if 2 * length <= rows:
                cases.append((variant, "both", length, bench.together(one)))
    return cases


def _slowed(both_us: float, compute_us: float, communication_us: float) -> float:
    """How many times slower the lanes run while both work, taken as equal for both:
    both = s min + (max - min), from the first start to the last end."""
    shorter, longer = sorted((compute_us, communication_us))
    return max(1.0, (both_us - (longer - shorter)) / shorter)


def _samples(bench: _Bench, cases: list[_Case], times: list[list[float]]) -> list[Sample]:
    """times[round][case], slowest rank."""
    unit_bytes, samples = bench.op.bytes_per_unit, []
    for turn, row in enumerate(times):
        alone = {(variant, what, length): us for (variant, what, length, _), us in zip(cases, row)}
        for (variant, what, length), us in alone.items():
            lanes = {what: us} if what != "both" else {}
            context = "alone"
            if what == "both":
                compute_us, communication_us = alone[variant, "matmul", length], alone[variant, "collective", length]
                slowed = _slowed(us, compute_us, communication_us)
                lanes, context = {"matmul": slowed * compute_us, "collective": slowed * communication_us}, "co_run"
            for component, lane_us in lanes.items():
                message_bytes = length * unit_bytes if component == "collective" else 0
                samples.append(Sample(component, length, lane_us, context=context, variant=variant,
                                      message_bytes=message_bytes, round=turn))  # fmt: skip
    return samples


def _profile(bench: _Bench, rounds: int) -> Profile:
    """Interleaved rounds of every case; collective."""
    cases, times = _cases(bench), []
    for turn in range(-_WARMUP_ROUNDS, rounds):
        row = [bench.clock.time_us(call) for *_, call in cases]
        if turn >= 0:
            times.append(row)
    flat = _slowest(bench.problem, [max(us, 1e-3) for row in times for us in row])
    width = len(cases)
    rows = [flat[i : i + width] for i in range(0, len(flat), width)]
    machine = _groups.fingerprint(bench.problem.group, bench.problem.device)
    return Profile(bench.op, machine, _samples(bench, cases, rows))


def _race(bench: _Bench, plans: list[Plan], rounds: int) -> list[Contender]:
    """Every plan beside the unfused calls, in alternating order, with the uncut parts alone in between; collective."""
    uncut = {plan.variant.name: bench.new_pass([bench.op.cut_axis_length], plan.variant.name) for plan in plans}
    rows = []
    for turn in range(-_WARMUP_ROUNDS, rounds):
        row = []
        for i, plan in enumerate(plans):
            pair = [bench.fused(plan), bench.unfused()]
            order = pair if (turn + i) % 2 == 0 else pair[::-1]
            times = [bench.clock.time_us(call) for call in order]
            one = uncut[plan.variant.name]
            parts = [bench.clock.time_us(lambda: one.compute(0)), bench.clock.time_us(bench.communicate(one))]
            row += (times if order is pair else times[::-1]) + parts
        if turn >= 0:
            rows.append(row)
    flat = iter(_slowest(bench.problem, [max(us, 1e-3) for row in rows for us in row]))
    contenders = [Contender(plan) for plan in plans]
    for _ in rows:
        for contender in contenders:
            for kept in (contender.fused_us, contender.serial_us, contender.compute_us, contender.communication_us):
                kept.append(next(flat))
    return contenders


def _of_pytorch(bench: _Bench, model: CostModel) -> list[Plan]:
    """PyTorch's own fused operator, where every rank has one that works here. Collective."""
    problem, failures = bench.problem, 0.0
    found = _symmetric.operator(problem.kind, problem.group)
    if _slowest(problem, [float(found is None)])[0]:
        return []
    plan = _core.predict(bench.op, model, [bench.op.cut_axis_length]).with_variant(_core.Variant(_symmetric.NAME))
    try:
        bench.fused(plan)()
    except RuntimeError as error:
        _plans.log.info("%s: PyTorch's fused operator: %s", problem.text(), error)
        failures = 1.0
    return [] if _slowest(problem, [failures])[0] else [plan]


def _contenders(bench: _Bench, model: CostModel) -> list[Plan]:
    """Of every variant, so that the race chooses among them."""
    documents = "\n".join(p.to_json() for p in choose_contenders(bench.op, model, _plans.options(bench.problem)))
    return [Plan.from_json(line) for line in _shared(bench.problem, documents).splitlines()]


def tune(
    kind: str,
    *,
    m: int,
    n: int,
    k: int,
    dtype: torch.dtype = torch.bfloat16,
    group: typing.Any = None,
    device: torch.device | str | None = None,
    rounds: int = 7,
    race_rounds: int = 21,
    store: str | None = None,
) -> Tuned:
    """Measures one shape, plans it, and keeps the fastest of the best cuts and the unfused calls. Collective: every rank of the
    group calls it with the same arguments. Nothing else may use the group or the device meanwhile.

    m, n, k  of the product on a rank: x is [m, k] (all_gather_matmul: [m / ranks, k] on each), w [k, n]
    store    file in which rank 0 keeps samples, model, plan and measurements; default MC2_STORE; "" keeps them in this process only
    """
    found = _groups.resolve(group)
    place = torch.device(device if device is not None else ("cuda" if found.backend == "nccl" else "cpu"))
    if place.type == "cuda" and place.index is None:
        place = torch.device("cuda", torch.cuda.current_device())
    if kind not in PASSES:
        raise Error("unknown_name", "kind", f"'{kind}' is none of {', '.join(PASSES)}")
    problem = Problem(kind, found, place, dtype, m, n, k)
    reason = _plans.unsupported(problem)
    if reason:
        raise Error("unsupported", "kind", reason)
    with torch.no_grad():
        return _tune(problem, rounds, race_rounds, _plans.settings.store if store is None else store)


def _of_native(bench: _Bench, winner: Plan, race_rounds: int) -> tuple[_native.Native | None, measuring.Tuned | None, str]:
    """The best plan on mc2's own backend, if it beats what was the fastest so far beyond noise; both as this program calls them."""
    tuned = _native.tune(bench, race_rounds)
    if tuned is None:
        return None, None, ""
    native = _native.Native(bench.problem, tuned.plan, bench.w)
    bench.check(f"{tuned.plan.cut} on mc2's own backend", native(bench.x, bench.w))
    best = bench.fused(winner) if _plans.is_fused(bench.problem, winner) else bench.unfused()
    calls: list[typing.Callable[[], typing.Any]] = [lambda: native(bench.x, bench.w), best]
    times: list[list[float]] = [[], []]
    for turn in range(-_WARMUP_ROUNDS, race_rounds):
        for which in (0, 1) if turn % 2 else (1, 0):
            us = bench.clock.time_us(calls[which])
            if turn >= 0:
                times[which].append(us)
    flat = _slowest(bench.problem, times[0] + times[1])
    ratio, low, high = _core.paired_ratio(flat[:race_rounds], flat[race_rounds:])
    text = f"{tuned.plan.cut} {tuned.plan.variant} on mc2's own backend: {ratio:.3f} ({low:.3f} to {high:.3f}) of the time of the best other"
    return (native if high < 1 else None), tuned, text


def _tune(problem: Problem, rounds: int, race_rounds: int, store: str) -> Tuned:
    bench = _Bench(problem)
    profile = _profile(bench, rounds)
    # Every rank has the same samples, yet one rank's arithmetic decides.
    model = CostModel.from_json(_shared(problem, _core.fit(profile).model.to_json()))
    contenders: list[Contender] = []
    plans = _contenders(bench, model) + _of_pytorch(bench, model)
    for plan in plans:
        bench.check(plan.cut, bench.fused(plan)())
    if plans:
        contenders = _race(bench, plans, race_rounds)
        seen = [c.observation() for c in contenders if c.plan.variant.name != _symmetric.NAME]
        learned = _core.recalibrate(model, seen).model if seen else model
        model = CostModel.from_json(_shared(problem, learned.to_json()))
    winner = Plan.from_json(_shared(problem, judge(bench.op, model, contenders, "search").to_json()))
    _plans.keep(problem, winner, model)
    if store and problem.group.rank == 0:
        _keep(store, profile, model, winner, contenders)
    native, of_native, finding = _of_native(bench, winner, race_rounds)
    _plans.keep_native(problem, native)
    if native is not None and of_native is not None:
        if store and problem.group.rank == 0:
            _native.keep(store, of_native)
        _plans.log.info("%s: %s", problem.text(), finding)
        return Tuned(of_native.plan, of_native.model, True, f"{problem.text()}: {finding}")
    is_fused = _plans.is_fused(problem, winner)
    text = f"{problem.text()}: {winner.cut if is_fused else 'unfused'}: {winner.reason}"
    text += f"; {finding}" if finding else ""
    _plans.log.info("%s", text)
    return Tuned(winner, model, is_fused, text)


def _keep(path: str, profile: Profile, model: CostModel, winner: Plan, contenders: list[Contender]) -> None:
    with _core.Store(path) as store:
        store.append_samples(profile)
        measuring.keep(store, winner, model, contenders)
