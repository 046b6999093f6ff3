"""Measures an operator on a process group and races its best cuts against the unfused calls."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import time
import typing

import torch
import torch.distributed as dist

from .. import _core
from .._core import ChosenExperts, CostModel, EmbeddingTables, Plan, Sample, Variant
from ..errors import Error, NativeError
from . import _chosen, _grouped, _groups, _native, _plans, _symmetric, _together
from ._bags import Bags, Tables
from ._checks import count_fault, require_alike
from ._passes import PASSES, Pass, unfused
from ._plans import BATCHED, LOOPED
from ._problem import Experts, Problem
from ._scaled import Scaled
from ._settings import log, settings, warn

_WARMUP_ROUNDS = 3


@dataclasses.dataclass
class Tuned:
    """What tuning one shape found; the same on all ranks."""

    plan: Plan  # for eager calls
    captured_plan: Plan  # for calls that are captured in a CUDA graph; on a CPU the same as `plan`
    model: CostModel | None  # None if the samples could not be fitted
    is_fused: bool  # eager calls follow `plan`; False: they run the unfused calls of torch
    is_captured_fused: bool  # the same for captured calls and `captured_plan`
    text: str  # one line for people


_BACK_TO_BACK_COUNT = 8
_SLEEP_CYCLES = 2_000_000  # about 1 ms: longer than it takes to launch a few dozen kernels


class Clock:
    """Times a callable on this rank, by the wall clock or, on a GPU, by events on the caller's stream. The ranks start
    together.

    hides_launches  True: times one call, and the GPU waits until all its kernels are launched, as in a program that
                    keeps its GPU busy. False: takes the mean of calls back to back, which may wait for launches
    """

    def __init__(self, group: _groups.Group, device: torch.device, hides_launches: bool = True) -> None:
        self._group, self._is_cuda, self._hides_launches = group, device.type == "cuda", hides_launches
        self._flag = torch.zeros(1, device=device)

    def time_us(self, call: typing.Callable[[], typing.Any]) -> float:
        if self._is_cuda and self._hides_launches:
            torch.cuda._sleep(_SLEEP_CYCLES)  # type: ignore[attr-defined]
        dist.all_reduce(_groups.held(self._flag), group=self._group.handle)
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
    """Captures the call as a CUDA graph and returns the function that replays it."""
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
        # NCCL's watchdog thread queries events during the capture, which the strictest mode refuses.
        settings_of_capture["capture_error_mode"] = "thread_local"
    with torch.cuda.graph(graph, **settings_of_capture):
        call()
    return typing.cast("typing.Callable[[], None]", graph.replay)


def _slowest(problem: Problem, times: list[float]) -> list[float]:
    """Each entry's maximum over the ranks. Collective."""
    device = problem.exchange_device()
    tensor = torch.tensor(times, dtype=torch.float64, device=device)
    dist.all_reduce(_groups.held(tensor), op=dist.ReduceOp.MAX, group=problem.group.handle)
    return typing.cast("list[float]", tensor.tolist())


