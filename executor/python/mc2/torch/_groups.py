"""Process groups by name, small exchanges between their ranks, and the fingerprint of the machine that they run on."""

from __future__ import annotations

import collections
import functools
import os
import pathlib
import time
import typing

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


def everyones(group: Group, mine: torch.Tensor) -> torch.Tensor:
    """Every rank's numbers, [ranks, count]. mine [count] is small and has the same length on all ranks. Collective."""
    with torch.inference_mode(False):  # gloo cannot write tensors of inference mode
        rows = torch.empty((group.size, len(mine)), dtype=mine.dtype, device=mine.device)
        if mine.is_cuda:
            dist.all_gather_into_tensor(rows, mine, group=group.handle)
        else:
            dist.all_gather([held(row) for row in rows.unbind(0)], held(mine.clone()), group=group.handle)
    return rows


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


def resolve(group: typing.Any) -> Group:
    """The group of a handle, a name or None (the default group).

    Raises Error (invalid_spec, field "group") where torch.distributed is not initialised or this rank is no member.
    """
    if isinstance(group, str):
        return by_name(group)
    if not (dist.is_available() and dist.is_initialized()):
        raise Error("invalid_spec", "group", "torch.distributed is not initialised; call init_process_group first")
    handle = dist.group.WORLD if group is None else group
    found = _by_handle.get(handle)
    return found if found is not None else _add(handle)


def by_name(name: str) -> Group:
    found = _by_name.get(name)
    if found is not None:
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
    name = getattr(handle, "group_name", None) or f"mc2-{len(_by_name)}"
    group = Group(str(name), handle, rank, size, backend)
    _by_name[group.name] = _by_handle[handle] = group
    return group


@functools.lru_cache(maxsize=None)
def _cpu_model() -> str:
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


@functools.lru_cache(maxsize=None)
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
    """Forgets all groups, for use after destroy_process_group(): a later group may have the name of an earlier one.
    These may be the last references to Gloo's groups. Before PyTorch 2.8 a group that is destroyed while one of its
    threads drops a tensor deadlocks (see held()), so the threads get time for that, without the interpreter's lock."""
    if torch.__version__ < (2, 8) and any("gloo" in group.backend for group in _by_name.values()):
        time.sleep(_DROPPING_S)
    _by_name.clear()
    _by_handle.clear()
    fingerprint.cache_clear()
