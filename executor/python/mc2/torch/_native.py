"""mc2's own GPU backend under PyTorch: one process per GPU, with kernels and copies on the caller's stream."""

from __future__ import annotations

import concurrent.futures
import functools
import typing
import uuid

import torch

from .._core import GATHERING_KINDS, SHARDED_KINDS, SUMMING_KINDS, Plan, Sample, Variant
from ..errors import Error, NativeError
from . import _epilogue, _groups, _hosts, _settings, _together
from ._bags import Bags, Tables
from ._epilogue import Epilogue
from ._groups import Group, first_fault, gathered
from ._layout import PLAIN, layout, layout_fault
from ._problem import Experts, Problem
from ._scaled import Scaled

if typing.TYPE_CHECKING:
    from .._executor import Communicator, Prepared

_ALIGNMENT_BYTES = 256  # tensors from PyTorch's allocator have this alignment; views into a tensor may not
EAGER_HOST_US = 50.0  # host time of a call that is not captured (docs/python.md)
_TUNING_SAMPLE_COUNT = 9
_LEAST_RANKS, _MOST_RANKS = 2, 8

_worlds: dict[Group, Communicator | Exception] = _groups.table()  # an exception says why there is no communicator
_tuned: dict[tuple[Problem, tuple[int, ...], str, str], Native] = _groups.table()  # by the layout of tuning's weights
_in_graphs: set[typing.Any] = set()  # owners of memory that CUDA graphs use, kept because graphs may be replayed


@functools.lru_cache(maxsize=None)
def import_fault() -> str:
    """Why this process cannot load the executor; empty if it can."""
    try:
        from .. import _executor  # noqa: F401
    except ImportError as error:
        return f"mc2's executor cannot be loaded: {error}"
    return ""


@functools.lru_cache(maxsize=None)
def _backend_fault(local_size: int) -> str:
    """Why this process cannot open the backend for local_size ranks on this host; empty if it can."""
    if import_fault():
        return import_fault()
    from .. import _executor

    found = {name: (can_run, reason) for name, can_run, reason in _executor.backends(local_size)}
    can_run, reason = found.get("cuda", (False, "this build has no backend cuda"))
    return "" if can_run else reason


def fault(problem: Problem) -> str:
    """Why this rank cannot run the backend; empty if it can."""
    group, device = problem.group, problem.device
    if device.type != "cuda" or group.backend != "nccl":
        return f"{device} and {group.backend} are not a GPU and nccl"
    here = _hosts.placement(group)
    if here.local_size > torch.cuda.device_count():
        return f"{here.local_size} ranks and {torch.cuda.device_count()} GPUs here"
    if device.index != here.local_rank:
        return (
            f"rank {group.rank}, number {here.local_rank} of its host, is on {device}; the backend wants number r on "
            "device r"
        )
    if group.size > _MOST_RANKS:
        return f"{group.size} ranks; the backend takes {_MOST_RANKS}"
    return _backend_fault(here.local_size if here.spans_hosts else max(here.local_size, _LEAST_RANKS))


def common_fault(ranks: list[tuple[tuple[int, str], str, str]]) -> str:
    """The first reason why the ranks cannot run the backend together; "" if they can. ranks: each rank's place, fault
    and layout of w."""
    misplaced = _hosts.placement_fault([place for place, *_ in ranks])
    return misplaced or first_fault([own or layout_fault(w_layout) for _, own, w_layout in ranks])


def world(group: Group) -> Communicator:
    """The group's communicator. The first call opens it; if that fails, later calls raise the same exception.
    Collective. Raises Error or NativeError, on all ranks."""
    if group not in _worlds:
        try:
            _worlds[group] = _open(group)
        except (Error, NativeError) as error:
            _worlds[group] = error
    opened = _worlds[group]
    if isinstance(opened, Exception):
        raise opened
    return opened


def _open(group: Group) -> Communicator:
    from .._executor import Communicator

    process = group.rank, gathered(group, uuid.uuid4().hex)[0]
    here = _hosts.placement(group)
    if not here.spans_hosts:
        return Communicator(group.size, backend="cuda", process=process)
    address, reason = gathered(group, _hosts.meeting_place() if group.rank == 0 else None)[0]
    if reason:
        raise Error("invalid_spec", "MASTER_ADDR", reason)
    return Communicator(
        group.size,
        backend="cuda",
        process=process,
        rank_zero=address,
        local_rank=here.local_rank,
        local_size=here.local_size,
    )