class _Calls:
    """An operator's random matrices on a process group, and the calls that this rank makes with them."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.op, self.clock = problem, problem.op(), Clock(problem.group, problem.device)
        self.fingerprint = problem.fingerprint()
        generator = torch.Generator(device=problem.device).manual_seed(problem.group.rank)
        x_shape, _ = _native.shapes(problem)

        def random(*shape: int) -> torch.Tensor:
            # Before PyTorch 2, CPUs cannot draw float16 and bfloat16.
            drawn_as = problem.dtype if problem.device.type == "cuda" and not problem.is_scaled else torch.float32
            return (
                torch.empty(shape, device=problem.device, dtype=drawn_as)
                .uniform_(-1, 1, generator=generator)
                .to(problem.dtype)
            )

        if problem.tables:
            self.x, self.w = self._bags(generator, problem.tables), random(
                *problem.tables[:2], problem.n // problem.tables.table_count
            )
        elif problem.experts:
            self.x = typing.cast(torch.Tensor, self._choices(random(*x_shape), problem.experts))
            self.w = random(problem.experts.expert_count, problem.k, problem.n)
        elif problem.is_scaled:
            one = torch.ones(1, device=problem.device)
            self.x = typing.cast(torch.Tensor, Scaled(random(*x_shape), one, one))
            self.w = random(problem.n, problem.k).t()
        else:
            self.x, self.w = random(*x_shape), random(problem.k, problem.n)

    def _bags(self, generator: torch.Generator, tables: Tables) -> typing.Any:
        """Random bags of k rows each."""
        place, bag_count = self.problem.device, tables.table_count * self.problem.m
        indices = torch.randint(tables.row_count, (bag_count * self.problem.k,), generator=generator, device=place)
        return Bags(indices, torch.arange(bag_count + 1, device=place) * self.problem.k, tables.pooling)

    def _choices(self, x: torch.Tensor, experts: Experts) -> _chosen.Rows:
        """Random choices, the same on all ranks. They have the distribution of mc2's other backends, expert
        floor(count u u) with a uniform u, so that the first experts have more rows. A token's experts differ."""
        generator = torch.Generator().manual_seed(0)
        numbers = torch.arange(experts.expert_count + 1, dtype=torch.float64, device="cpu")
        shares = numbers.div(experts.expert_count).sqrt().diff()
        chosen = torch.multinomial(shares.expand(self.problem.m, -1), experts.top_k, generator=generator).to(x.device)
        if self.problem.kind in _core.GATHERING_KINDS:
            return _chosen.Rows(x, chosen, None)
        weights = torch.rand(chosen.shape, generator=generator, dtype=torch.float32, device="cpu")
        return _chosen.Rows(x, chosen, weights.to(x.device))

    def new_pass(self, blocks: list[int], variant: Variant) -> Pass:
        return PASSES[self.problem.kind](self.problem.group, self.x, self.w, blocks, variant.name == BATCHED)

    def fused(self, plan: Plan) -> typing.Callable[[], typing.Any]:
        problem = self.problem
        schedule = _plans.Schedule(PASSES[problem.kind], plan.blocks, plan.variant.name)
        return lambda: _plans.run(problem.kind, problem.group, self.x, self.w, schedule)

    def unfused(self) -> typing.Any:
        return unfused(self.problem.kind, self.problem.group, self.x, self.w)

    def check(self, what: str, result: torch.Tensor) -> None:
        """Compares a result with that of the unfused calls, allowing for the rounding of sums in another order. Raises
        Error (mismatch) on all ranks if they differ on any. Collective."""
        reference = self.unfused()
        scale = float(reference.abs().max())
        worst = float((result.double() - reference.double()).abs().max()) / max(scale, 1e-30)
        allowed = 8 * torch.finfo(self.problem.product_type).eps * self.problem.group.size
        worst = _slowest(self.problem, [worst if worst == worst else float("inf")])[0]
        if not worst <= allowed:
            raise Error(
                "mismatch", "plan", f"{what}: differs from the unfused result by {worst:.1e} of its largest one"
            )


def _communicate(one: Pass) -> None:
    one.communicate(0).wait()
    one.finish(0)


def _compute(one: Pass) -> None:
    if one.local is not None:
        one.local()
    one.compute(0)


def _together_call(one: Pass) -> None:
    """Runs block 1's matmul while block 0's collective runs."""
    work = one.communicate(0)
    one.compute(1)
    work.wait()
    one.finish(0)


def _variants(problem: Problem) -> list[Variant]:
    """The variants to measure. The matmuls of several ranks' rows run as a batch or one by one; on a CPU a batch gains
    nothing."""
    can_batch = PASSES[problem.kind].can_batch and problem.device.type == "cuda"
    return [Variant(BATCHED), Variant(LOOPED)] if can_batch else [Variant(LOOPED)]


