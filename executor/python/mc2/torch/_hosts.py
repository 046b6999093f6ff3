"""Which hosts a group's ranks are on, as torchrun says, and the address at which they meet."""

from __future__ import annotations

import functools
import ipaddress
import os
import pathlib
import socket
import typing

import torch.distributed as dist

from ._groups import Group, cached


class Placement(typing.NamedTuple):
    """This rank's place among the hosts of a group. Source: torchrun numbers ranks host by host, and LOCAL_RANK and
    LOCAL_WORLD_SIZE say which ranks are on this host."""

    first_rank: int  # the first rank on this host, in the group or not
    local_rank: int  # this rank's number among the group's ranks on this host
    local_size: int  # number of the group's ranks on this host
    spans_hosts: bool  # the same on all ranks of the group


@cached
def placement(group: Group) -> Placement:
    """This rank's placement. If those variables are not set, all ranks count as on one host."""
    rank, local_rank, size = dist.get_rank(), _number("LOCAL_RANK"), _number("LOCAL_WORLD_SIZE")
    first, end = 0, dist.get_world_size()
    if local_rank is not None and size is not None and local_rank < size:
        first, end = rank - local_rank, rank - local_rank + size
    here = [member for member in dist.get_process_group_ranks(group.handle) if first <= member < end]
    return Placement(first, here.index(rank), len(here), len(here) < group.size)


@functools.lru_cache(maxsize=None)
def machine() -> str:
    return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def place(group: Group) -> tuple[int, str]:
    """The first rank on this rank's host, and the machine's id, for placement_fault()."""
    return placement(group).first_rank, machine()


def placement_fault(places: typing.Sequence[tuple[int, str]]) -> str:
    """Why ranks at these places cannot form a world; empty if they can."""
    hosts = [host for host, _ in places]
    for rank, (host, where) in enumerate(places):
        first = hosts.index(host)
        if places[first][1] != where:
            return (
                f"ranks {first} and {rank} are on several machines, which LOCAL_WORLD_SIZE does not say; "
                "start them with torchrun"
            )
    if sorted(hosts) != hosts:
        return "the group's ranks are not in the order of their hosts"
    if len({hosts.count(host) for host in hosts}) != 1:
        return "the group's ranks are not as many on every host"
    return ""


def meeting_place() -> tuple[str, str]:
    """The address host:port at which ranks on other hosts reach this process, the group's first, or "" and the reason
    why there is none. It is MC2_RANK_ZERO if this is rank 0 of the job and the variable is set; else the address of
    this host that leads to MASTER_ADDR, and a free port."""
    given = os.environ.get("MC2_RANK_ZERO", "")
    if given and dist.get_rank() == 0:
        return given, ""
    try:
        return _reachable_place(os.environ.get("MASTER_ADDR") or socket.gethostname()), ""
    except OSError as error:
        return "", f"rank {dist.get_rank()} finds no address for other hosts: {error}; set MASTER_ADDR"


def _reachable_place(master: str) -> str:
    port = _number("MASTER_PORT") or 1
    family, *_, target = socket.getaddrinfo(master, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as towards:  # connecting it finds the own address and sends nothing
        towards.connect(target)
        own = towards.getsockname()[0]
    host = master if ipaddress.ip_address(own.partition("%")[0]).is_loopback else own
    with socket.socket(family, socket.SOCK_STREAM) as free:
        free.bind(("", 0))
        return f"[{host}]:{free.getsockname()[1]}" if ":" in host else f"{host}:{free.getsockname()[1]}"


def _number(variable: str) -> int | None:
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else None


def forget() -> None:
    placement.cache_clear()
