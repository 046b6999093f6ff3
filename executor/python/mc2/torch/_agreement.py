"""One verdict for all ranks of a group on the graph that each of them compiles.

Ranks compile at their own pace, and may not compile at all. So they meet in the group's key-value store, not in a collective: each
leaves its offer under the graph's key; the first that has seen all of them, or has waited too long, leaves the verdict.
"""

from __future__ import annotations

import hashlib
import json
import time
import typing

import torch.distributed as dist

from ._groups import Group

_POLL_S = 0.01
_seen: dict[tuple[str, str], int] = {}  # graphs of a signature so far; never forgotten, as the store forgets nothing either


class Offer(typing.NamedTuple):
    """What a rank says of one collective."""

    fault: str  # why it cannot be replaced, on any rank's word; empty: it can
    wish: str  # why rank 0 would not replace it; empty: it would
    detail: str  # of what rank 0 would put there
    gain_us: float
    is_untuned: bool


class Verdict(typing.NamedTuple):
    is_fused: bool
    reason: str  # why not, or what is put there
    gain_us: float
    is_untuned: bool


def agree(group: Group, signature: typing.Sequence[str], offers: list[Offer], wait_s: float) -> list[Verdict]:
    """A verdict for each collective, the same on all ranks, whose graphs have the same collectives on the group in the same order.
    Ranks that do not come within wait_s leave everything as it is, on all ranks."""
    if group.size == 1 or group.backend == "fake":
        return _judged([offers])
    digest = hashlib.sha256("\n".join(signature).encode()).hexdigest()[:32]
    number = _seen[group.name, digest] = _seen.get((group.name, digest), 0) + 1
    store, key = _store(group), f"mc2/graph/{group.name}/{digest}/{number}"
    keys, verdict = [f"{key}/{rank}" for rank in range(group.size)], f"{key}/verdict"
    store.set(keys[group.rank], json.dumps(offers))
    end = time.monotonic() + wait_s
    while not store.check([verdict]):
        missing = [rank for rank, name in enumerate(keys) if not store.check([name])]
        if not missing:
            own = _judged([[Offer(*offer) for offer in json.loads(store.get(name))] for name in keys])
            store.compare_set(verdict, "", json.dumps(own))
        elif time.monotonic() > end:
            reason = f"rank {', '.join(map(str, missing))} of the group did not compile this graph within {wait_s:g} s"
            store.compare_set(verdict, "", json.dumps([Verdict(False, reason, 0, False)] * len(offers)))
        else:
            time.sleep(_POLL_S)
    return [Verdict(*each) for each in json.loads(store.get(verdict))]


def _judged(ranks: list[list[Offer]]) -> list[Verdict]:
    verdicts = []
    for offers in zip(*ranks):
        fault = next((f"rank {rank}: {offer.fault}" if rank else offer.fault for rank, offer in enumerate(offers) if offer.fault), "")
        first = offers[0]
        reason = fault or first.wish
        verdicts.append(Verdict(not reason, reason or first.detail, 0 if reason else first.gain_us, first.is_untuned and not fault))
    return verdicts


def _store(group: Group) -> typing.Any:
    return typing.cast(typing.Any, dist.distributed_c10d)._get_process_group_store(group.handle)