def _slowed(both_us: float, compute_us: float, communication_us: float) -> float:
    """How many times slower the lanes run while both work. The factor s is assumed to be the same for both lanes; from
    the first start to the last end they take both = s min + (max - min)."""
    shorter, longer = sorted((compute_us, communication_us))
    return max(1.0, (both_us - (longer - shorter)) / shorter)


class _Case(typing.NamedTuple):
    target: str
    block_rows: int
    variant: Variant
    run: Pass


class _PassSteps(_together.Steps):
    """The operator in blocks on the process group, with the functions that mc2's tuner calls."""

    def __init__(self, calls: _Calls) -> None:
        self.calls, self.op, self.fingerprint = calls, calls.op, calls.fingerprint
        self.variants = _variants(calls.problem)
        self._plans: dict[int, Plan] = {}
        self._uncut: dict[int, Pass] = {}
        self._cases: dict[int, _Case] = {}

    def prepare(self, number: int, plan: Plan) -> None:
        problem = self.calls.problem
        if plan.variant.name == _symmetric.NAME and _symmetric.operator(problem.kind, problem.group) is None:
            raise Error(
                "unsupported",
                "variant",
                f"rank {problem.group.rank} has no fused operator of PyTorch for {problem.kind}",
            )
        self._plans[number] = plan

    def verify(self, number: int) -> None:
        plan = self._plans[number]
        self.calls.check(plan.cut, self.calls.fused(plan)())

    def _call(self, number: int, part: str) -> typing.Callable[[], typing.Any]:
        if part == "fused":
            return self.calls.fused(self._plans[number])
        if part == "serial":
            return self.calls.unfused
        if number not in self._uncut:
            self._uncut[number] = self.calls.new_pass(self._plans[number].blocks, self._plans[number].variant)
        one = self._uncut[number]
        return (lambda: _communicate(one)) if part == "communication" else (lambda: _compute(one))

    def time_us(self, number: int, part: str) -> float:
        return self.calls.clock.time_us(self._call(number, part))

    def prepare_case(self, number: int, target: str, block_rows: int, variant: Variant) -> None:
        rows = self.op.cut_axis_length
        blocks = [block_rows] * (rows // block_rows) + ([rows % block_rows] if rows % block_rows else [])
        self._cases[number] = _Case(target, block_rows, variant, self.calls.new_pass(blocks, variant))

    def measure(self, number: int) -> list[float]:
        case, clock = self._cases[number], self.calls.clock
        runs = {"matmul": [lambda: case.run.compute(0)], "collective": [lambda: _communicate(case.run)]}
        runs["both"] = [*runs["matmul"], *runs["collective"], lambda: _together_call(case.run)]
        return [clock.time_us(run) for run in runs[case.target]]

    def samples(self, number: int, times_us: list[float]) -> list[Sample]:
        case = self._cases[number]
        lanes, context = {case.target: times_us[0]}, "alone"
        if case.target == "both":
            compute_us, communication_us, both_us = times_us
            slowed, context = _slowed(both_us, compute_us, communication_us), "co_run"
            lanes = {"matmul": slowed * compute_us, "collective": slowed * communication_us}
        unit_bytes = self.op.bytes_per_unit
        return [
            Sample(
                component,
                case.block_rows,
                us,
                context=context,
                variant=str(case.variant),
                message_bytes=case.block_rows * unit_bytes if component == "collective" else 0,
            )
            for component, us in lanes.items()
        ]

    def rivals(self, model: CostModel) -> list[Plan]:
        """The plan of PyTorch's own fused operator, where there is one."""
        if _symmetric.operator(self.calls.problem.kind, self.calls.problem.group) is None:
            return []
        return [_core.predict(self.op, model, [self.op.cut_axis_length]).with_variant(Variant(_symmetric.NAME))]


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
    store: str | os.PathLike[str] | None = None,
    tables: EmbeddingTables | None = None,
    experts: ChosenExperts | None = None,
) -> Tuned:
    """Measures one shape, plans it, and keeps the fastest of the best cuts and the unfused calls. Collective: every
    rank of the group calls it with the same arguments. Nothing else may use the group or the device meanwhile.

    m, n, k      the product on a rank: x is [m, k] (all_gather_matmul: [m / ranks, k] on each rank), w [k, n].
                 embedding_all_to_all: m samples, n features of a rank's tables, k rows in a bag. Kinds whose rows
                 choose experts: m is the number of rows of all ranks together
    rounds       the most samples of each block length
    race_rounds  pairs of runs in a race, or as many as its 95 % intervals take (6 for one cut, 8 for four)
    tables       only for embedding_all_to_all
    experts      only for kinds whose rows choose experts
    store        file in which rank 0 keeps samples, model, plan and measurements; default: MC2_STORE; "": they are kept
                 in this process only. If rank 0 cannot open a file named here, all ranks raise Error at once
    """
    found = _groups.resolve(group)
    place, misplaced = _place(device if device is not None else "cuda" if found.backend == "nccl" else "cpu")
    own = Tables(tables.table_count, tables.row_count, tables.pooling) if isinstance(tables, EmbeddingTables) else None
    chosen = Experts(experts.count, experts.top_k) if isinstance(experts, ChosenExperts) else None
    facts = {
        "kind": kind,
        "m": m,
        "n": n,
        "dtype": dtype,
        "device": misplaced or place.type,
        "tables": own or tables,
        "experts": chosen or experts,
        "rounds": rounds,
        "race_rounds": race_rounds,
    }
    if kind in PASSES and PASSES[kind].has_common_k():
        facts["k"] = k
    counts = {"m": m, "n": n, "k": k, "rounds": rounds, "race_rounds": race_rounds}
    own_fault = _count_fault(counts) or _store_fault(store, found)
    told = _groups.gathered(found, (own_fault, {name: str(value) for name, value in facts.items()}))
    require_alike([facts for _, facts in told], "mismatch")
    for rank, (fault, _) in enumerate(told):
        if fault is not None:
            raise Error("invalid_spec", fault[0], f"rank {rank}: {fault[1]}")
    if misplaced:
        raise Error("invalid_spec", "device", f"is {misplaced}")
    if kind not in PASSES:
        raise Error("unknown_name", "kind", f"'{kind}' is none of {', '.join(PASSES)}")
    for name, given, read, needed in (
        ("tables", tables, own, "mc2.EmbeddingTables"),
        ("experts", experts, chosen, "mc2.ChosenExperts"),
    ):
        if given is not None and read is None:
            raise Error("invalid_spec", name, f"is a {type(given).__name__}; needs {needed}")
    if (kind in _core.CHOOSING_KINDS) != (experts is not None):
        raise Error(
            "invalid_spec",
            "experts",
            f"is {'missing' if experts is None else 'given'}; of "
            f"{', '.join(_core.CHOOSING_KINDS)} it is given, and of no other kind",
        )
    problem = Problem(kind, found, place, dtype, m, n, k, own, chosen)
    refusal = _plans.unsupported(problem)
    if refusal:
        raise refusal
    with torch.no_grad():
        return _tune(problem, rounds, race_rounds, settings.store if store is None else os.fspath(store))