@_groups.cached
def fingerprint(group: Group) -> typing.Any:
    from .. import _executor

    here = _hosts.placement(group)
    return _executor.fingerprint("cuda", group.size, here.local_size if here.spans_hosts else 0)


def forget() -> None:
    _tuned.clear()
    _in_graphs.clear()
    fingerprint.cache_clear()
    _hosts.forget()
    for opened in _worlds.values():
        if not isinstance(opened, Exception):
            opened.close()
    _worlds.clear()


def aligned(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_contiguous() and tensor.data_ptr() % _ALIGNMENT_BYTES == 0 and not tensor.is_neg():
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


def shapes(problem: Problem) -> tuple[tuple[int, int], tuple[int, int]]:
    """The shapes of a rank's x, which is empty for bags, and of its y."""
    share = problem.m // problem.group.size
    if problem.tables:
        return (0, problem.k), (share, problem.n * problem.group.size)
    products = problem.m * (problem.experts.top_k if problem.experts else 1)
    x_rows = share if problem.kind in GATHERING_KINDS else products
    sum_rows = share if problem.kind in SHARDED_KINDS else problem.m
    y_rows = sum_rows if problem.kind in SUMMING_KINDS else products
    return (x_rows, problem.k), (y_rows, problem.n)


def allocated_for_long(
    shapes: typing.Sequence[tuple[int, ...]], like: torch.Tensor, dtype: torch.dtype | None = None
) -> list[torch.Tensor]:
    """Allocates tensors that outlive a call, in another thread. torch.compile makes the thread of the first calls
    allocate from the memory pool of its CUDA graphs, and refuses tensors that stay there."""
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        return list(executor.map(lambda shape: like.new_empty(shape, dtype=dtype), shapes))


def _aligned_if_any(tensor: torch.Tensor | None) -> torch.Tensor | None:
    return None if tensor is None else aligned(tensor)


def _address(tensor: torch.Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def enqueue(owner: typing.Any, prepared: Prepared, device: torch.device) -> None:
    """Enqueues a run on the caller's stream. Memory that the caller frees afterwards is reused in the order of this
    stream, so after the run. owner: the object whose memory a captured run needs."""
    is_captured = torch.cuda.is_current_stream_capturing()
    if is_captured:
        _in_graphs.add(owner)
    prepared.enqueue(torch.cuda.current_stream(device).cuda_stream, not is_captured)


class Native:
    """A prepared plan of one shape. It works on the caller's x, w and y at any address. A matrix that other ranks
    access must keep its address, so it is copied to or from this object's memory."""

    _more: tuple[int, ...] = ()  # further entries of prepare_at()'s addresses, after those of the matrices

    def __init__(
        self,
        problem: Problem,
        blocks: list[int],
        variant: Variant,
        schedule: str,
        w: torch.Tensor,
        keeps_rows: bool = False,
        epilogue: Epilogue = _epilogue.NONE,
    ) -> None:
        """Collective. epilogue: the result of carried() for the calls' epilogue."""
        self._adds_bias = epilogue.bias is not None
        self._has_norm = epilogue.norm_weight is not None
        x_shape, self._y_shape = shapes(problem)
        rows_shapes = [(problem.m, problem.k)] if keeps_rows else []
        normed_shapes = [self._y_shape] if self._has_norm else []
        self._x, *kept = allocated_for_long([x_shape, *rows_shapes], w)
        self._y, *more = allocated_for_long([self._y_shape, *normed_shapes], w, problem.product_type)
        self._rows = kept[0] if keeps_rows else None
        normed = more[0] if self._has_norm else None
        self.layout = layout(w)
        self._is_transposed = not w.is_contiguous()
        stored = aligned(w.transpose(-2, -1) if self._is_transposed else w)
        added = tuple(map(_aligned_if_any, epilogue[:3]))
        self._bound = (*map(_address, (self._x, stored, self._y, self._rows, *added, normed)), *self._more)
        self._prepared: Prepared = world(problem.group).prepare_at(
            problem.op(epilogue.name),
            blocks,
            variant,
            self._bound,
            (self._x, stored, self._y, added, normed),
            False,
            self._is_transposed,
            schedule,
            epilogue.epsilon,
        )
        self._reaches_x, self._reaches_y = self._prepared.peer_reach

    def __call__(
        self,
        x: torch.Tensor,
        w: torch.Tensor,
        rows: torch.Tensor | None = None,
        epilogue: Epilogue = _epilogue.NONE,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Enqueues a run and returns y and the normalised rows. rows [m, k] gets the gathered x; it is given if and
        only if the plan was prepared with keeps_rows."""
        x, w = aligned(x), aligned(w.transpose(-2, -1) if self._is_transposed else w)
        if self._reaches_x:
            x = self._x.copy_(x)
        y = self._y if self._reaches_y else torch.empty_like(self._y)
        bias = epilogue.bias if self._adds_bias else None
        bias, residual, weight = map(_aligned_if_any, (bias, epilogue.residual, epilogue.norm_weight))
        normed = torch.empty_like(self._y) if self._has_norm else None
        addresses = (*map(_address, (x, w, y, rows, bias, residual, weight, normed)), *self._more)
        if addresses != self._bound:
            self._prepared.rebind(addresses, (self._x, self._y))
            self._bound, self._rows = addresses, None  # own rows are not needed: peers do not access rows
        enqueue(self, self._prepared, x.device)
        y = y.clone() if self._reaches_y else y
        return (y if epilogue.bias is None or self._adds_bias else y.add_(epilogue.bias)), normed


def bags_at(bags: Bags, tables: torch.Tensor, y: torch.Tensor) -> tuple[int, ...]:
    """The addresses of bags, tables and y in the order that prepare_at() takes."""
    return (
        0,
        tables.data_ptr(),
        y.data_ptr(),
        0,
        0,
        0,
        0,
        0,
        0,
        bags.offsets.data_ptr(),
        bags.indices.data_ptr(),
        len(bags.indices),
        bags.indices.element_size(),
    )


class NativeBags(Native):
    """A prepared plan of embedding_all_to_all, for any bags. A bag that names a row which does not exist makes the
    result NaN and the next call fail."""

    def __init__(
        self, problem: Problem, blocks: list[int], variant: Variant, schedule: str, tables: torch.Tensor
    ) -> None:
        """Collective."""
        self._y_shape, self.layout = shapes(problem)[1], PLAIN
        (self._y,) = allocated_for_long([self._y_shape], tables)  # bags and tables stay the caller's
        empty = torch.zeros(tables.shape[0] * problem.m + 1, dtype=torch.int64, device=tables.device)
        torch.cuda.current_stream(tables.device).synchronize()  # preparing reads the tensors written above
        bags = Bags(empty[:0], empty, typing.cast(Tables, problem.tables).pooling)
        self._bound = bags_at(bags, tables, self._y)
        # k must be the same on all ranks, whose bags differ. It makes no difference to a prepared plan, so it is 1.
        self._prepared = world(problem.group).prepare_at(
            problem._replace(k=1).op(), blocks, variant, self._bound, (self._y,), False, False, schedule
        )
        _, self._reaches_y = self._prepared.peer_reach

    def __call__(
        self,
        x: typing.Any,
        w: torch.Tensor,
        rows: torch.Tensor | None = None,
        epilogue: Epilogue = _epilogue.NONE,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """x is Bags, w the tables."""
        y = self._y if self._reaches_y else w.new_empty(self._y_shape)
        addresses = bags_at(x, w, y)
        if addresses != self._bound:
            self._prepared.rebind(addresses, (self._y,))
            self._bound = addresses
        enqueue(self, self._prepared, w.device)
        return (y.clone() if self._reaches_y else y), None


def choices_at(experts: torch.Tensor, weights: torch.Tensor | None) -> tuple[int, ...]:
    """The addresses of choices that prepare_at() takes after those of an epilogue's matrices."""
    return (0, experts.data_ptr(), _address(weights), experts.element_size())


class NativeChosen(Native):
    """A prepared plan of a kind whose rows choose experts; x is Rows. Choices of any integer type are copied to this
    object's memory. An expert number that does not exist makes the result NaN and the next call fail."""

    def __init__(
        self,
        problem: Problem,
        blocks: list[int],
        variant: Variant,
        schedule: str,
        w: torch.Tensor,
        epilogue: Epilogue,
    ) -> None:
        """Collective."""
        shape = (problem.m, typing.cast(Experts, problem.experts).top_k)
        self._experts = allocated_for_long([shape], w.new_empty(0, dtype=torch.int64))[0].zero_()
        self._weights = allocated_for_long([shape], w.new_empty(0, dtype=torch.float32))[0].zero_()
        has_weights = problem.kind in SUMMING_KINDS
        self._more = choices_at(self._experts, self._weights if has_weights else None)
        torch.cuda.current_stream(w.device).synchronize()  # preparing reads the tensors written above
        super().__init__(problem, blocks, variant, schedule, w, False, epilogue)

    def __call__(
        self,
        x: typing.Any,
        w: torch.Tensor,
        rows: torch.Tensor | None = None,
        epilogue: Epilogue = _epilogue.NONE,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        self._experts.copy_(x.experts)
        if x.weights is not None:
            self._weights.copy_(x.weights)
        return super().__call__(x.x, w, None, epilogue)


def scales_at(scales: typing.Sequence[torch.Tensor]) -> tuple[int, ...]:
    """The addresses of scales that prepare_at() takes after those of an epilogue's matrices."""
    return (0, *(scale.data_ptr() for scale in scales))


class NativeScaled(Native):
    """A prepared plan on 8-bit floats; x is Scaled. A plan's scales keep their place, so a call's are copied there."""

    def __init__(
        self, problem: Problem, blocks: list[int], variant: Variant, schedule: str, w: torch.Tensor, epilogue: Epilogue
    ) -> None:
        """Collective."""
        self._scales = [one.fill_(1) for one in allocated_for_long([(1,), (1,)], w, torch.float32)]
        self._more = scales_at(self._scales)
        torch.cuda.current_stream(w.device).synchronize()  # preparing reads the tensors written above
        super().__init__(problem, blocks, variant, schedule, w, False, epilogue)

    def __call__(
        self,
        x: typing.Any,
        w: torch.Tensor,
        rows: torch.Tensor | None = None,
        epilogue: Epilogue = _epilogue.NONE,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        for own, given in zip(self._scales, typing.cast(Scaled, x)[1:]):
            own.copy_(given.view(1))
        return super().__call__(x.x, w, None, epilogue)


def carried(kind: str, epilogue: Epilogue) -> Epilogue:
    """The part of an epilogue that the backend does; a bias that is left out is added afterwards. It is left out in
    matmul_all_to_all, where the backend would add the sender's bias. It is also left out of a sum if there is nothing
    else to add: the backend would need a further kernel, too, and a further prepared plan with its memory.
    """
    if epilogue is _epilogue.NONE or epilogue.bias is None:
        return epilogue
    is_alone = epilogue.residual is None and epilogue.norm_weight is None
    if kind == "matmul_all_to_all" or (is_alone and kind in SUMMING_KINDS):
        return _epilogue.NONE if is_alone else Epilogue(None, *epilogue[1:])
    return epilogue


def ready(
    problem: Problem,
    blocks: list[int],
    variant: str,
    schedule: str,
    w: torch.Tensor,
    layouts: set[str],
    keeps_rows: bool,
    epilogue: Epilogue,
) -> Native:
    """The prepared plan for weights in the layout of w. layouts: those of all ranks. Collective. Raises Error or
    NativeError, on all ranks."""
    tuned = _tuned.get((problem, tuple(blocks), variant, schedule))
    if tuned is not None and layouts == {tuned.layout} and not keeps_rows and epilogue.name == "none":
        return tuned
    return _native(problem, blocks, Variant(variant), schedule, w, keeps_rows, epilogue)


def _native(
    problem: Problem,
    blocks: list[int],
    variant: Variant,
    schedule: str,
    w: torch.Tensor,
    keeps_rows: bool = False,
    epilogue: Epilogue = _epilogue.NONE,
) -> Native:
    if problem.tables:
        return NativeBags(problem, blocks, variant, schedule, w)
    if problem.experts:
        return NativeChosen(problem, blocks, variant, schedule, w, epilogue)
    if problem.is_scaled:
        return NativeScaled(problem, blocks, variant, schedule, w, epilogue)
    return Native(problem, blocks, variant, schedule, w, keeps_rows, epilogue)


class _RankSteps(_together.Steps):
    """This rank's part of the operator on mc2's own backend. All ranks get the slowest rank's times."""

    def __init__(self, world: Communicator, calls: typing.Any) -> None:
        self.op, self.fingerprint = calls.op, world.fingerprint
        self.variants = world.variants(calls.op)
        y = calls.w.new_empty(shapes(calls.problem)[1], dtype=calls.problem.product_type)
        w = calls.w.contiguous()  # 8-bit floats are transposed, which the addresses do not tell

        def check(run: typing.Callable[[], None]) -> None:
            torch.cuda.synchronize()
            y.fill_(float("nan"))
            torch.cuda.synchronize()
            run()
            calls.check("a plan on mc2's own backend", y)

        if calls.problem.tables:
            addresses = bags_at(calls.x, w, y)
        elif calls.problem.experts:
            choices = choices_at(calls.x.experts, calls.x.weights)
            addresses = (*map(_address, (calls.x.x, w, y)), *[0] * 5, *choices)
        elif calls.problem.is_scaled:
            addresses = (*map(_address, (calls.x.x, w, y)), *[0] * 5, *scales_at(calls.x[1:]))
        else:
            addresses = (*map(_address, (calls.x, w, y)), 0)
        self._bench = world.bench_at(calls.op, addresses, (calls.x, w, y), check)
        self._plans: dict[int, tuple[Plan, int]] = {}
        self._cases: dict[int, typing.Callable[[], list[Sample]]] = {}
        self._samples: dict[int, list[Sample]] = {}

    def prepare(self, number: int, plan: Plan) -> None:
        self._plans[number] = plan, self._bench.prepare(plan)

    def verify(self, number: int) -> None:
        self._bench.verify(self._plans[number][0])

    def time_us(self, number: int, part: str) -> float:
        return self._bench.time_us(self._plans[number][1], part)

    def prepare_case(self, number: int, target: str, block_rows: int, variant: Variant) -> None:
        self._cases[number] = self._bench.prepare_case(target, block_rows, variant)

    def measure(self, number: int) -> list[float]:
        self._samples[number] = self._cases[number]()
        return [sample.time_us for sample in self._samples[number]]

    def samples(self, number: int, times_us: list[float]) -> list[Sample]:
        return self._samples[number]


class Found(typing.NamedTuple):
    """The best plan on the backend, ready to run, and the function by which rank 0 keeps the tuner's findings."""

    plan: Plan
    call: typing.Callable[[], torch.Tensor]
    keep: _together.Keep | None


def tune(calls: typing.Any, race_rounds: int) -> Found | None:
    """Profiles, plans and races on the backend; None if the backend cannot run. Collective."""
    problem: Problem = calls.problem
    if problem.device.type != "cuda" or problem.group.backend != "nccl":
        return None
    reason = common_fault(gathered(problem.group, (_hosts.place(problem.group), fault(problem), PLAIN)))
    if reason:
        _settings.log.info("%s: not on mc2's own backend: %s", problem.text(), reason)
        return None
    steps = _RankSteps(world(problem.group), calls)
    text, keep = _together.tuned_together(
        problem, steps, _TUNING_SAMPLE_COUNT, race_rounds, lambda tuned: tuned.plan.to_json()
    )
    plan = Plan.from_json(text)
    native = prepare_tuned(problem, plan, calls.w)
    return Found(plan, lambda: native(calls.x, calls.w)[0], keep)


def prepare_tuned(problem: Problem, plan: Plan, w: torch.Tensor) -> Native:
    """Prepares a tuned plan, which stays ready for calls with weights in the layout of w. Collective."""
    native = _native(problem, plan.blocks, plan.variant, plan.schedule, w)
    _tuned[_key(problem, plan)] = native
    return native


def _key(problem: Problem, plan: Plan) -> tuple[Problem, tuple[int, ...], str, str]:
    return problem, tuple(plan.blocks), str(plan.variant), plan.schedule


def release_others(problem: Problem, plans: list[Plan]) -> None:
    """Frees all tuned plans that were prepared for the problem, except for `plans`: each has memory as large as the
    operands."""
    wanted = [_key(problem, plan) for plan in plans]
    for key in [key for key in _tuned if key[0] == problem and key not in wanted]:
        del _tuned[key]
