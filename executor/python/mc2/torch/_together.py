"""One rank tunes and the others follow: what mc2's tuner asks of a bench, every rank of a process group does.

One rank's arithmetic and clock decide, so ranks on different machines decide alike.
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

NO_BUDGET_S = 1e6  # rounds are counted
_LEADER = 0
_PARTS = ("fused", "serial", "serial_compute", "compute", "communication")
_MAX_TIME_COUNT = 3  # of one measurement
_LEAST_US = 1e-3  # a clock may say that a tiny call took no time

Keep = typing.Callable[[_core.Store, list[Plan]], None]  # what was found, and other plans that came of it


class Steps(abc.ABC):
    """What one rank does for a bench. Every function is called on all ranks, in the same order; plans and cases have
    the numbers that the leader gives them. A bench that only races has no cases."""

    op: _core.OpSpec
    fingerprint: _core.Fingerprint
    variants: list[Variant]

    @abc.abstractmethod
    def prepare(self, number: int, plan: Plan) -> None:
        """Raises Error where this rank cannot run it."""

    def verify(self, number: int) -> None:
        """Raises Error where the result of a prepared plan is wrong."""

    @abc.abstractmethod
    def time_us(self, number: int, part: str) -> float:
        """On this rank; the slowest one counts."""

    def prepare_case(self, number: int, target: str, block_rows: int, variant: Variant) -> None:
        ...

    def measure(self, number: int) -> list[float]:
        """Times of a prepared case in us on this rank, at most three; the slowest rank's count."""
        return []

    def samples(self, number: int, times_us: list[float]) -> list[Sample]:
        """What the slowest ranks' times say; on the leader only."""
        return []

    def rivals(self, model: CostModel) -> list[Plan]:
        """More plans to race; asked of the leader only, and what fails on some rank does not race."""
        return []


class _Order(enum.IntEnum):
    END = 0
    PREPARE = 1
    VERIFY = 2
    TIME = 3
    PREPARE_CASE = 4
    MEASURE = 5


class _Line:
    """How the leader's orders reach the others, and what they answer. Every call is collective."""

    def __init__(self, group: Group, device: torch.device) -> None:
        self._group, self._device = group, device

    def _summed(self, tensor: torch.Tensor) -> torch.Tensor:
        """The leader's, on every rank: the others bring zeros. No backend of any version lacks sums."""
        dist.all_reduce(held(tensor), group=self._group.handle)
        return tensor.cpu()

    def pass_on(self, order: tuple[int, int, int, int] | None, text: str = "") -> tuple[tuple[int, int, int, int], str]:
        """The leader's order (what, which steps, number, detail) and text, on every rank; followers pass None."""
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
        """The slowest rank's times. Raises Error or NativeError, on all ranks, where one has failed."""
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
    """As ranks tell one another; of what is no Error without a code."""
    if isinstance(error, Error):
        return [error.code, error.field, error.message]
    return ["", type(error).__name__, str(error) or type(error).__name__]


def _raised(fields: list[str]) -> Error | NativeError:
    code, field, text = fields
    return Error(code, field, text) if code else NativeError(field, 0, text)


def _obey(steps: Steps, what: int, number: int, detail: int, text: str) -> list[float]:
    """What every rank does of an order; times, where it has some."""
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
    """The bench of the leader: whatever is asked of it, every rank does."""

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
        """On every rank."""
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

    device  where tensors lie that the ranks exchange
    Raises what the body raises, as Error or NativeError on the other ranks.
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
    """What text_of says of what mc2's tuner has found, on every rank, and how the leader keeps it. Collective. Raises
    as lead() does."""
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
            pass  # the leader hears it, too, and ends or goes on
