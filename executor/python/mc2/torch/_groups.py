"""Process groups by name, small exchanges between their ranks, and the fingerprint of the machine that they run on."""

from __future__ import annotations

import collections
import functools
import itertools
import os
import pathlib
import time
import typing
import weakref

import torch
import torch.distributed as dist

from .._core import Fingerprint
from ..errors import Error


Calls = str
EAGER: Calls = "eager"  # kernel by kernel
CAPTURED: Calls = "captured"  # in a CUDA graph that is replayed


GLOO_EXCHANGES_BFLOAT16 = not torch.__version__.startswith("1.")


class Group(typing.NamedTuple):
    """A process group as the operators use it."""

    name: str  # the group argument of registered operators
    handle: typing.Any  # torch.distributed.ProcessGroup
    rank: int
    size: int
    backend: str  # "gloo", "nccl", ...


_HELD_COUNT = 16
_held: collections.deque[torch.Tensor] = collections.deque(maxlen=_HELD_COUNT)
_DROPPING_S = 0.05  # many times what a thread that is ready to run waits for a processor


def held(tensor: torch.Tensor) -> torch.Tensor:
    """Keeps a small CPU tensor alive for a while after a collective, and returns it. Gloo's threads drop their
    reference after the call has returned. Before PyTorch 2.8, if theirs is the last one, they can deadlock with
    destroy_process_group(), which joins them while it holds the interpreter's lock
    (https://github.com/pytorch/pytorch/pull/154976)."""
    if not tensor.is_cuda:
        _held.append(tensor)
    return tensor


OFFERS, ROUTES = 1, 2  # what is exchanged: offers of plans, or counts of rows that are routed
_CALLS = {OFFERS: "an operator that is planned", ROUTES: "a mixture of experts"}
WORD_COUNT = 4112  # of every exchange: gloo ends the process where one rank sends more than another expects


def everyones(group: Group, mine: torch.Tensor) -> torch.Tensor:
    """Every rank's numbers, [ranks, WORD_COUNT]. mine [count <= WORD_COUNT], int64, begins with what is exchanged.
    Collective."""
    mine = torch.nn.functional.pad(mine, (0, WORD_COUNT - len(mine)))
    with torch.inference_mode(False):  # gloo cannot write tensors of inference mode
        rows = torch.empty((group.size, WORD_COUNT), dtype=torch.int64, device=mine.device)
        if mine.is_cuda:
            dist.all_gather_into_tensor(rows, mine, group=group.handle)
        else:
            dist.all_gather([held(row) for row in rows.unbind(0)], held(mine.clone()), group=group.handle)
    return rows


def require_one_call(exchanged: list[int]) -> None:
    """Raises Error (mismatch) on all ranks if they exchange different things, so that they call different
    operators."""
    for rank, one in enumerate(exchanged):
        if one != exchanged[0]:
            calls = [_CALLS.get(what, "something else") for what in (one, exchanged[0])]
            raise Error("mismatch", "x", f"rank {rank} calls {calls[0]} where rank 0 calls {calls[1]}")


def gathered(group: Group, value: typing.Any) -> list[typing.Any]:
    """Every rank's value. Collective."""
    values = [None] * group.size
    with torch.inference_mode(False):  # gloo cannot write tensors of inference mode
        dist.all_gather_object(values, value, group=group.handle)
    return values


def first_fault(faults: typing.Sequence[str]) -> str:
    """The first of the ranks' faults that is not empty, with its rank; "" if all are empty."""
    return next((f"rank {rank}: {fault}" for rank, fault in enumerate(faults) if fault), "")


_by_name: dict[str, Group] = {}
_by_handle: dict[typing.Any, Group] = {}
_numbers = itertools.count()  # for names before PyTorch 2; none is used twice until forget()
_tables: list[dict[typing.Any, typing.Any]] = []
_caches: list[functools._lru_cache_wrapper[typing.Any]] = []
_Result = typing.TypeVar("_Result")


def table() -> dict[typing.Any, typing.Any]:
    """A new dictionary that drop_destroyed() keeps free of destroyed groups. A key of a group is the Group, its handle,
    or a tuple with one of them inside. It must not have the name alone, which a later group may have, too."""
    _tables.append({})
    return _tables[-1]


def cached(function: typing.Callable[..., _Result]) -> functools._lru_cache_wrapper[_Result]:
    """functools.lru_cache for functions of groups."""
    found = functools.lru_cache(maxsize=None)(function)
    _caches.append(found)
    return found


def drop_destroyed() -> None:
    """Drops what belongs to groups that destroy_process_group() has ended. Every call begins with it, and it may run in
    that function (see _watch())."""
    known = _registered()
    if known is None or _by_handle.keys() <= known.keys():
        return
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        return  # freeing a communicator's memory would end the capture; a later call drops
    gone = [group for handle, group in list(_by_handle.items()) if handle not in known]
    _wait_for_threads(gone)
    for group in gone:
        for kept in _tables:
            for key in [key for key in list(kept) if _is_of(key, group)]:
                kept.pop(key, None)
        if _by_name.get(group.name) == group:
            _by_name.pop(group.name, None)
        _by_handle.pop(group.handle, None)
    for cache in _caches:
        cache.cache_clear()


