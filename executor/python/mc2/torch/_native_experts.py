"""Experts on mc2's own GPU backend: dispatch and combine, with counts that the GPU reads and the host need not know."""

from __future__ import annotations

import typing

import torch
import torch.distributed as dist

from .._core import OpSpec, Variant
from ..errors import Error, NativeError
from . import _grouped, _groups, _hosts, _layout, _native, _settings
from ._checks import require_alike
from ._groups import Group, first_fault, gathered
from ._problem import Problem

_experts: dict[tuple[typing.Any, ...], NativeExperts | None] = _groups.table()
_layers: dict[tuple[typing.Any, ...], NativeLayer | None] = _groups.table()
_faults: dict[tuple[Group, torch.device], str] = _groups.table()


class Half(typing.NamedTuple):
    """The matrices of this rank's experts that a dispatch or a combine multiplies rows by."""

    w: torch.Tensor  # [experts, k, n]
    bias: torch.Tensor | None = None  # [experts, n]


class NativeExperts:
    """A dispatch or combine on the GPU. The GPU reads the counts, which may be anything up to m / ranks rows for a pair
    of ranks, and one kernel multiplies all experts. Rows are in this object's memory, where other ranks reach them."""

    _CTAS = 16  # CTAs of the exchange, one on each of as many SMs; the matmul has the other SMs
    _BLOCKS = {"all_to_all_matmul": 1, "matmul_all_to_all": 4}  # the rank's own rows hide an exchange that comes first
    FEW_ROWS = 256  # up to so many rows of an expert, reading its weights takes most of the time

    def __init__(self, problem: Problem, experts: int, w: torch.Tensor, takes_transposed: bool) -> None:
        """Allocates the memory; prepare() makes it ready."""
        self._problem, self._experts, self._takes_transposed = problem, experts, takes_transposed
        self.m, y_shape = problem.m, (problem.m, problem.n)
        self._has_few_rows = problem.m <= self.FEW_ROWS * experts
        self.x, self._y = _native.allocated_for_long([(problem.m, problem.k), y_shape], w)
        with torch.inference_mode(False):  # it is written in calls of every mode
            self._counts = torch.zeros(problem.group.size * experts, dtype=torch.int64, device=w.device)

    def prepare(self, half: Half) -> None:
        """Collective. Raises Error or NativeError, on all ranks."""
        problem, ranks = self._problem, self._problem.group.size
        op = OpSpec(
            problem.kind,
            m=problem.m,
            n=problem.n,
            k=problem.k,
            dtype=problem.op().dtype,
            ranks=ranks,
            epilogue="none" if half.bias is None else "bias",
            experts_per_rank=self._experts,
        )
        blocks = [len(part) for part in torch.arange(problem.m // ranks).chunk(self._BLOCKS[problem.kind])]
        sms = torch.cuda.get_device_properties(half.w.device).multi_processor_count
        variant = Variant(f"direct(ctas={self._CTAS},gemm_sms={sms - self._CTAS})")
        # Multiplying the rank's own rows during the exchange, and the others later, would read all weights twice.
        reads_once = problem.kind == "all_to_all_matmul" and self._has_few_rows
        stored = self._stored(half)
        self._bound = self._addresses(stored, self._y)
        self._prepared = _native.world(problem.group).prepare_at(
            op,
            blocks,
            variant,
            self._bound,
            (self.x, *stored, self._y, self._counts),
            False,
            self._takes_transposed,
            "serial" if reads_once else None,
        )

    def _stored(self, half: Half) -> Half:
        w = half.w.transpose(1, 2) if self._takes_transposed else half.w
        return Half(_native.aligned(w), None if half.bias is None else _native.aligned(half.bias))

    def _addresses(self, half: Half, y: torch.Tensor) -> tuple[int, ...]:
        bias = 0 if half.bias is None else half.bias.data_ptr()
        return (self.x.data_ptr(), half.w.data_ptr(), y.data_ptr(), 0, bias, 0, 0, 0, self._counts.data_ptr())

    def __call__(self, x: torch.Tensor, half: Half, counts: torch.Tensor, row_count: int) -> torch.Tensor:
        """Returns this rank's row_count rows of the result. counts: rows that the rank sends, [ranks, experts]."""
        self.x[: len(x)].copy_(x)
        # A copy of few rows takes less time than the kernels, which are launched one by one if a matrix has a new
        # address. And where few of the rows are the result, a view would keep the memory of the others.
        if self._has_few_rows or 2 * row_count < self.m:
            return self.run(half, counts)[:row_count].clone()
        y = x.new_empty(self._y.shape)
        self.run(half, counts, y)
        # Not a view: the result of an autograd function that is a view must not be changed in place.
        return x.new_empty(0).set_(y.untyped_storage(), 0, (row_count, y.shape[1]), (y.shape[1], 1))

    def run(self, half: Half, counts: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
        """Runs on the rows in self.x and returns all self.m rows of the result; those after the last received row have
        no meaning. The result is in y or, without y, in memory that the next call overwrites."""
        y, half = self._y if y is None else y, self._stored(half)
        self._counts.copy_(counts.flatten())
        addresses = self._addresses(half, y)
        if addresses != self._bound:
            self._prepared.rebind(addresses, (self.x, self._y, self._counts))
            self._bound = addresses
        _native.enqueue(self, self._prepared, y.device)
        return y


class NativeLayer:
    """A mixture-of-experts layer that never waits for the GPU, so that a CUDA graph may hold it."""

    def __init__(self, group: Group, dispatch: NativeExperts, combine: NativeExperts) -> None:
        self._group, self._dispatch, self._combine = group, dispatch, combine

    def __call__(
        self,
        x: torch.Tensor,
        token: torch.Tensor,
        counts: torch.Tensor,
        up: Half,
        down: Half,
        activation: typing.Callable[[torch.Tensor], torch.Tensor],
    ) -> torch.Tensor:
        """Sends the rows x[token], which are sorted by expert of all ranks, through their experts and back. counts has
        the number of rows for each expert. The result is valid until the next call. If a rank's counts are illegal, it
        is NaN and a later call raises NativeError."""
        dispatch, combine, count = self._dispatch, self._combine, len(token)
        if count > dispatch.m:  # the illegal counts tell all ranks
            token, counts = token[: dispatch.m], torch.full_like(counts, -1)
        counts = counts.view(self._group.size, -1)
        received = torch.empty_like(counts)
        arrival = dist.all_to_all_single(received, counts, group=self._group.handle, async_op=True)
        torch.index_select(x, 0, token, out=dispatch.x[: len(token)])
        hidden, failure = activated(activation, dispatch.run(up, counts), tuple(combine.x.shape))
        combine.x.copy_(hidden)
        arrival.wait()
        product = combine.run(down, received)
        if failure is not None:
            raise failure
        return product[:count] if count <= dispatch.m else product.new_full((count, product.shape[1]), float("nan"))


def activated(
    activation: typing.Callable[[torch.Tensor], torch.Tensor], rows: torch.Tensor, shape: tuple[int, ...]
) -> tuple[torch.Tensor, Exception | None]:
    """Returns activation(rows), a tensor of this shape. Where it fails or gives something else, returns NaN and the
    error, which the caller raises after the exchange that other ranks wait in."""
    try:
        hidden = activation(rows)
        if isinstance(hidden, torch.Tensor) and hidden.shape == shape:
            return hidden, None
        given = f"shape {tuple(hidden.shape)}" if isinstance(hidden, torch.Tensor) else f"a {type(hidden).__name__}"
        raise Error("invalid_spec", "activation", f"gives {given}; needs {list(shape)}, by its rows and w_down")
    except Exception as error:
        return rows.new_full(shape, float("nan")), error


def experts_fault(problem: Problem) -> str:
    """Why these ranks cannot multiply experts on mc2's own backend; empty if they can. The first call with a group is
    collective."""
    key = problem.group, problem.device
    if key not in _faults:
        own = "mc2.torch is disabled" if _settings.settings.is_disabled else _native.fault(problem)
        if not own and torch.cuda.get_device_capability(problem.device) != (9, 0):
            own = "its GPU is not of compute capability 9.0"
        if not own and _hosts.placement(problem.group).spans_hosts:
            own = "counts that stay on the GPU are for the ranks of one host"
        _faults[key] = _native.common_fault(gathered(problem.group, (_hosts.place(problem.group), own, _layout.PLAIN)))
    return _faults[key]


def experts_of(problem: Problem, experts: int, half: Half, takes_transposed: bool) -> NativeExperts | None:
    """The NativeExperts for up to problem.m rows, kept for all steps with as many or fewer; None if the backend has
    refused it. takes_transposed: the layout that it takes experts' matrices in, the same on all ranks; matrices in
    another layout are copied. Collective."""
    key = (
        problem.kind,
        problem.group,
        problem.device,
        problem.dtype,
        problem.n,
        problem.k,
        experts,
        takes_transposed,
        half.bias is None,
    )
    found = _experts.get(key)
    if key not in _experts or (found is not None and found.m < problem.m):
        found = _experts.pop(key, None)
        del found  # frees its memory before the new one is allocated
        _experts[key] = _new_experts(problem, experts, half, takes_transposed)
    return _experts[key]


def _new_experts(problem: Problem, experts: int, half: Half, takes_transposed: bool) -> NativeExperts | None:
    made, own = None, ""
    try:
        made = NativeExperts(problem, experts, half.w, takes_transposed)
    except torch.cuda.OutOfMemoryError as error:  # not raised here: the other ranks wait below
        own = str(error).splitlines()[0]
    fault = first_fault(gathered(problem.group, own))
    try:
        if made is not None and not fault:
            made.prepare(half)
            return made
    except (Error, NativeError) as error:  # raised on all ranks, if on one
        fault = str(error)
    _settings.warn("native", f"{problem.text()} of {experts} experts runs by PyTorch's calls: {fault}")
    return None


def layer_of(group: Group, x: torch.Tensor, up: Half, down: Half, max_rows: int) -> NativeLayer | None:
    """The layer for up to max_rows rows from one rank for another; None if mc2's own backend does not run it. The first
    call with such operands is collective and raises Error on all ranks if their shapes or types differ. They must not
    differ in later calls either."""
    if not x.is_cuda or group.size == 1:
        return None
    facts: dict[str, typing.Any] = {"x": x.dtype, "max_rows": max_rows}
    for name, half in (("up", up), ("down", down)):
        facts[f"w_{name}"] = tuple(half.w.shape), _layout.layout(half.w) == _layout.TRANSPOSED
        facts[f"bias_{name}"] = "none" if half.bias is None else "given"
    key = (group, x.device, *facts.items())
    if key not in _layers:
        require_alike(gathered(group, facts), "invalid_spec", _text)
        _layers[key] = _new_layer(group, x, (up, down), max_rows)
    return _layers[key]


def _text(fact: typing.Any) -> str:
    return f"{list(fact[0])}{', transposed' if fact[1] else ''}" if isinstance(fact, tuple) else str(fact)


def _new_layer(group: Group, x: torch.Tensor, halves: tuple[Half, Half], max_rows: int) -> NativeLayer | None:
    made = []
    for kind, half in zip(("all_to_all_matmul", "matmul_all_to_all"), halves):
        experts, k, n = half.w.shape
        problem = problem_of(kind, group, x, experts, k, n, max_rows)
        native = problem and _new_experts(problem, experts, half, _layout.layout(half.w) == _layout.TRANSPOSED)
        if native is None:
            return None
        made.append(native)
    return NativeLayer(group, *made)


def problem_of(kind: str, group: Group, x: torch.Tensor, experts: int, k: int, n: int, rows: int) -> Problem | None:
    """The problem for up to `rows` rows from one rank for another; None if mc2's own backend cannot run such experts.
    The first call with a group is collective."""

    if not x.is_cuda or group.size == 1 or x.dtype not in (torch.bfloat16, torch.float16):
        return None
    if k % _grouped.MULTIPLE or n % _grouped.MULTIPLE:
        return None
    problem = Problem(kind, group, x.device, x.dtype, -(-rows // experts) * experts * group.size, n, k)
    return None if experts_fault(problem) else problem


def forget() -> None:
    _layers.clear()
    _experts.clear()
    _faults.clear()
