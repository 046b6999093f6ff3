"""Tuning on a process group: the leader runs mc2's tuner, and all ranks do what the tuner asks of its bench.

Only the leader's arithmetic and clock decide, so that all ranks come to the same result.
"""

from __future__ import annotations

import abc
import enum
import json
import typing

import torch
import torch.distributed as dist

from .. import _core
from .._core import CostModel, Plan, Sample, Variant
from ..errors import Error, NativeError
from ._groups import Group, gathered, held
from ._problem import Problem
from ._settings import log

NO_BUDGET_S = 1e6  # a budget that never ends: the number of rounds limits the work
_LEADER = 0
_PARTS = ("fused", "serial", "serial_compute", "compute", "communication")
_MAX_TIME_COUNT = 3  # the most times of one measurement
_LEAST_US = 1e-3  # times are at least this, because a clock may give 0 for a tiny call

Keep = typing.Callable[[_core.Store, list[Plan]], None]  # keeps the tuner's findings and the given plans in a store


class Steps(abc.ABC):
    """One rank's part of a bench. All functions but samples() and rivals() are called on all ranks, in the same order.
    The leader numbers plans and cases. A bench that only races has no cases."""

    op: _core.OpSpec
    fingerprint: _core.Fingerprint
    variants: list[Variant]

    @abc.abstractmethod
    def prepare(self, number: int, plan: Plan) -> None:
        """Makes a plan ready to run. Raises Error if this rank cannot run it."""

    def verify(self, number: int) -> None:
        """Runs a prepared plan. Raises Error if its result is wrong."""

    @abc.abstractmethod
    def time_us(self, number: int, part: str) -> float:
        """Runs a part of a prepared plan once and returns its time on this rank; the slowest rank's counts."""

    def prepare_case(self, number: int, target: str, block_rows: int, variant: Variant) -> None:
        ...

    def measure(self, number: int) -> list[float]:
        """Runs a prepared case and returns up to three times in us on this rank; the slowest rank's count."""
        return []

    def samples(self, number: int, times_us: list[float]) -> list[Sample]:
        """Makes samples from the slowest ranks' times. Called on the leader only."""
        return []

    def rivals(self, model: CostModel) -> list[Plan]:
        """Further plans to race. Called on the leader only. A plan that fails on any rank does not race."""
        return []


class _Order(enum.IntEnum):
    END = 0
    PREPARE = 1
    VERIFY = 2
    TIME = 3
    PREPARE_CASE = 4
    MEASURE = 5


class _Line:
    """Carries the leader's orders to the other ranks and their answers back. Every call is collective."""

    def __init__(self, group: Group, device: torch.device) -> None:
        self._group, self._device = group, device

    def _summed(self, tensor: torch.Tensor) -> torch.Tensor:
        """Broadcasts the leader's tensor as a sum to which the others add zeros: every backend of every version has
        sums."""
        dist.all_reduce(held(tensor), group=self._group.handle)
        return tensor.cpu()

    def pass_on(self, order: tuple[int, int, int, int] | None, text: str = "") -> tuple[tuple[int, int, int, int], str]:
        """Passes the leader's order (what, which steps, number, detail) and text to every rank. Followers pass None and
        no text."""
        raw = text.encode()
        head = torch.tensor([*(order or (0, 0, 0, 0)), len(raw)], dtype=torch.int64, device=self._device)
        what, which, number, detail, length = self._summed(head).tolist()
        if length:
            body = torch.zeros(length, dtype=torch.uint8, device=self._device)
            if order is not None:
                body.copy_(torch.frombuffer(bytearray(raw), dtype=torch.uint8))
            raw = bytes(self._summed(body).tolist())
        return (what, which, number, detail), raw.decode()

    def agree(self, times_us: list[float], failure: Exception | None) -> list[float]:
        """Returns the slowest rank's times. Raises Error or NativeError on all ranks if any has failed."""
        values = (
            [float(failure is not None)]
            + [max(us, _LEAST_US) for us in times_us]
            + [0.0] * (_MAX_TIME_COUNT - len(times_us))
        )
        tensor = torch.tensor(values, dtype=torch.float64, device=self._device)
        dist.all_reduce(held(tensor), op=dist.ReduceOp.MAX, group=self._group.handle)
        failed, *slowest = tensor.cpu().tolist()
        if failed:
            failures = gathered(self._group, failure and _fields_of(failure))
            raise _raised(next(found for found in failures if found))
        return slowest[: max(len(times_us), 1)]


def _fields_of(error: BaseException) -> list[str]:
    """An exception as ranks send it to one another; an exception other than Error has the code ""."""
    if isinstance(error, Error):
        return [error.code, error.field, error.message]
    return ["", type(error).__name__, str(error) or type(error).__name__]


def _raised(fields: list[str]) -> Error | NativeError:
    code, field, text = fields
    return Error(code, field, text) if code else NativeError(field, 0, text)


