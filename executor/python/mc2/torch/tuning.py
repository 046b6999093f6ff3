"""Measuring an operator on a process group, and racing its best cuts against the unfused calls."""

from __future__ import annotations

import dataclasses
import inspect
import math
import statistics
import time
import typing

import torch
import torch.distributed as dist

from .. import _core, measuring
from .._core import CostModel, Plan, Profile, Sample
from ..errors import Error, NativeError
from ..measuring import Contender, choose_contenders, judge
from . import _groups, _native, _plans, _symmetric
from ._passes import PASSES, Pass, unfused
from ._plans import BATCHED, LOOPED, Problem
from ._settings import log, settings, warn

_WARMUP_ROUNDS = 3
_MAX_LENGTH_COUNT = 8


@dataclasses.dataclass
class Tuned:
    """What tuning one shape found; the same on all ranks."""

    plan: Plan  # for eager calls
    captured_plan: Plan  # for calls that are captured in a CUDA graph; on a CPU, plan
    model: CostModel
    is_fused: bool  # eager calls; unfused: they run as the calls of torch do
    is_captured_fused: bool
    text: str  # one line for people


_BACK_TO_BACK_COUNT = 8
_SLEEP_CYCLES = 2_000_000  # about 1 ms, longer than launching a few dozen kernels takes


class Clock:
    """Times a callable on this rank: the wall clock, or events on the caller's stream of a GPU. Ranks start together.

    hides_launches  one call by a GPU that is kept waiting until everything is launched, as in a program that keeps its GPU busy;
                    otherwise the mean of calls back to back, which launching may hold up
    """

    def __init__(self, group: _groups.Group, device: torch.device, hides_launches: bool = True) -> None:
        self._group, self._is_cuda, self._hides_launches = group, device.type == "cuda", hides_launches
        self._flag = torch.zeros(1, device=device)

    def time_us(self, call: typing.Callable[[], typing.Any]) -> float:
        if self._is_cuda and self._hides_launches:
            torch.cuda._sleep(_SLEEP_CYCLES)  # type: ignore[attr-defined]
        dist.all_reduce(self._flag, group=self._group.handle)
        if not self._is_cuda:
            start = time.perf_counter()
            call()
            return (time.perf_counter() - start) * 1e6
        count = 1 if self._hides_launches else _BACK_TO_BACK_COUNT
        start_event, end_event = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start_event.record()
        for _ in range(count):
            call()
        end_event.record()
        end_event.synchronize()
        return float(start_event.elapsed_time(end_event)) * 1e3 / count


def captured(call: typing.Callable[[], typing.Any]) -> typing.Callable[[], None]:
    """The call as a CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # workspaces and connections must exist before the capture
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    settings_of_capture: dict[str, typing.Any] = {}
    if "capture_error_mode" in inspect.signature(torch.cuda.graph.__init__).parameters:
        # NCCL's watchdog thread queries events meanwhile, which the strictest mode refuses.
        settings_of_capture["capture_error_mode"] = "thread_local"
    with torch.cuda.graph(graph, **settings_of_capture):
        call()
    return typing.cast("typing.Callable[[], None]", graph.replay)


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
    lengths = [x for x in _core.sweep_block_rows(rows, _core.default_options(problem.fingerprint())["alignment"]) if x * _plans.MAX_BLOCK_COUNT >= rows]
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
        log.info("%s: PyTorch's fused operator: %s", problem.text(), error)
        failures = 1.0
    return [] if _slowest(problem, [failures])[0] else [plan]


def _contenders(bench: _Bench, model: CostModel) -> list[Plan]:
    """Of every variant, so that the race chooses among them."""
    documents = "\n".join(p.to_json() for p in choose_contenders(bench.op, model, _core.default_options(bench.problem.fingerprint())))
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
        return _tune(problem, rounds, race_rounds, settings.store if store is None else store)


class _Candidate(typing.NamedTuple):
    """Something that a shape may run as."""

    plan: Plan
    call: typing.Callable[[], typing.Any]
    place: str = ""  # where else than on the process group


def _of_native(bench: _Bench, race_rounds: int) -> tuple[list[_Candidate], measuring.Tuned | None]:
    """The best plan on mc2's own backend, if it runs here. Collective."""
    try:
        tuned = _native.tune(bench, race_rounds)
        if tuned is None:
            return [], None
        native = _native.prepare_tuned(bench.problem, tuned.plan, bench.w)
    except (Error, NativeError) as error:  # what one rank is refused, all are
        log.info("%s: not on mc2's own backend: %s", bench.problem.text(), error)
        return [], None
    bench.check(f"{tuned.plan.cut} on mc2's own backend", native(bench.x, bench.w))
    return [_Candidate(tuned.plan, lambda: native(bench.x, bench.w), " on mc2's own backend")], tuned


def interleaved(problem: Problem, calls: list[typing.Callable[[], typing.Any]], clock: Clock, rounds: int) -> list[list[float]]:
    """Times of every call, the slowest rank's, in rounds of alternating order. Collective."""
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(-_WARMUP_ROUNDS, rounds):
        for which in range(len(calls))[:: 1 if turn % 2 else -1]:
            us = clock.time_us(calls[which])
            if turn >= 0:
                times[which].append(max(us, 1e-3))
    flat = _slowest(problem, [us for row in times for us in row])
    return [flat[i : i + rounds] for i in range(0, len(flat), rounds)]


