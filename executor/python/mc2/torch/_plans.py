"""Chooses the cut that a shape runs with, once per shape and the same on all ranks."""

from __future__ import annotations

import json
import os
import sys
import typing

import torch

from .. import _core
from .._core import CostModel, OpSpec, Plan
from ..errors import Error, NativeError
from . import _epilogue, _groups, _hosts, _layout, _native, _native_experts, _settings, _symmetric
from ._bags import Bags, Tables
from ._checks import type_refusal
from ._chosen import Rows, within
from ._epilogue import Epilogue
from ._groups import CAPTURED, EAGER, OFFERS, Calls, Group, everyones, require_one_call
from ._passes import PASSES, Pass, unfused
from ._problem import DTYPES, Experts, Problem
from ._settings import log, settings, warn

if typing.TYPE_CHECKING:
    from .._client import PlanAnswer

MAX_BLOCK_COUNT = _core.default_options(_core.Fingerprint({"backend": "torch/"}))["max_block_count"]
MAX_NATIVE_LENGTHS = 16
_SERVICE_DEADLINE_S = 0.05
LOOPED, BATCHED = "looped", "batched"  # how a block of several ranks' rows is multiplied: rank by rank, or as a batch
VARIANTS = (LOOPED, BATCHED, _symmetric.NAME)


class Schedule(typing.NamedTuple):
    """A cut on the process group, ready for every call of its shape."""

    pass_type: type[Pass]
    blocks: list[int]
    variant: str


class Choice(typing.NamedTuple):
    """What a shape runs with in eager and in captured calls; None: the unfused calls."""

    eager: Schedule | _native.Native | None
    captured: Schedule | _native.Native | None


_UNFUSED = Choice(None, None)


_choices: dict[tuple[typing.Any, ...], Choice] = _groups.table()
_models: dict[Problem, CostModel] = _groups.table()  # by model_key()
_plans: dict[tuple[Problem, Calls], Plan] = _groups.table()
_bag_lengths: dict[tuple[typing.Any, ...], int] = _groups.table()  # the k of each shape of bags, by its first call
_untuned: dict[Problem, None] = _groups.table()  # a set in the order of the first calls
# m that run by models of mc2's own backend; on rank 0
_native_lengths: dict[Problem, set[int]] = _groups.table()  # by model_key()
_given_up: dict[Problem, None] = _groups.table()  # a set of problems whose tuning failed
_stores: dict[str, _core.Store] = {}  # opened once for reading, because opening takes longer than a look-up
os.register_at_fork(after_in_child=_stores.clear)  # a child opens its own stores


def forget() -> None:
    """Forgets models, plans, prepared runs and which warnings were given. Stores keep their contents."""
    _choices.clear()
    _models.clear()
    _plans.clear()
    _untuned.clear()
    _bag_lengths.clear()
    _native_lengths.clear()
    _given_up.clear()
    _stores.clear()
    _native_experts.forget()
    _native.forget()
    _symmetric.forget()
    _settings.forget()


def model_key(problem: Problem) -> Problem:
    return problem._replace(m=0)


def models(kind: str, group: Group, device: torch.device, dtype: torch.dtype) -> list[CostModel]:
    """The models of this process, of any n and k."""
    return [model for key, model in _models.items() if key[:4] == (kind, group, device, dtype)]


def keep(problem: Problem, model: CostModel | None, eager: Plan, captured: Plan | None = None) -> None:
    """Makes later calls of the shape run by these plans, and other lengths of its cut axis by plans of the model."""
    if model is not None:
        _models[model_key(problem)] = model
    if problem.tables:
        _bag_lengths[
            _bag_key(problem.group, problem.device, problem.dtype, problem.m, problem.n, problem.tables)
        ] = problem.k
    _plans[problem, EAGER], _plans[problem, CAPTURED] = eager, captured or eager
    # The k of bags is no part of their shape: a call may have noted it with another one.
    for noted in [one for one in _untuned if (one._replace(k=problem.k) if problem.tables else one) == problem]:
        del _untuned[noted]
    _choices.clear()


