"""Which cut a shape runs with: decided once per shape, the same on all ranks."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import os
import typing
import warnings

import torch
import torch.distributed as dist

from .. import _core
from .._core import CostModel, OpSpec, Plan
from ..errors import Error, NativeError
from . import _native, _symmetric
from ._groups import Group, fingerprint
from ._passes import PASSES, Pass, unfused

log = logging.getLogger("mc2.torch")
MAX_BLOCK_COUNT = 16
DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
LOOPED, BATCHED = "looped", "batched"  # matmuls of a block of several ranks' rows: one each, or one batched
VARIANTS = (LOOPED, BATCHED, _symmetric.NAME)  # in the order that ranks exchange them by


@dataclasses.dataclass
class Settings:
    """What MC2_STORE, MC2_SERVER, MC2_DISABLE and MC2_LOG say; read when mc2.torch is imported."""

    store: str = ""
    server: str = ""
    is_disabled: bool = False

    @classmethod
    def of_environment(cls) -> Settings:
        disable = os.environ.get("MC2_DISABLE", "") or "0"
        if disable not in ("0", "1"):
            raise Error("invalid_spec", "MC2_DISABLE", f"is '{disable}'; legal: 0, 1")
        level = os.environ.get("MC2_LOG", "")
        levels = {"": None, "off": logging.CRITICAL + 1, "error": 40, "warning": 30, "info": 20, "debug": 10}
        if level not in levels:
            raise Error("unknown_name", "MC2_LOG", f"is '{level}'; legal: off, error, warning, info, debug")
        if levels[level] is not None:
            _log_to_stderr(typing.cast(int, levels[level]))
        return cls(os.environ.get("MC2_STORE", ""), os.environ.get("MC2_SERVER", ""), disable == "1")


def _log_to_stderr(level: int) -> None:
    log.setLevel(level)
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("mc2: %(levelname)s: %(message)s"))
        log.addHandler(handler)


settings = Settings.of_environment()


class Schedule(typing.NamedTuple):
    """A cut, ready for every call of its shape."""

    pass_type: type[Pass]
    blocks: list[int]
    variant: str


class Problem(typing.NamedTuple):
    """What a call is about; every rank of a group has the same ones in the same order."""

    kind: str
    group: Group
    device: torch.device
    dtype: torch.dtype
    m: int  # rows of the product
    n: int
    k: int

    def op(self) -> OpSpec:
        return OpSpec(self.kind, m=self.m, n=self.n, k=self.k, dtype=DTYPES[self.dtype], ranks=self.group.size)

    def text(self) -> str:
        return f"{self.kind} m={self.m} n={self.n} k={self.k} {self.dtype} x{self.group.size}"

    def exchange_device(self) -> torch.device:
        """Where tensors lie that ranks exchange: gloo takes those of the CPU only."""
        return self.device if self.group.backend != "gloo" else torch.device("cpu")

    def signature(self) -> int:
        """Equal on ranks that make the same call; k may differ where its shards do."""
        text = repr((self.kind, self.dtype, self.m, self.n))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")


_schedules: dict[tuple[typing.Any, ...], Schedule | _native.Native | None] = {}
_models: dict[tuple[typing.Any, ...], CostModel] = {}
_plans: dict[Problem, Plan] = {}
_natives: dict[Problem, _native.Native | None] = {}
_warned: set[str] = set()
_MISSING = object()


def forget() -> None:
    """Forgets models, plans and what was warned of, not what is in a store."""
    _schedules.clear()
    _models.clear()
    _plans.clear()
    _natives.clear()
    _native.forget()
    _warned.clear()


def model_key(problem: Problem) -> tuple[typing.Any, ...]:
    return (problem.kind, problem.group.name, problem.device, problem.dtype, problem.n, problem.k)


def keep(problem: Problem, plan: Plan, model: CostModel) -> None:
    """From now on the shape runs by this plan, and other lengths of its cut axis by plans of the model."""
    _models[model_key(problem)] = model
    _plans[problem] = plan
    _schedules.clear()


def execute(kind: str, group: Group, x: torch.Tensor, w: torch.Tensor, m: int) -> torch.Tensor:
    """The kind on matrices x and w; m counts rows of the product."""
    key = (kind, group.name, x.device, x.dtype, m, w.shape[1], w.shape[0], w.is_contiguous())
    schedule = _schedules.get(key, _MISSING)
    if schedule is _MISSING:
        if settings.is_disabled:
            return unfused(kind, group, x, w)
        if x.is_cuda and torch.cuda.is_current_stream_capturing():
            _warn("capture", f"{kind} m={m} is captured into a graph before its first call, so it runs unfused: call it once before")
            return unfused(kind, group, x, w)
        problem = Problem(kind, group, x.device, x.dtype, m, w.shape[1], w.shape[0])
        schedule = _schedules[key] = _native_for(problem, w) or _agree(problem, *_decide(problem))
    if schedule.__class__ is _native.Native:
        return typing.cast(_native.Native, schedule)(x, w)
    if schedule is None:
        return unfused(kind, group, x, w)
    return run(kind, group, x.contiguous(), w, typing.cast(Schedule, schedule))


def run(kind: str, group: Group, x: torch.Tensor, w: torch.Tensor, schedule: Schedule) -> torch.Tensor:
    if schedule.variant == _symmetric.NAME:
        operator = _symmetric.operator(kind, group)
        return operator(x, w) if operator else unfused(kind, group, x, w)
    return schedule.pass_type(group, x, w, schedule.blocks, schedule.variant == BATCHED).run()


def _native_for(problem: Problem, w: torch.Tensor) -> _native.Native | None:
    """A plan on mc2's own backend: tuned here, else kept by this program or by mc2 tune --backend cuda. Collective."""
    if not _native.may_run(problem) or unsupported(problem):
        return None
    if problem in _natives:
        tuned = _natives[problem]
        if tuned is None or not _native.everyone(problem.group, _native.is_dense(w)):
            return None
        is_plain = _native.everyone(problem.group, w.is_contiguous())
        native, reason = (tuned, "") if is_plain else _native.bind(problem, tuned.plan, w)
    else:
        native, reason = _native.find(problem, w, settings.store)
    if reason:
        log.info("%s: not on mc2's own backend: %s", problem.text(), reason)
    return native