def _fastest(bench: _Bench, candidates: list[_Candidate], uncut: Plan, calls: _groups.Calls, rounds: int) -> Plan:
    """The candidate that beats the unfused calls beyond noise and does not lose to them back to back, where launches count; uncut
    where there is none. The same on all ranks."""
    if calls == _groups.CAPTURED and not _symmetric.may_be_captured():
        candidates = [candidate for candidate in candidates if candidate.plan.variant.name != _symmetric.NAME]
    runs = [bench.unfused()] + [candidate.call for candidate in candidates]
    clocks = [Clock(bench.problem.group, bench.problem.device)]
    if calls == _groups.CAPTURED:
        runs = [captured(run) for run in runs]
    else:
        clocks.append(Clock(bench.problem.group, bench.problem.device, hides_launches=False))
    times = [interleaved(bench.problem, runs, clock, rounds) for clock in clocks]
    best, lowest, findings = uncut, math.inf, []
    for i, candidate in enumerate(candidates, start=1):
        ratios = [_core.paired_ratio(of_clock[i], of_clock[0]) for of_clock in times]
        ratio, low, high = ratios[0]
        worst = max(one for one, _, _ in ratios)
        found = " and ".join(f"{one:.3f}" for one, _, _ in ratios)
        findings.append(f"{candidate.plan.cut} {candidate.plan.variant}{candidate.place} {found}")
        if high < 1 and all(other_low <= 1 for _, other_low, _ in ratios) and worst < lowest:
            medians = statistics.median(times[0][i]), statistics.median(times[0][0])
            validation = _core.Validation(*medians, benefit=(1 - ratio, 1 - high, 1 - low), pair_count=rounds)
            best, lowest = candidate.plan.with_validation(validation, ""), worst
    clock_text = "alone and back to back" if len(clocks) == 2 else "in a graph"
    text = f"of the unfused calls' time, {clock_text}: " + "; ".join(findings)
    found_plan = best.because(text).with_fingerprint(bench.problem.fingerprint(calls))
    return Plan.from_json(_shared(bench.problem, found_plan.to_json()))


def _pass_plans(bench: _Bench, contenders: list[Contender]) -> list[_Candidate]:
    """The fastest cut on the process group, and PyTorch's own operator."""
    theirs = [c for c in contenders if c.plan.variant.name == _symmetric.NAME]
    ours = [c for c in contenders if c.plan.variant.name != _symmetric.NAME]
    best = sorted(ours, key=lambda c: c.validation().benefit, reverse=True)[:1]
    return [_Candidate(c.plan, bench.fused(c.plan)) for c in best + theirs]


class _Chosen(typing.NamedTuple):
    eager: Plan
    captured: Plan
    native: measuring.Tuned | None  # what was tuned on mc2's own backend, if it is one of them


def _choose(bench: _Bench, model: CostModel, contenders: list[Contender], race_rounds: int) -> _Chosen:
    """Collective."""
    problem = bench.problem
    if problem.device.type != "cuda" or problem.group.backend == "gloo":  # the race was of calls as a program makes them
        winner = Plan.from_json(_shared(problem, judge(bench.op, model, contenders, "search").to_json()))
        return _Chosen(winner, winner, None)
    of_native, tuned = _of_native(bench, race_rounds)
    candidates = _pass_plans(bench, contenders) + of_native
    uncut = _core.predict(bench.op, model, [bench.op.cut_axis_length])
    eager, in_graphs = (_fastest(bench, candidates, uncut, calls, race_rounds) for calls in (_groups.EAGER, _groups.CAPTURED))
    _native.release_others(problem, [eager, in_graphs])
    return _Chosen(eager, in_graphs, tuned if any(_plans.is_native(problem, plan) for plan in (eager, in_graphs)) else None)


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
    eager, in_graphs, of_native = _choose(bench, model, contenders, race_rounds)
    _plans.keep(problem, model, eager, in_graphs)
    if store and problem.group.rank == 0:
        _try_keep(store, profile, model, [in_graphs, eager], contenders, of_native)
    is_fused, is_captured_fused = (_plans.is_fused(problem, plan) for plan in (eager, in_graphs))
    text = f"{problem.text()}: {_finding(eager, is_fused)}"
    text += f"; {_finding(in_graphs, is_captured_fused)}" if in_graphs != eager else ""
    log.info("%s", text)
    return Tuned(eager, in_graphs, model, is_fused, is_captured_fused, text)


def _finding(plan: Plan, is_fused: bool) -> str:
    return f"{f'{plan.cut} {plan.variant}' if is_fused else 'unfused'}: {plan.reason}"


def tune_seen(seconds: float, group: typing.Any = None) -> list[Tuned]:
    """For moments in which the program is idle: tunes shapes that it has called and that no tuned plan was found for, those with the
    largest products first, until the time is up; what was begun is finished. Collective, as tune() is; returns what was tuned.

    Not in a thread of mc2's own: its collectives would meet the program's in another order on every rank.
    """
    found, done = _groups.resolve(group), []
    start = time.monotonic()
    for problem in _plans.untuned(found):
        if _slowest(problem, [time.monotonic() - start])[0] >= seconds:
            break
        try:
            done.append(tune(problem.kind, m=problem.m, n=problem.n, k=problem.k, dtype=problem.dtype, group=problem.group.handle,
                             device=problem.device))  # fmt: skip
        except Error as error:  # the same on all ranks
            log.info("%s: not tuned: %s", problem.text(), error)
            _plans.give_up(problem)
    return done


def _try_keep(
    path: str, profile: Profile, model: CostModel, winners: list[Plan], contenders: list[Contender], of_native: measuring.Tuned | None
) -> None:
    """A store that cannot be written loses what other processes would gain, not this one: the other ranks know nothing of it."""
    try:
        with _core.Store(path) as store:
            store.append_samples(profile)
            measuring.keep(store, winners, model, contenders)
        if of_native is not None:
            _native.keep(path, of_native)
    except (Error, NativeError) as error:
        warn("store", f"what was tuned is kept in this process only: {error}")