_Fault = typing.Optional[typing.Tuple[str, str]]  # an argument's name and what is wrong with it


def _count_fault(counts: dict[str, typing.Any]) -> _Fault:
    for name, count in counts.items():
        fault = count_fault(count)
        if fault:
            return name, fault
    return None


def _store_fault(store: typing.Any, group: _groups.Group) -> _Fault:
    """Why this rank cannot keep anything in the store that tune()'s caller named."""
    if not isinstance(store, (str, os.PathLike, type(None))):
        return "store", f"is {store!r}; needs the path of a file"
    if not store or group.rank != 0:
        return None
    try:
        with _core.Store(store):
            return None
    except (Error, NativeError) as error:
        return "store", str(error)


def _place(device: torch.device | str) -> tuple[torch.device, str]:
    """The device, and why it cannot be tuned on or ""."""
    try:
        place, gpus = torch.device(device), torch.cuda.device_count()
    except (RuntimeError, TypeError):
        return torch.device("cpu"), f"'{device}', which is no CPU or GPU"
    if place.type == "cuda" and (place.index or 0) >= gpus:
        return place, f"'{device}', of which PyTorch has {gpus} here"
    if place.type == "cuda" and place.index is None:
        place = torch.device("cuda", torch.cuda.current_device())
    return place, "" if place.type in ("cpu", "cuda") else f"'{device}', which is no CPU or GPU"