def _is_of(key: typing.Any, group: Group) -> bool:
    return key is group.handle or key == group or (isinstance(key, tuple) and any(_is_of(part, group) for part in key))


_c10d: typing.Any = getattr(dist, "distributed_c10d", None)
_Registered = typing.Optional[typing.Mapping[typing.Any, typing.Any]]


def _registered() -> _Registered:
    """PyTorch's table of groups that are not destroyed, with backend and store; None if this version has none."""
    known: _Registered = _c10d._world.pg_map
    return known


if not hasattr(getattr(_c10d, "_world", None), "pg_map"):  # before PyTorch 2

    def _registered() -> _Registered:
        known: _Registered = getattr(_c10d, "_pg_map", None)
        return known


_watched: weakref.WeakSet[typing.Any] = weakref.WeakSet()


def _watch(handle: typing.Any) -> None:
    """Has drop_destroyed() run when destroy_process_group() frees the group's store, at the latest with the default
    group: a program may make another one before the next call. A weak reference to the group itself would not do: the
    group must outlive the wait for its threads."""
    try:
        _, store = (_registered() or {})[handle]
        if store not in _watched:
            weakref.finalize(store, drop_destroyed).atexit = False
            _watched.add(store)
    except (KeyError, TypeError, ValueError):  # a store may have no weak references
        pass


def _wait_for_threads(groups: typing.Iterable[Group]) -> None:
    """To be called before what may be the last references to Gloo's groups are dropped. Before PyTorch 2.8 a group that
    is destroyed while one of its threads drops a tensor deadlocks (see held()). So the threads get time for that,
    without the interpreter's lock."""
    if torch.__version__ < (2, 8) and any("gloo" in group.backend for group in groups):
        time.sleep(_DROPPING_S)


def resolve(group: typing.Any) -> Group:
    """The group of a handle, a name or None (the default group).

    Raises Error (invalid_spec, field "group") where torch.distributed is not initialised or this rank is no member.
    """
    if isinstance(group, str):
        return by_name(group)
    drop_destroyed()
    if not (dist.is_available() and dist.is_initialized()):
        raise Error("invalid_spec", "group", "torch.distributed is not initialised; call init_process_group first")
    handle = dist.group.WORLD if group is None else group
    found = _by_handle.get(handle)
    return found if found is not None else _add(handle)


def by_name(name: str) -> Group:
    drop_destroyed()
    found, known = _by_name.get(name), _registered()
    if found is not None and (known is None or found.handle in known):
        return found
    resolver = getattr(dist.distributed_c10d, "_resolve_process_group", None)
    if resolver is None:
        raise Error("invalid_spec", "group", f"there is no process group named '{name}'")
    try:
        return _add(resolver(name))
    except (RuntimeError, ValueError, TypeError) as error:
        raise Error("invalid_spec", "group", f"there is no process group named '{name}': {error}") from error


def _add(handle: typing.Any) -> Group:
    try:
        rank, size = dist.get_rank(handle), dist.get_world_size(handle)
        backend = str(dist.get_backend(handle))
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:
        raise Error("invalid_spec", "group", f"{handle!r} is no process group of this rank: {error}") from error
    if rank < 0:
        raise Error("invalid_spec", "group", "this rank is no member of it")
    name = getattr(handle, "group_name", None) or f"mc2-{next(_numbers)}"
    group = Group(str(name), handle, rank, size, backend)
    _by_name[group.name] = _by_handle[handle] = group
    _watch(handle)
    return group


@functools.lru_cache(maxsize=None)
def _cpu_model() -> str:
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


@cached
def fingerprint(group: Group, device: torch.device, calls: Calls = EAGER) -> Fingerprint:
    """The fingerprint that makes times on this group and device comparable. It has a field "calls" unless they are
    eager."""
    fields = {
        "backend": f"torch/{group.backend}",
        "link": "process group",
        "ranks": str(group.size),
        "ranks_per_host": os.environ.get("LOCAL_WORLD_SIZE", "unknown"),
        "torch": torch.__version__,
    }
    if calls != EAGER:
        fields["calls"] = calls
    if device.type == "cuda":
        fields["gpu_model"] = torch.cuda.get_device_name(device)
        fields["cuda"] = str(torch.version.cuda)
        fields["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    else:
        fields["cpu_model"] = _cpu_model()
        fields["threads"] = str(torch.get_num_threads())
    return Fingerprint(fields)


def forget() -> None:
    """Forgets all groups."""
    global _numbers
    _numbers = itertools.count()
    _wait_for_threads(_by_handle.values())
    _by_name.clear()
    _by_handle.clear()
    fingerprint.cache_clear()