def keep_native(problem: Problem, native: _native.Native | None) -> None:
    """From now on the shape runs on mc2's own backend, or does not."""
    _natives[problem] = native
    _schedules.clear()


def _decide(problem: Problem) -> tuple[Plan | None, str]:
    """Rank 0's plan, or why there is none. Other ranks take rank 0's."""
    if problem.group.rank != 0:
        return None, ""
    reason = unsupported(problem)
    if reason:
        return None, reason
    try:
        plan, source = _find(problem)
    except (Error, NativeError) as error:
        return None, str(error)
    log.debug("plan op=%s cut=%s source=%s predicted_us=%.1f", problem.text(), plan.cut, source, plan.makespan_us)
    return plan, ""


def unsupported(problem: Problem) -> str:
    """Why a shape cannot be cut; empty where it can."""
    if problem.dtype not in DTYPES:
        return f"{problem.dtype} is none of {', '.join(map(str, DTYPES))}"
    if problem.group.backend not in ("gloo", "nccl", "undefined"):
        return f"process groups of backend '{problem.group.backend}' are not cut; gloo and nccl are"
    if problem.op().cut_axis != "rows":
        return f"{problem.m} rows are too few to cut"
    return ""


def options(problem: Problem) -> dict[str, typing.Any]:
    """Limits of the cuts: multiples of the tiles of the device's matmuls."""
    rows = 128 if problem.device.type == "cuda" else 32
    return {"alignment": rows, "min_block_rows": rows, "max_block_count": MAX_BLOCK_COUNT}