class _Candidate(typing.NamedTuple):
    """A plan that a shape may run with, and the call that runs it."""

    plan: Plan
    call: typing.Callable[[], typing.Any]
    place: str = ""  # for texts: where it runs; empty: on the process group


def interleaved(
    problem: Problem, calls: list[typing.Callable[[], typing.Any]], clock: Clock, rounds: int
) -> list[list[float]]:
    """Times every call in `rounds` rounds, whose order alternates, and returns the slowest rank's times. Collective."""
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(-_WARMUP_ROUNDS, rounds):
        for which in range(len(calls))[:: 1 if turn % 2 else -1]:
            us = clock.time_us(calls[which])
            if turn >= 0:
                times[which].append(max(us, 1e-3))
    flat = _slowest(problem, [us for row in times for us in row])
    return [flat[i : i + rounds] for i in range(0, len(flat), rounds)]


class _FinalSteps(_together.Steps):
    """The candidates and the unfused calls, timed by one clock."""

    def __init__(
        self,
        problem: Problem,
        candidates: list[_Candidate],
        unfused_call: typing.Callable[[], typing.Any],
        clock: Clock,
    ) -> None:
        self.op, self.fingerprint, self.variants = problem.op(), problem.fingerprint(), [Variant(LOOPED)]
        self._candidates, self._unfused, self._clock = candidates, unfused_call, clock
        self._calls: dict[int, typing.Callable[[], typing.Any]] = {}

    def prepare(self, number: int, plan: Plan) -> None:
        self._calls[number] = next((one.call for one in self._candidates if one.plan == plan), self._unfused)

    def time_us(self, number: int, part: str) -> float:
        return self._clock.time_us(self._unfused if part == "serial" else self._calls[number])


def _waits(problem: Problem) -> bool:
    """Whether the unfused calls wait for the GPU, so that they cannot be captured."""
    experts = problem.experts
    return experts is not None and _grouped.waits_for_counts(
        problem.dtype, problem.device, experts.expert_count, problem.n, problem.k
    )


