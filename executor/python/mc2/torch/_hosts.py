"""Which hosts a group's ranks are on, as torchrun says, and where they meet."""

from __future__ import annotations

import functools
import ipaddress
import os
import pathlib
import socket
import typing

import torch.distributed as dist

from ._groups import Group


class Placement(typing.NamedTuple):
    """Of a group. Source: torchrun numbers ranks host by host, LOCAL_WORLD_SIZE on each."""

    hosts: tuple[int, ...]  # of every rank
    local_rank: int  # of this rank, among the group's on its host
    local_size: int

    @property
    def spans_hosts(self) -> bool:
        return self.hosts[0] != self.hosts[-1]


@functools.lru_cache(maxsize=None)
def placement(group: Group) -> Placement:
    """Without LOCAL_WORLD_SIZE all ranks are on one host."""
    per_host = _number("LOCAL_WORLD_SIZE") or dist.get_world_size()
    hosts = tuple(rank // per_host for rank in dist.get_process_group_ranks(group.handle))
    own = hosts[group.rank]
    return Placement(hosts, hosts[: group.rank].count(own), hosts.count(own))


def fault(group: Group) -> str:
    """Why a world of these ranks cannot be; empty where it can."""
    place = placement(group)
    if not place.spans_hosts:
        return ""
    per_host, local_rank = _number("LOCAL_WORLD_SIZE"), _number("LOCAL_RANK")
    if local_rank is not None and per_host and local_rank != dist.get_rank() % per_host:
        return f"rank {dist.get_rank()} has LOCAL_RANK {local_rank}; ranks must be numbered host by host"
    if sorted(place.hosts) != list(place.hosts):
        return "the group's ranks are not in the order of their hosts"
    if any(place.hosts.count(host) != place.local_size for host in place.hosts):
        return "the group's ranks are not as many on every host"
    return ""


@functools.lru_cache(maxsize=None)
def machine() -> str:
    return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def place(group: Group) -> tuple[int, str]:
    """This rank's host and machine, for placement_fault()."""
    return placement(group).hosts[group.rank], machine()


def placement_fault(places: typing.Sequence[tuple[int, str]]) -> str:
    """Why the places of all ranks cannot be; empty where they can: ranks of one host are on one machine."""
    first_on: dict[int, int] = {}
    for rank, (host, where) in enumerate(places):
        first = first_on.setdefault(host, rank)
        if places[first][1] != where:
            return (
                f"ranks {first} and {rank} are on several machines, which LOCAL_WORLD_SIZE does not say; "
                "start them with torchrun"
            )
    return ""


def meeting_address() -> str:
    """host:port at which ranks of other hosts reach this process: its address towards MASTER_ADDR, a free port."""
    master = os.environ.get("MASTER_ADDR") or socket.gethostname()
    port = int(_number("MASTER_PORT") or 1)
    family, *_, target = socket.getaddrinfo(master, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as towards:  # nothing is sent
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
