"""Defines the operators of PyTorch that mc2.torch.inductor uses, to the same schemas, where PyTorch is too old to have
them (before 2.1)."""

import contextlib
import os
import pathlib
import tempfile

import torch
import torch.distributed as dist

_SCHEMAS = {
    "all_reduce": "Tensor input, str reduce_op, str group_name",
    "reduce_scatter_tensor": "Tensor input, str reduce_op, int group_size, str group_name",
    "all_gather_into_tensor": "Tensor input, int group_size, str group_name",
    "all_to_all_single": "Tensor input, int[] output_split_sizes, int[] input_split_sizes, str group_name",
    "broadcast": "Tensor input, int src, str group_name",
    "wait_tensor": "Tensor tensor",
}
_library = None


def operators():
    """Returns torch.ops._c10d_functional; defines its operators where PyTorch has none."""
    global _library
    if _library is None and not hasattr(torch.ops._c10d_functional, "wait_tensor"):
        _library = torch.library.Library("_c10d_functional", "DEF")
        for name, schema in _SCHEMAS.items():
            _library.define(f"{name}({schema}) -> Tensor")
            _library.impl(name, _REAL[name], "CPU")
            _library.impl(name, _FAKE[name], "Meta")
    return torch.ops._c10d_functional


def _handle(group_name):
    from mc2.torch import _groups

    return _groups.by_name(group_name).handle


def _all_reduce(x, how, name):
    y = x.clone()
    dist.all_reduce(y, group=_handle(name))
    return y / dist.get_world_size(_handle(name)) if how == "avg" else y


def _reduce_scatter(x, how, ranks, name):
    return _all_reduce(x, how, name).chunk(ranks)[dist.get_rank(_handle(name))].clone()


def _all_gather(x, ranks, name):
    parts = [torch.empty_like(x) for _ in range(ranks)]
    dist.all_gather(parts, x.contiguous(), group=_handle(name))
    return torch.cat(parts)


def _all_to_all(x, out_splits, in_splits, name):
    y = x.new_empty((sum(out_splits), *x.shape[1:]))
    dist.all_to_all_single(y, x.contiguous(), list(out_splits), list(in_splits), group=_handle(name))
    return y


def _broadcast(x, source, name):
    y = x.clone()
    dist.broadcast(y, source, group=_handle(name))
    return y


_REAL = {
    "all_reduce": _all_reduce,
    "reduce_scatter_tensor": _reduce_scatter,
    "all_gather_into_tensor": _all_gather,
    "all_to_all_single": _all_to_all,
    "broadcast": _broadcast,
    "wait_tensor": lambda x: x.clone(),
}
_FAKE = {
    "all_reduce": lambda x, how, name: torch.empty_like(x),
    "reduce_scatter_tensor": lambda x, how, ranks, name: x.new_empty((x.shape[0] // ranks, *x.shape[1:])),
    "all_gather_into_tensor": lambda x, ranks, name: x.new_empty((x.shape[0] * ranks, *x.shape[1:])),
    "all_to_all_single": lambda x, out, given, name: x.new_empty((sum(out), *x.shape[1:])),
    "broadcast": lambda x, source, name: torch.empty_like(x),
    "wait_tensor": lambda x: torch.empty_like(x),
}


class _FolderStore:
    """Stands in for a group's store, which in an old PyTorch cannot tell whether it has a key. Each key is a file."""

    def __init__(self):
        self._folder = pathlib.Path(os.environ["MC2_TEST_MEETING"] + ".keys")
        self._folder.mkdir(exist_ok=True)

    def _path(self, key):
        return self._folder / key.replace("/", "-")

    def check(self, keys):
        return all(self._path(key).exists() for key in keys)

    def get(self, key):
        return self._path(key).read_bytes()

    def set(self, key, value):
        self.compare_set(key, "", value)

    def compare_set(self, key, expected, value):
        with tempfile.NamedTemporaryFile("w", dir=self._folder) as draft, contextlib.suppress(FileExistsError):
            draft.write(value)
            draft.flush()
            os.link(draft.name, self._path(key))
        return self.get(key)


def give_stores():
    """Defines torch.distributed.distributed_c10d._get_process_group_store() where PyTorch lacks it."""
    if not hasattr(dist.distributed_c10d, "_get_process_group_store"):
        dist.distributed_c10d._get_process_group_store = lambda handle: _FolderStore()