def _obey(steps: Steps, what: int, number: int, detail: int, text: str) -> list[float]:
    """Carries out an order on this rank and returns its times, if it has any."""
    if what == _Order.PREPARE:
        steps.prepare(number, Plan.from_json(text))
    elif what == _Order.VERIFY:
        steps.verify(number)
    elif what == _Order.TIME:
        return [steps.time_us(number, _PARTS[detail])]
    elif what == _Order.PREPARE_CASE:
        target, block_rows, variant = json.loads(text)
        steps.prepare_case(number, target, block_rows, Variant(variant))
    elif what == _Order.MEASURE:
        return steps.measure(number)
    return []


class Lead(_core.Bench):
    """The leader's bench. Every call is carried out on all ranks."""

    def __init__(self, steps: Steps, which: int, line: _Line) -> None:
        super().__init__(steps.op, steps.fingerprint, steps.variants)
        self._steps, self._which, self._line = steps, which, line
        self._numbers: dict[str, int] = {}
        self._count = 0

    def _tell(self, what: _Order, number: int = 0, detail: int = 0, text: str = "") -> list[float]:
        self._line.pass_on((what, self._which, number, detail), text)
        times: list[float] = []
        failure: Exception | None = None
        try:
            times = _obey(self._steps, what, number, detail, text)
        except (Error, RuntimeError) as error:
            failure = error
        return self._line.agree(times, failure)

    def _next(self) -> int:
        self._count += 1
        return self._count

    def prepare(self, plan: Plan) -> int:
        key = f"{plan.variant} {plan.blocks} {plan.schedule}"
        if key not in self._numbers:
            number = self._next()
            self._tell(_Order.PREPARE, number, text=plan.to_json())
            self._numbers[key] = number
        return self._numbers[key]

    def verify(self, plan: Plan) -> None:
        self._tell(_Order.VERIFY, self.prepare(plan))

    def time_us(self, number: int, part: str) -> float:
        return self._tell(_Order.TIME, number, _PARTS.index(part))[0]

    def prepare_case(self, target: str, block_rows: int, variant: Variant) -> typing.Callable[[], list[Sample]]:
        number = self._next()
        self._tell(_Order.PREPARE_CASE, number, text=json.dumps([target, block_rows, str(variant)]))
        return lambda: self._steps.samples(number, self._tell(_Order.MEASURE, number))

    def rivals(self, model: CostModel) -> list[Plan]:
        return [plan for plan in self._steps.rivals(model) if self._runs(plan)]

    def _runs(self, plan: Plan) -> bool:
        """Whether the plan runs on every rank."""
        try:
            self.time_us(self.prepare(plan), "fused")
        except (Error, NativeError) as error:
            log.info("%s does not race: %s", plan.variant, error)
            return False
        return True


def lead(
    group: Group,
    device: torch.device,
    steps: typing.Sequence[Steps],
    body: typing.Callable[[typing.Sequence[_core.Bench]], str],
) -> str:
    """Runs the body on the leader, with a bench for each of the steps, and returns its text on every rank. Collective.

    device  the device of the tensors that the ranks exchange
    An exception of the body is raised on the leader and, as Error or NativeError, on the other ranks.
    """
    line = _Line(group, device)
    if group.rank != _LEADER:
        return _follow(steps, line)
    try:
        text = body([Lead(one, which, line) for which, one in enumerate(steps)])
    except BaseException as error:
        line.pass_on((_Order.END, 0, 0, 1), json.dumps(_fields_of(error)))
        raise
    line.pass_on((_Order.END, 0, 0, 0), text)
    return text


def tuned_together(
    problem: Problem, steps: Steps, max_count: int, race_rounds: int, text_of: typing.Callable[[_core.Tuned], str]
) -> tuple[str, Keep | None]:
    """Runs mc2's tuner and returns on every rank text_of() of its findings, and on the leader the function that keeps
    them, elsewhere None. Collective. Raises as lead() does."""
    kept: list[Keep] = []

    def body(benches: typing.Sequence[_core.Bench]) -> str:
        tuned = _core.tune_on(benches[0], budget_s=NO_BUDGET_S, max_count=max_count, race_rounds=race_rounds)
        kept.append(lambda store, plans: _core.keep(store, benches[0], tuned, plans))
        return text_of(tuned)

    text = lead(problem.group, problem.exchange_device(), [steps], body)
    return text, kept[0] if kept else None


def _follow(steps: typing.Sequence[Steps], line: _Line) -> str:
    while True:
        (what, which, number, detail), text = line.pass_on(None)
        if what == _Order.END:
            if detail:
                raise _raised(json.loads(text))
            return text
        times: list[float] = []
        failure: Exception | None = None
        try:
            times = _obey(steps[which], what, number, detail, text)
        except (Error, RuntimeError) as error:
            failure = error
        try:
            line.agree(times, failure)
        except (Error, NativeError):
            pass  # the leader gets the same exception, and decides whether to go on
