"""Agreement of a group's ranks on a graph that each of them compiles: all get the same verdicts.

Ranks compile at their own pace, and may not compile a graph at all. So they meet in the group's key-value store and not
in a collective. Each rank leaves its offers under the graph's key. The first rank that has seen all offers, or has
waited too long, leaves the verdicts.
"""

from __future__ import annotations

import hashlib
import json
import time
import typing

import torch.distributed as dist

from ._groups import Group, table

_POLL_S = 0.01
_counts: dict[
    tuple[str, str], int
] = {}  # number of graphs so far, by group and signature; never reset, because the store keeps its keys, too
_last: dict[tuple[Group, str], list[Verdict]] = table()  # the last verdicts, by group and signature


class Offer(typing.NamedTuple):
    """A rank's statement about one collective. The fields from `wish` on count on rank 0 only."""

    fault: str  # why this rank cannot replace it, so that no rank does; empty: it can
    call: list[typing.Any] = []  # facts that must be equal on all ranks for it to be replaced
    wish: str = ""  # why rank 0 would not replace it; empty: it would
    detail: str = ""  # the cut that it would run with
    gain_us: float = 0
    is_untuned: bool = False
    estimate: list[float] | None = None  # its time alone, and the part of it that does not depend on its size, in us


class Verdict(typing.NamedTuple):
    is_fused: bool
    reason: str  # the cut that it runs with, or why it is not fused
    gain_us: float = 0
    is_untuned: bool = False
    estimate: list[float] | None = None


class Meeting:
    """The meeting of ranks whose graphs have the same collectives on a group, in the same order."""

    def __init__(self, group: Group, signature: typing.Sequence[str], offers: list[Offer]) -> None:
        """Leaves this rank's offers, one for each collective, and waits for nobody."""
        self._offers = offers
        self._is_alone = group.size == 1 or group.backend == "fake"
        if self._is_alone:
            return
        digest = hashlib.sha256("\n".join(signature).encode()).hexdigest()[:32]
        self._graph, counted = (group, digest), (group.name, digest)
        number = _counts[counted] = _counts.get(counted, 0) + 1
        key = f"mc2/graph/{group.name}/{digest}/{number}"
        self._keys, self._verdict = [f"{key}/{rank}" for rank in range(group.size)], f"{key}/verdict"
        self._store = typing.cast(typing.Any, dist.distributed_c10d)._get_process_group_store(group.handle)
        self._store.set(self._keys[group.rank], json.dumps(offers))

    def verdicts(self, wait_s: float) -> list[Verdict]:
        """A verdict for each collective, the same on all ranks. If a rank does not come within wait_s, the last
        verdicts on this graph hold, because the missing ranks still run by them; without any, nothing is fused."""
        if self._is_alone:
            return _judged([self._offers])
        end = time.monotonic() + wait_s
        while not self._store.check([self._verdict]):
            missing = [rank for rank, key in enumerate(self._keys) if not self._store.check([key])]
            if not missing:
                self._propose(
                    _judged([[Offer(*offer) for offer in json.loads(self._store.get(key))] for key in self._keys])
                )
            elif time.monotonic() > end:
                reason = (
                    f"rank {', '.join(map(str, missing))} of the group did not compile this graph within {wait_s:g} s"
                )
                self._propose(_last.get(self._graph) or [Verdict(False, reason)] * len(self._offers))
            else:
                time.sleep(_POLL_S)
        _last[self._graph] = [Verdict(*each) for each in json.loads(self._store.get(self._verdict))]
        return _last[self._graph]

    def _propose(self, verdicts: list[Verdict]) -> None:
        """The first proposal of any rank holds."""
        self._store.compare_set(self._verdict, "", json.dumps(verdicts))


def _judged(ranks: list[list[Offer]]) -> list[Verdict]:
    return [_judge(offers) for offers in zip(*ranks)]


def _judge(offers: typing.Sequence[Offer]) -> Verdict:
    return _verdict(offers)._replace(estimate=offers[0].estimate)


def _verdict(offers: typing.Sequence[Offer]) -> Verdict:
    first = offers[0]
    for rank, offer in enumerate(offers):
        if offer.fault:
            return Verdict(False, f"rank {rank}: {offer.fault}" if rank else offer.fault)
    for rank, offer in enumerate(offers):
        if offer.call != first.call:
            return Verdict(False, f"rank {rank} has {_text(offer.call)}, rank 0 {_text(first.call)}")
    if first.wish:
        return Verdict(False, first.wish, 0, first.is_untuned)
    return Verdict(True, first.detail, first.gain_us, first.is_untuned)


def _text(call: list[typing.Any]) -> str:
    return " ".join(map(str, call))
