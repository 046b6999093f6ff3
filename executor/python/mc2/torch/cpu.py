"""Collectives on CPU tensors, without a matmul, through memory that the ranks of one machine share."""

from __future__ import annotations

import os
import typing
import uuid

import torch

from ..errors import Error, NativeError
from . import _groups, _hosts, _layout, _native, _passes, _settings
from ._groups import Group
from ._problem import DTYPES
from .functional import uncompiled

if typing.TYPE_CHECKING:
    from .._executor import NodeCollectives

_DEADLINE_S = 1800.0  # the default timeout of gloo's process groups
_MOST_THREADS = 256
_SUMMED = {**DTYPES, torch.int8: "i8"}
_increment_version = getattr(torch.autograd.graph, "increment_version", None)  # from PyTorch 2 on
_opened: dict[Group, NodeCollectives | None] = _groups.table()


@uncompiled
def cpu_all_reduce(tensor: torch.Tensor, group: typing.Any = None) -> torch.Tensor:
    """Replaces the tensor by its sum over the ranks, as torch.distributed.all_reduce does, and returns it. All ranks
    get the same bits. float16 and bfloat16 are summed in f32 and rounded once."""
    found = _checked("tensor", tensor, group)
    if found.size == 1:
        return tensor
    collectives, dtype = _of(found), _SUMMED.get(tensor.dtype)
    if collectives is None or dtype is None:
        _tell_of_type(collectives, tensor)
        return tensor.copy_(_passes.all_reduce(found, tensor))
    dense = _layout.dense(tensor)
    collectives.all_reduce_at(dense.data_ptr(), dense.numel() * dense.element_size(), dtype)
    if dense is not tensor:
        return tensor.copy_(dense)
    _tell_autograd(tensor)
    return tensor


@uncompiled
def cpu_reduce_scatter(tensor: torch.Tensor, group: typing.Any = None) -> torch.Tensor:
    """This rank's share of the first dimension of the sum over ranks. Sums are made as in cpu_all_reduce()."""
    found = _checked("tensor", tensor, group)
    _require_shares(tensor, found)
    if found.size == 1:
        return tensor.clone()
    collectives, dtype = _of(found), _SUMMED.get(tensor.dtype)
    if collectives is None or dtype is None:
        _tell_of_type(collectives, tensor)
        return _passes.reduce_scatter(found, tensor)
    tensor = _layout.dense(tensor)
    own = tensor.new_empty((tensor.shape[0] // found.size, *tensor.shape[1:]))
    collectives.reduce_scatter(_bytes(tensor), _bytes(own), dtype)
    return own


@uncompiled
def cpu_all_gather(tensor: torch.Tensor, group: typing.Any = None) -> torch.Tensor:
    """The tensors of all ranks, concatenated in the first dimension."""
    found = _checked("tensor", tensor, group)
    if found.size == 1:
        return tensor.clone()
    collectives = _of(found)
    if collectives is None:
        return _passes.all_gather(found, tensor)
    tensor = _layout.dense(tensor)
    gathered = tensor.new_empty((tensor.shape[0] * found.size, *tensor.shape[1:]))
    collectives.all_gather(_bytes(tensor), _bytes(gathered))
    return gathered


@uncompiled
def cpu_all_to_all(tensor: torch.Tensor, group: typing.Any = None) -> torch.Tensor:
    """Sends equal parts of the first dimension to ranks 0, 1, ... Returns the parts that the ranks sent to this one,
    concatenated in the order of the ranks."""
    found = _checked("tensor", tensor, group)
    _require_shares(tensor, found)
    if found.size == 1:
        return tensor.clone()
    collectives = _of(found)
    if collectives is None:
        return _passes.all_to_all(found, tensor)
    tensor = _layout.dense(tensor)
    received = torch.empty_like(tensor)
    collectives.all_to_all(_bytes(tensor), _bytes(received))
    return received


def _checked(name: str, tensor: torch.Tensor, group: typing.Any) -> Group:
    if not isinstance(tensor, torch.Tensor) or tensor.device.type != "cpu" or tensor.layout != torch.strided:
        kind = f"{tensor.layout} on {tensor.device}" if isinstance(tensor, torch.Tensor) else type(tensor).__name__
        raise Error("invalid_spec", name, f"is {kind}; needs a dense tensor of a CPU")
    if tensor.requires_grad and torch.is_grad_enabled():
        raise Error("invalid_spec", name, "needs a gradient, which this has none of; call it under torch.no_grad()")
    if tensor.dim() == 0:
        raise Error("invalid_spec", name, "has no dimension; needs one or more")
    return _groups.resolve(group)


def _tell_autograd(changed: torch.Tensor) -> None:
    """Counts a change that PyTorch did not make itself, so that a gradient that needs the old values is refused."""
    if changed.is_inference():
        return  # such tensors have no count
    if _increment_version is not None:
        _increment_version(changed)
    else:
        changed[:0].zero_()  # views share the count


def _tell_of_type(collectives: NodeCollectives | None, tensor: torch.Tensor) -> None:
    if collectives is not None:
        _settings.warn(
            "cpu type",
            f"sums of {tensor.dtype} on CPUs run by the process group; mc2 has those of {', '.join(map(str, _SUMMED))}",
        )


def _require_shares(tensor: torch.Tensor, group: Group) -> None:
    if tensor.shape[0] % group.size != 0:
        raise Error("invalid_spec", "tensor", f"has {tensor.shape[0]} rows, which {group.size} ranks do not divide")


def _bytes(tensor: torch.Tensor) -> typing.Any:
    """The tensor's bytes as a numpy array: numpy does not have all element types."""
    return tensor.detach().view(-1).view(torch.uint8).numpy()


def _of(group: Group) -> NodeCollectives | None:
    """The group's collectives; None where the ranks cannot share memory, so that the process group's collectives run.
    The first call with a group is collective."""
    if group not in _opened:
        _opened[group] = _open(group)
    return _opened[group]


def _open(group: Group) -> NodeCollectives | None:
    own = "mc2.torch is disabled" if _settings.settings.is_disabled else _native.import_fault()
    ranks = _groups.gathered(group, (_place(), own, uuid.uuid4().hex, torch.get_num_threads()))
    is_apart = any(place != ranks[0][0] for place, *_ in ranks)
    fault = "the ranks are on several machines" if is_apart else _groups.first_fault([own for _, own, *_ in ranks])
    if not fault:
        threads = min(_MOST_THREADS, *(threads for *_, threads in ranks))
        opened, own = _try_to_open(group, ranks[0][2], threads)
        fault = _groups.first_fault(_groups.gathered(group, own))
        if not fault:
            return opened
    if not _settings.settings.is_disabled:  # whoever disables mc2 knows it
        _settings.warn("cpu", f"collectives of CPU tensors run by the process group: {fault}")
    return None


def _try_to_open(group: Group, key: str, threads: int) -> tuple[NodeCollectives | None, str]:
    """The opened collectives, or None with the reason."""
    from .._executor import NodeCollectives

    try:
        return NodeCollectives(group.rank, group.size, key, threads=threads, deadline_s=_DEADLINE_S), ""
    except (Error, NativeError) as error:
        return None, str(error)


def _place() -> str:
    """A text that is equal for processes that can map one another's memory. It differs between machines, and between
    containers of one machine."""
    try:
        return f"{_hosts.machine()} {os.readlink('/proc/self/ns/pid')} {os.stat('/dev/shm').st_dev}"
    except OSError as error:
        return f"{_hosts.machine()} {error} {uuid.uuid4().hex}"


def forget() -> None:
    _opened.clear()