def _find(problem: Problem) -> tuple[Plan, str]:
    """The plan that was tuned here, else the kept one, the service's, or one from a model. Errors: every place's reason."""
    op, machine = problem.op(), fingerprint(problem.group, problem.device)
    if problem in _plans:
        return _plans[problem], "tuned in this process"
    misses = []
    model = _models.get(model_key(problem))
    if model is not None:
        return _core.plan(op, model, **options(problem)), "model of this process"
    if settings.store:
        try:
            with _core.Store(settings.store, read_only=True) as store:
                return _in_store(store, problem, op, machine)
        except Error as error:
            if error.code != "not_found":
                raise
            misses.append(str(error))
    if settings.server:
        from .._client import Client

        try:
            return Client(settings.server, deadline_s=0.05).find_plan(op, machine).plan, settings.server
        except Error as error:
            misses.append(str(error))
    misses.append("nothing was tuned: mc2.torch.tune() measures this shape")
    raise Error("not_found", "plan", "; ".join(misses))


def _in_store(store: _core.Store, problem: Problem, op: OpSpec, machine: _core.Fingerprint) -> tuple[Plan, str]:
    try:
        return store.find_plan(op, machine).plan, f"store {settings.store}"
    except Error as error:
        if error.code != "not_found":
            raise
    model = store.find_model(op, machine)
    _models[model_key(problem)] = model
    return _core.plan(op, model, **options(problem)), f"model in store {settings.store}"


def _agree(problem: Problem, plan: Plan | None, reason: str) -> Schedule | None:
    """Every rank gets rank 0's cut. Collective; once per shape."""
    table = _exchange(problem, _to_row(problem, plan))
    signatures = [int(row[0]) for row in table]
    differing = [rank for rank, signature in enumerate(signatures) if signature != signatures[0]]
    if differing:
        raise Error("mismatch", "x", f"rank {differing[0]} calls with another shape, type or kind than rank 0; "
                    f"this rank has {problem.text()}")  # fmt: skip
    variant, count = int(table[0][1]), int(table[0][2])
    if count == 0:
        if reason:
            _warn("none", f"{problem.text()} runs unfused: {reason}")
        return None
    return Schedule(PASSES[problem.kind], [int(b) for b in table[0][3 : 3 + count]], VARIANTS[variant])


def _to_row(problem: Problem, plan: Plan | None) -> list[int]:
    """Signature, variant, number of blocks, blocks; 0 blocks: unfused."""
    blocks: list[int] = []
    if plan is not None and is_fused(problem, plan):
        blocks = plan.blocks
    variant = VARIANTS.index(plan.variant.name) if plan is not None and plan.variant.name in VARIANTS else 0
    padding = [0] * (MAX_BLOCK_COUNT - len(blocks))
    return [problem.signature(), variant, len(blocks), *blocks, *padding]


def is_fused(problem: Problem, plan: Plan) -> bool:
    """Whether a plan is run as one: uncut it gains only where a local part hides behind the collective, and only if raced."""
    if len(plan.blocks) > MAX_BLOCK_COUNT:
        return False
    overlaps_uncut = problem.op().has_local_part or plan.variant.name == _symmetric.NAME
    return plan.is_cut or (overlaps_uncut and plan.validation is not None)


def _exchange(problem: Problem, row: list[int]) -> list[list[int]]:
    device = problem.exchange_device()
    mine = torch.tensor(row, dtype=torch.int64, device=device)
    rows = [torch.empty_like(mine) for _ in range(problem.group.size)]
    dist.all_gather(rows, mine, group=problem.group.handle)
    return [r.tolist() for r in rows]


def _warn(about: str, message: str) -> None:
    """Once per process and cause; the log has the others."""
    if about in _warned:
        log.info("%s", message)
        return
    _warned.add(about)
    warnings.warn(f"mc2.torch: {message}", RuntimeWarning, stacklevel=5)