def _fastest(calls: _Calls, candidates: list[_Candidate], uncut: Plan, how: _groups.Calls, rounds: int) -> Plan:
    """The candidate that beats the unfused calls beyond noise and, for eager calls, does not lose to them back to back,
    where launches count; `uncut` if there is none. The same on all ranks. Collective."""
    problem, unfused_call = calls.problem, calls.unfused
    if not candidates:
        return uncut.because("nothing else runs it here").with_fingerprint(problem.fingerprint(how))
    clocks = [Clock(problem.group, problem.device)]
    if how == _groups.CAPTURED:
        if _waits(problem):  # then the only candidate is that of mc2's own backend
            plan = candidates[0].plan.because("nothing else may be captured")
            return plan.with_fingerprint(problem.fingerprint(how))
        may_capture_theirs = _symmetric.may_be_captured()
        usable = [one for one in candidates if may_capture_theirs or one.plan.variant.name != _symmetric.NAME]
        candidates = [one._replace(call=captured(one.call)) for one in usable]
        unfused_call = captured(unfused_call)
    else:
        clocks.append(Clock(problem.group, problem.device, hides_launches=False))

    def choose(benches: typing.Sequence[_core.Bench]) -> str:
        plans = [one.plan for one in candidates]
        limits: dict[str, typing.Any] = {"rounds": rounds, "budget_s": _together.NO_BUDGET_S, "times_parts": False}
        races = [_core.race_on(bench, plans, **limits) for bench in benches] if plans else []
        winner = _core.winner_of(races) if races else None
        findings = []
        for i, one in enumerate(candidates):
            ratios = " and ".join(f"{1 - race.validation(i).benefit:.3f}" for race in races)
            findings.append(f"{one.plan.cut} {one.plan.variant}{one.place} {ratios}")
        best = uncut if winner is None else plans[winner].with_validation(races[0].validation(winner), "")
        clock_text = "alone and back to back" if len(clocks) == 2 else "in a graph"
        text = f"of the unfused calls' time, {clock_text}: " + "; ".join(findings)
        return best.because(text).with_fingerprint(problem.fingerprint(how)).to_json()

    steps = [_FinalSteps(problem, candidates, unfused_call, clock) for clock in clocks]
    return Plan.from_json(_together.lead(problem.group, problem.exchange_device(), steps, choose))


class _Found(typing.NamedTuple):
    """What the tuner found on the process group. The same on all ranks, except for `keep`, which only rank 0 has."""

    plan: Plan
    model: CostModel | None
    candidates: list[Plan]  # the fastest cut, and PyTorch's own fused operator
    keep: _together.Keep | None


def _tune_passes(calls: _Calls, rounds: int, race_rounds: int) -> _Found:
    """Tunes the blocks on the process group. Collective."""
    problem = calls.problem

    def text_of(tuned: _core.Tuned) -> str:
        fusing = [one for one in tuned.contenders if _plans.may_overlap(problem, one.plan)]
        theirs = [one.plan for one in fusing if one.plan.variant.name == _symmetric.NAME]
        ours = [one for one in fusing if one.plan.variant.name != _symmetric.NAME]
        best = sorted(ours, key=lambda one: one.validation().benefit, reverse=True)[:1]
        candidates = [one.plan for one in best] + theirs
        model = tuned.model.to_json() if tuned.model is not None else None
        return json.dumps([tuned.plan.to_json(), model, [plan.to_json() for plan in candidates]])

    text, keep = _together.tuned_together(problem, _PassSteps(calls), rounds, race_rounds, text_of)
    plan, model, candidates = json.loads(text)
    plans = [Plan.from_json(one) for one in candidates]
    return _Found(Plan.from_json(plan), CostModel.from_json(model) if model else None, plans, keep)


def _nothing(calls: _Calls) -> _Found:
    """For a shape that the process group does not cut: the uncut plan alone."""
    return _Found(
        _core.unpredicted(calls.op, calls.fingerprint, [calls.op.cut_axis_length], Variant(LOOPED)), None, [], None
    )


class _Chosen(typing.NamedTuple):
    eager: Plan
    captured: Plan
    native: _native.Found | None  # what was tuned on mc2's own backend


def _choose(calls: _Calls, found: _Found, race_rounds: int) -> _Chosen:
    """The plans for eager and for captured calls. Collective."""
    problem = calls.problem
    if (
        problem.device.type != "cuda" or problem.group.backend == "gloo"
    ):  # here the tuner has raced the calls as a program makes them
        return _Chosen(found.plan, found.plan, None)
    candidates = [_Candidate(plan, calls.fused(plan)) for plan in found.candidates]
    natively = _of_native(calls, race_rounds)
    if natively is not None:
        candidates.append(_Candidate(natively.plan, natively.call, " on mc2's own backend"))
    uncut = _nothing(calls).plan
    if found.model is not None:
        uncut = _core.predict(calls.op, found.model, uncut.blocks)
    eager, in_graphs = (
        _fastest(calls, candidates, uncut, how, race_rounds) for how in (_groups.EAGER, _groups.CAPTURED)
    )
    _native.release_others(problem, [eager, in_graphs])
    return _Chosen(eager, in_graphs, natively)