def untuned(group: Group) -> list[Problem]:
    """The shapes that were called and are not tuned, those with the largest products first. The order is the same on
    all ranks, although k may differ between them."""
    found = [problem for problem in _untuned if problem.group == group]
    return sorted(found, key=lambda problem: -problem.m * problem.n)


def give_up(problem: Problem) -> None:
    """Notes that a shape cannot be tuned, so that tune_seen() does not try it again."""
    _untuned.pop(problem, None)
    _given_up[problem] = None


def execute(
    kind: str,
    group: Group,
    x: torch.Tensor,
    w: torch.Tensor,
    m: int,
    epilogue: Epilogue = _epilogue.NONE,
    experts: Experts | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Runs the kind on matrices x and w with its epilogue; returns the result and the normalised rows. m is the number
    of rows of the product. In kinds whose rows choose experts, x is Rows, w is [count, k, n], and m counts tokens. Of
    8-bit floats x is Scaled."""
    chosen = None if group.size == 1 else _chosen(kind, group, x, w, m, False, epilogue, experts)
    return _run_chosen(kind, group, x, w, chosen, None, epilogue)


def counted_blocks(kind: str, group: Group, x: torch.Tensor, w: torch.Tensor, m: int) -> list[int]:
    """The blocks of an exchange with counts. They cut the m / ranks rows that a rank may have for another, by the plan
    of the kind without counts. There is one block without a plan, and on GPUs, where two blocks took 1.2 to 1.9 times
    as long (docs/gpu_results.md). The first call of a shape is collective.
    """
    whole = [m // group.size]
    if settings.is_disabled or group.size == 1 or w.numel() == 0 or x.is_cuda:
        return whole
    key = ("counted", kind, group, x.device, x.dtype, m, w.shape[1], w.shape[0])
    if key not in _choices:
        problem = Problem(kind, group, x.device, x.dtype, m, w.shape[1], w.shape[0])
        _choices[key] = _choose(problem, w, False, _epilogue.NONE, _offers(problem, w, _epilogue.NONE))
    chosen = _choices[key].eager
    return chosen.blocks if isinstance(chosen, Schedule) else whole


def execute_with_rows(
    group: Group, x: torch.Tensor, w: torch.Tensor, epilogue: Epilogue
) -> tuple[torch.Tensor, torch.Tensor]:
    """Runs all_gather_matmul, and returns its result and the gathered rows [m, k]."""
    kind, m = "all_gather_matmul", x.shape[0] * group.size
    rows = x.new_empty((m, x.shape[1]))
    return _run_chosen(kind, group, x, w, _chosen(kind, group, x, w, m, True, epilogue), rows, epilogue)[0], rows


def _chosen(
    kind: str,
    group: Group,
    x: torch.Tensor,
    w: torch.Tensor,
    m: int,
    keeps_rows: bool = False,
    epilogue: Epilogue = _epilogue.NONE,
    experts: Experts | None = None,
) -> Schedule | _native.Native | None:
    """What the call runs with; None: the unfused calls. The first call of a shape and kind of epilogue is
    collective."""
    prepared_for = _native.carried(kind, epilogue)
    key = (
        kind,
        group,
        x.device,
        x.dtype,
        m,
        w.shape[-1],
        w.shape[-2],
        x.is_cuda and (w.is_contiguous() or _layout.layout(w)),  # on CPUs PyTorch's matmuls take any layout
        keeps_rows,
        prepared_for.kind,
        experts,
    )
    choice = _choices.get(key)
    if choice is None:
        problem = Problem(kind, group, x.device, x.dtype, m, w.shape[-1], w.shape[-2], None, experts)
        choice = _first_choice(key, problem, x, w, keeps_rows, prepared_for, epilogue)
    return choice.captured if x.is_cuda and torch.cuda.is_current_stream_capturing() else choice.eager


def _first_choice(
    key: tuple[typing.Any, ...],
    problem: Problem,
    x: torch.Tensor,
    w: torch.Tensor,
    keeps_rows: bool,
    prepared_for: Epilogue,
    epilogue: Epilogue,
    given_k: int = 0,
) -> Choice:
    if settings.is_disabled or problem.m == 0 or w.numel() == 0:  # empty matrices have no plan
        return _UNFUSED
    if x.is_cuda and torch.cuda.is_current_stream_capturing():
        warn(
            "capture",
            f"{problem.kind} m={problem.m} is captured into a graph before its first call, so it runs unfused: call it "
            f"once before",
        )
        return _UNFUSED
    offers = _offers(problem, w, epilogue, given_k)
    if problem.tables:  # ranks have bags of different lengths; rank 0's k counts
        problem = problem._replace(k=offers[0].k)
        _bag_lengths[key] = problem.k
    choice = _choose(problem, w, keeps_rows, prepared_for, offers)
    if choice.captured is not choice.eager:  # a first run opens connections, which must not happen in a capture
        rows = x.new_empty((problem.m, problem.k)) if keeps_rows else None
        _run_chosen(problem.kind, problem.group, x, w, choice.captured, rows, epilogue)
    _choices[key] = choice
    return choice


def agree_on_no_rows(kind: str, group: Group, x: torch.Tensor, w: torch.Tensor, epilogue: Epilogue) -> None:
    """Raises Error (mismatch) on all ranks if this rank's x has no rows and another's has some. Collective. Every such
    call exchanges, because the other ranks' calls need one only if their shape is new."""
    is_captured = x.is_cuda and torch.cuda.is_current_stream_capturing()
    if not settings.is_disabled and not is_captured:
        _offers(Problem(kind, group, x.device, x.dtype, 0, w.shape[1], w.shape[0]), w, epilogue)


def _bag_key(
    group: Group, device: torch.device, dtype: torch.dtype, m: int, n: int, tables: Tables
) -> tuple[typing.Any, ...]:
    return ("embedding_all_to_all", group, device, dtype, m, n, tables)


def execute_bags(group: Group, bags: Bags, tables: torch.Tensor, k: int) -> torch.Tensor:
    """Runs embedding_all_to_all. The first call of a shape is collective and finds a plan by k, the rows of a bag; 0:
    rank 0's average in that call."""
    kind, given = "embedding_all_to_all", typing.cast(torch.Tensor, bags)
    if group.size == 1:
        return unfused(kind, group, given, tables)
    table_count, row_count, columns = tables.shape
    m = (len(bags.offsets) - 1) // table_count
    own = Tables(table_count, row_count, bags.pooling)
    key = _bag_key(group, tables.device, tables.dtype, m, table_count * columns, own)
    choice = _choices.get(key)
    if choice is None:
        mean = k or _bag_lengths.get(key, bags.mean_length)
        problem = Problem(kind, group, tables.device, tables.dtype, m, table_count * columns, mean, own)
        choice = _first_choice(key, problem, given, tables, False, _epilogue.NONE, _epilogue.NONE, k)
    is_captured = tables.is_cuda and torch.cuda.is_current_stream_capturing()
    return _run_chosen(
        kind, group, given, tables, choice.captured if is_captured else choice.eager, None, _epilogue.NONE
    )[0]


def _run_chosen(
    kind: str,
    group: Group,
    x: torch.Tensor,
    w: torch.Tensor,
    chosen: Schedule | _native.Native | None,
    rows: torch.Tensor | None,
    epilogue: Epilogue,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    if isinstance(chosen, _native.Native):
        return chosen(x, w, rows, epilogue)
    if chosen is None:
        y = unfused(kind, group, x, w, rows)
    else:
        y = run(kind, group, _layout.dense(x) if isinstance(x, torch.Tensor) else x.contiguous(), w, chosen, rows)
    has_bias_of_experts = epilogue.bias is not None and epilogue.bias.dim() == 2
    return epilogue.finish(y, within(typing.cast(Rows, x).experts.flatten(), len(w)) if has_bias_of_experts else None)


def run(
    kind: str,
    group: Group,
    x: torch.Tensor,
    w: torch.Tensor,
    schedule: Schedule,
    rows: torch.Tensor | None = None,
) -> torch.Tensor:
    if schedule.variant == _symmetric.NAME:
        operator = _symmetric.operator(kind, group)
        return operator(x, w, rows) if operator else unfused(kind, group, x, w, rows)
    return schedule.pass_type(group, x, w, schedule.blocks, schedule.variant == BATCHED, rows).run()


def unsupported(problem: Problem) -> Error | None:
    """Why a shape cannot be cut, with the argument that prevents it as field; None if it can."""
    backend = problem.group.backend
    if problem.dtype not in DTYPES:
        return Error("unsupported", "dtype", f"is {problem.dtype!r}, none of {', '.join(map(str, DTYPES))}")
    refusal = type_refusal(problem.dtype, problem.device, backend, has_matmul=problem.tables is None)
    if refusal is not None:
        return refusal
    if backend not in ("gloo", "nccl", "undefined"):
        return Error("unsupported", "group", f"is of backend '{backend}', which is not cut; gloo and nccl are")
    try:
        may_run = is_cut_by_rows(problem) or (problem.device.type == "cuda" and backend == "nccl")
    except Error as error:  # no operator has this shape
        return error
    if problem.is_scaled and problem.experts:
        return Error("unsupported", "dtype", f"is {problem.dtype}, which kinds whose rows choose experts do not take")
    field = "tables" if problem.tables else "experts" if problem.experts else "dtype" if problem.is_scaled else "m"
    return None if may_run else Error("unsupported", field, _uncut(problem))


def _uncut(problem: Problem) -> str:
    if problem.tables or problem.experts:
        return f"{'bags' if problem.tables else 'chosen experts'} on GPUs are not cut"
    if problem.is_scaled:
        return "8-bit floats are not cut on the process group"
    return f"{problem.m} rows are too few to cut"


def is_cut_by_rows(problem: Problem) -> bool:
    """Whether the process group's passes can cut the shape. They cannot cut matmul_all_reduce with few rows, which is
    cut by columns, nor bags and chosen experts on GPUs, for which the host would wait, nor 8-bit floats; only mc2's own
    backend cuts these. Raises Error for a shape that no operator has."""
    would_wait = (problem.tables or problem.experts) and problem.device.type == "cuda"
    return problem.op().cut_axis == "rows" and not would_wait and not problem.is_scaled


def is_native(problem: Problem, plan: Plan) -> bool:
    """Whether a plan is for mc2's own backend. Its variant tells; the fingerprint does not, because plans for all
    backends are kept with the process group's fingerprint."""
    return problem.device.type == "cuda" and plan.variant.name not in VARIANTS


def may_overlap(problem: Problem, plan: Plan) -> bool:
    """Whether a plan on the process group can overlap anything, unlike the unfused calls."""
    return plan.is_cut or problem.op().has_local_part or plan.variant.name == _symmetric.NAME


def is_fused(problem: Problem, plan: Plan) -> bool:
    """Whether calls run by the plan and not unfused. An uncut plan counts only if it can overlap a local part with the
    collective, or is PyTorch's own operator, and won a race."""
    if is_native(problem, plan):
        return True  # mc2's own backend has kernels of its own
    if len(plan.blocks) > MAX_BLOCK_COUNT or not is_cut_by_rows(problem):
        return False
    has_won = plan.validation is not None and plan.validation.benefit_low > 0
    return plan.is_cut or (may_overlap(problem, plan) and has_won)


class Prospect(typing.NamedTuple):
    """What this rank alone, without agreement of the others, would run a shape with."""

    gain_us: float  # unfused minus fused time
    cut: str
    fault: str  # why it would be run unfused; empty: it would be fused
    is_untuned: bool = False  # True: no measured plan was found


def prospect(problem: Problem, w_layout: str, calls: Calls) -> Prospect:
    """Looks up what the shape would run with. For eager calls, a plan for mc2's own backend has to gain more than a
    call costs the host: in a compiled program the host may be the bottleneck."""
    refusal = unsupported(problem)
    if settings.is_disabled or refusal:
        return Prospect(0, "", "MC2_DISABLE is 1" if settings.is_disabled else str(refusal))
    try:
        found = _find(problem, calls)
    except (Error, NativeError) as error:
        return Prospect(0, "", str(error), getattr(error, "code", "") == "not_found")
    plan = _find_captured(problem, found) if calls == CAPTURED and _is_tuned(found) else found.plan
    gain_us = _gain_us(plan)
    fault = "" if is_fused(problem, plan) else f"its plan is not to fuse ({found.source})"
    if is_native(problem, plan):
        fault = _native.fault(problem) or _layout.layout_fault(w_layout)
        if not fault and calls == EAGER and gain_us < _native.EAGER_HOST_US:
            cost = f"{_native.EAGER_HOST_US:.0f}"
            fault = f"its plan gains {gain_us:.0f} us, and a call outside a CUDA graph costs the host {cost}"
    return Prospect(gain_us, f"{plan.cut}, {plan.variant}", fault, not _is_tuned(found))


def _gain_us(plan: Plan) -> float:
    """Unfused minus fused time of a plan: measured if it was raced, else predicted."""
    raced = plan.validation
    return raced.serial_us - raced.fused_us if raced else plan.serial_us - plan.makespan_us


def note_untuned(problem: Problem) -> None:
    """Notes a shape for tune_seen(). All ranks note the same shapes in the same order."""
    if problem not in _given_up:
        _untuned[problem] = None


# Finding plans, on rank 0.


def store() -> _core.Store | None:
    """The store MC2_STORE, opened for reading; None if the variable is not set. Raises Error or NativeError."""
    if not settings.store:
        return None
    if settings.store not in _stores:
        _stores[settings.store] = _core.Store(settings.store, read_only=True)
    return _stores[settings.store]


def _service(op: OpSpec, machine: _core.Fingerprint, may_transfer: bool) -> PlanAnswer:
    from .._client import Client

    client = Client(
        settings.server, token=settings.server_token, ca_file=settings.server_ca, deadline_s=_SERVICE_DEADLINE_S
    )
    return client.find_plan(op, machine, may_transfer=may_transfer)


def _find(problem: Problem, calls: Calls = EAGER) -> _core.FoundPlan:
    """Looks for a plan in this order: the plan that was tuned in this process for eager calls, the service, the store,
    the models of this process. A kept plan for mc2's own backend is preferred to a plan by a model; if a model of the
    own backend has a plan, too, the faster one is taken. Raises Error with every place's reason."""
    tuned = _plans.get((problem, EAGER))
    kept, model = _found(store), _models.get(model_key(problem)) if is_cut_by_rows(problem) else None
    try:
        found = _core.find_plan(
            problem.op(),
            problem.fingerprint(),
            plans=[tuned] if tuned else [],
            service=_service if settings.server else None,
            store=kept,
            models=[model] if model else [],
            may_transfer=settings.may_transfer,
        )
    except Error as error:
        native = _found_natively(problem, kept, calls)
        if native is None:
            missing = f"store {settings.store}: there is none; " if settings.store and kept is None else ""
            fault = "" if is_cut_by_rows(problem) else _native.fault(problem)
            if fault:  # only mc2's own backend could cut it
                raise Error(
                    error.code, "plan", f"{_uncut(problem)}, and mc2's own backend does not run: {fault}"
                ) from error
            raise Error(error.code, "plan", f"{missing}{error}; mc2.torch.tune() measures this shape") from error
        return native
    return _or_natively(problem, found, kept, calls)


def _or_natively(problem: Problem, found: _core.FoundPlan, kept: _core.Store | None, calls: Calls) -> _core.FoundPlan:
    """The plan that was found. If it comes from a model, the plan for mc2's own backend if that is better."""
    if found.origin != "model":
        return found
    native = _found_natively(problem, kept, calls)
    is_better = native is not None and (native.origin == "kept" or native.plan.makespan_us < found.plan.makespan_us)
    return typing.cast(_core.FoundPlan, native) if is_better else found


def _found_natively(problem: Problem, kept: _core.Store | None, calls: Calls) -> _core.FoundPlan | None:
    """The kept plan for mc2's own backend, or the plan by a kept model of this n and k. A model's plan counts for eager
    calls only if it gains more than a call costs the host, and only for MAX_NATIVE_LENGTHS lengths, because each has
    memory as large as its operands."""
    if kept is None or _native.fault(problem):
        return None
    machine = _native.fingerprint(problem.group)
    found = _found(lambda: _core.find_plan(problem.op(), machine, store=kept, may_transfer=False))
    if found is None or found.origin == "kept":
        return found
    lengths = _native_lengths.get(model_key(problem), set()) | {problem.m}
    pays = calls == CAPTURED or _gain_us(found.plan) >= _native.EAGER_HOST_US
    return found if pays and len(lengths) <= MAX_NATIVE_LENGTHS else None


def _is_tuned(found: _core.FoundPlan) -> bool:
    return found.origin in ("given", "kept")


def _find_captured(problem: Problem, eager: _core.FoundPlan) -> Plan:
    """The plan for captured calls: the one that was tuned for them, else that for eager calls. Where the eager plan
    comes from a model, a plan for mc2's own backend may gain less than an eager call costs the host."""
    if problem.device.type != "cuda":
        return eager.plan
    kept, machine = _found(store), problem.fingerprint(CAPTURED)
    if not _is_tuned(eager):
        return _or_natively(problem, eager, kept, CAPTURED).plan
    if (problem, CAPTURED) in _plans:
        return _plans[problem, CAPTURED]
    found = (
        _found(lambda: _core.find_plan(problem.op(), machine, store=kept, may_transfer=False))
        if kept is not None
        else None
    )
    return found.plan if found is not None and found.origin == "kept" else eager.plan


def _found(find: typing.Callable[[], typing.Any]) -> typing.Any:
    """What find() returns; None if it raises Error (not_found). Other exceptions pass."""
    try:
        return find()
    except Error as error:
        if error.code != "not_found":
            raise
        return None


# Agreement of the ranks.

_Cut = typing.Tuple[typing.List[int], str, str, bool]  # blocks, variant, schedule, whether for mc2's own backend


class _Offer(typing.NamedTuple):
    """What a rank tells the others in the first call of a shape. All ranks run by rank 0's cuts."""

    call: list[typing.Any]  # facts that must be equal on all ranks
    k: int  # may differ between ranks where it is a rank's share
    place: tuple[int, str]  # for _hosts.placement_fault()
    fault: str  # why mc2's own backend cannot run on this rank; empty: it can
    layout: str  # the layout of w
    is_tuned: bool = False
    eager: _Cut | None = None
    captured: _Cut | None = None


_OFFER_BYTES = 2048
_MAX_FAULT_LENGTH = 200


def _offer(problem: Problem, w: torch.Tensor, epilogue: Epilogue, given_k: int) -> tuple[_Offer, str]:
    """This rank's offer, and the reason why rank 0 has no plan or ""."""
    call = [
        problem.kind,
        DTYPES.get(problem.dtype, str(problem.dtype)),
        problem.m,
        problem.n,
        problem.k if _has_common_k(problem) else 0,
        epilogue.name,
        epilogue.epsilon,
        problem.tables,
        problem.experts,
        given_k,
    ]
    offer = _Offer(
        call, problem.k, _hosts.place(problem.group), _native.fault(problem)[:_MAX_FAULT_LENGTH], _layout.layout(w)
    )
    if problem.group.rank != 0 or problem.m == 0:
        return offer, ""
    refusal = unsupported(problem)
    if refusal:
        return offer, str(refusal)
    try:
        eager, captured = _find_both(problem)
    except Exception as error:  # whatever it is: the other ranks wait for the offer
        return offer, str(error)
    full = offer._replace(is_tuned=_is_tuned(eager), eager=_cut(problem, eager.plan), captured=_cut(problem, captured))
    if len(json.dumps(full)) > _OFFER_BYTES:
        return (
            offer,
            f"its plan of {max(len(eager.plan.blocks), len(captured.blocks))} blocks is too long for ranks to agree on",
        )
    return full, ""


def _has_common_k(problem: Problem) -> bool:
    """Whether ranks must call with the same k. In the first call of bags it may differ: rank 0's counts."""
    return PASSES[problem.kind].has_common_k() and not problem.tables


def _cut(problem: Problem, plan: Plan) -> _Cut | None:
    return (
        (plan.blocks, str(plan.variant), plan.schedule, is_native(problem, plan)) if is_fused(problem, plan) else None
    )


def _find_both(problem: Problem) -> tuple[_core.FoundPlan, Plan]:
    """The plans for eager and for captured calls, which are about to be used."""
    eager = _find(problem)
    captured = _find_captured(problem, eager)
    if eager.origin == "model" and (is_native(problem, eager.plan) or is_native(problem, captured)):
        _native_lengths.setdefault(model_key(problem), set()).add(problem.m)
    for calls, plan in ((EAGER, eager.plan), (CAPTURED, captured)):
        log.debug(
            "plan op=%s calls=%s cut=%s variant=%s source=%s predicted_us=%.1f",
            problem.text(),
            calls,
            plan.cut,
            plan.variant,
            eager.source,
            plan.makespan_us,
        )
    return eager, captured


def _offers(problem: Problem, w: torch.Tensor, epilogue: Epilogue, given_k: int = 0) -> list[_Offer]:
    """The offers of all ranks. Collective, once per shape. Raises Error (mismatch) on all ranks if their calls
    differ."""
    own, reason = _offer(problem, w, epilogue, given_k)
    offers = _exchange(problem, own)
    for rank, offer in enumerate(offers):
        if offer.call == offers[0].call:
            continue
        if problem.tables:
            raise Error(
                "mismatch",
                "tables",
                f"rank {rank} calls with another batch, tables, pooling or k than rank 0; this rank has "
                f"{problem._replace(k=given_k).text()} (k=0: none given)",
            )
        raise Error(
            "mismatch",
            "x",
            f"rank {rank} calls with another shape, type, kind or epilogue than rank 0; "
            f"this rank has {problem.text()}, epilogue {epilogue.name}",
        )
    if reason:
        warn("none", f"{problem.text()} runs unfused: {reason}")
    return offers


def _choose(problem: Problem, w: torch.Tensor, keeps_rows: bool, epilogue: Epilogue, offers: list[_Offer]) -> Choice:
    """Makes rank 0's cuts ready on every rank. Collective, once per shape."""
    if not offers[0].is_tuned and not unsupported(problem):
        note_untuned(problem)
    eager, captured = offers[0].eager, offers[0].captured
    chosen = _ready(problem, w, offers, eager, keeps_rows, epilogue)
    return Choice(chosen, chosen if captured == eager else _ready(problem, w, offers, captured, keeps_rows, epilogue))


def _ready(
    problem: Problem,
    w: torch.Tensor,
    offers: list[_Offer],
    cut: _Cut | None,
    keeps_rows: bool,
    epilogue: Epilogue,
) -> Schedule | _native.Native | None:
    """Makes a cut ready to run; None: the calls run unfused. Collective."""
    if cut is None:
        return None
    blocks, variant, schedule, is_native_one = cut
    if not is_native_one:
        return Schedule(PASSES[problem.kind], blocks, variant)
    fault = _native.common_fault([(offer.place, offer.fault, offer.layout) for offer in offers])
    if not fault:
        try:
            layouts = {offer.layout for offer in offers}
            return _native.ready(problem, blocks, variant, schedule, w, layouts, keeps_rows, epilogue)
        except (Error, NativeError) as error:
            fault = str(error)  # raised on all ranks, if on one
    warn("native", f"{problem.text()} runs unfused, its plan for mc2's own backend does not: {fault}")
    return None


def _exchange(problem: Problem, offer: _Offer) -> list[_Offer]:
    text = OFFERS.to_bytes(8, sys.byteorder) + json.dumps(offer).encode().ljust(_OFFER_BYTES)
    words = torch.frombuffer(bytearray(text), dtype=torch.int64)
    told = everyones(problem.group, words.to(problem.exchange_device())).cpu()
    require_one_call(told[:, 0].tolist())
    return [_Offer(*json.loads(row.numpy().tobytes())) for row in told[:, 1 : len(words)].contiguous()]