def _of_native(calls: _Calls, race_rounds: int) -> _native.Found | None:
    """The best plan on mc2's own backend, if it runs here. Collective."""
    try:
        found = _native.tune(calls, race_rounds)
    except (Error, NativeError) as error:  # raised on all ranks, if on one
        log.info("%s: not on mc2's own backend: %s", calls.problem.text(), error)
        return None
    if found is not None:
        calls.check(f"{found.plan.cut} on mc2's own backend", found.call())
    return found


def _tune(problem: Problem, rounds: int, race_rounds: int, store: str) -> Tuned:
    calls = _Calls(problem)
    found = _tune_passes(calls, rounds, race_rounds) if _plans.is_cut_by_rows(problem) else _nothing(calls)
    eager, in_graphs, natively = _choose(calls, found, race_rounds)
    _plans.keep(problem, found.model, eager, in_graphs)
    if store:
        _try_keep(store, found, [in_graphs, eager], natively)
    is_fused, is_captured_fused = (_plans.is_fused(problem, plan) for plan in (eager, in_graphs))
    text = f"{problem.text()}: {_finding(eager, is_fused)}"
    text += f"; {_finding(in_graphs, is_captured_fused)}" if in_graphs != eager else ""
    log.info("%s", text)
    return Tuned(eager, in_graphs, found.model, is_fused, is_captured_fused, text)


def _finding(plan: Plan, is_fused: bool) -> str:
    return f"{f'{plan.cut} {plan.variant}' if is_fused else 'unfused'}: {plan.reason}"


def tune_seen(seconds: float, group: typing.Any = None) -> list[Tuned]:
    """Tunes shapes that the program has called and that have no tuned plan, those with the largest products first, and
    returns what was tuned. After `seconds`, of the rank that allows least, it begins no further shape. Call it when the
    program is idle. Collective, as tune() is.

    mc2 does not do this in a thread of its own: the ranks would run its collectives and the program's in different
    orders.
    """
    found, done = _groups.resolve(group), []
    is_wrong = isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds >= 0
    fault = _groups.first_fault(
        _groups.gathered(found, f"is {seconds!r}; needs a number of 0 or more" if is_wrong else "")
    )
    if fault:
        raise Error("invalid_spec", "seconds", fault)
    start = time.monotonic()
    for problem in _plans.untuned(found):
        if _slowest(problem, [time.monotonic() - start - seconds])[0] >= 0:
            break
        try:
            done.append(
                tune(
                    problem.kind,
                    m=problem.m,
                    n=problem.n,
                    k=problem.k,
                    dtype=problem.dtype,
                    group=problem.group.handle,
                    device=problem.device,
                    tables=problem.embedding_tables(),
                    experts=problem.chosen_experts(),
                )
            )
        except (Error, NativeError) as error:  # the same on all ranks
            log.info("%s: not tuned: %s", problem.text(), error)
            _plans.give_up(problem)
    return done


def _try_keep(path: str, found: _Found, winners: list[Plan], natively: _native.Found | None) -> None:
    """Keeps what was found in the store. A store that cannot be written is no error: this process does not need it, and
    the other ranks, which do not write, could not learn of an error."""
    keep_native, native = (natively.keep, natively.plan) if natively is not None else (None, None)
    if found.keep is None and keep_native is None:
        return
    plans = [native] if native is not None and any(plan.variant == native.variant for plan in winners) else []
    try:
        with _core.Store(path) as store:
            if found.keep is not None:
                found.keep(store, winners)
            else:
                plans += winners
            if keep_native is not None and plans:
                keep_native(store, plans)
    except (Error, NativeError) as error:
        warn("store", f"what was tuned is kept in this process only: {error}")
