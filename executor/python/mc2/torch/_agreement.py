"""One verdict for all ranks of a group on the graph that each of them compiles.

Ranks compile at their own pace, and may not compile at all. So they meet in the group's key-value store, not in a
collective: each leaves its offers under the graph's key; the first that has seen all of them, or has waited too long,
leaves the verdicts.
"""

from __future__ import annotations

import hashlib
import json
import time
import typing

import torch.distributed as dist

from ._groups import Group

_POLL_S = 0.01
_counts: dict[
    tuple[str, str], int
] = {}  # graphs of a signature so far; never forgotten, as the store forgets nothing either
_last: dict[tuple[str, str], list[Verdict]] = {}  # of these signatures


class Offer(typing.NamedTuple):
    """What a rank says of one collective."""

    fault: str  # why it cannot be replaced, on any rank's word; empty: it can
    call: list[typing.Any] = []  # what all ranks must have in common to replace it
    wish: str = ""  # why rank 0 would not replace it; empty: it would
    detail: str = ""  # of what rank 0 would put there
    gain_us: float = 0
    is_untuned: bool = False
    estimate: list[float] | None = None  # of rank 0: what it takes alone, and its part that no size shortens, in us


class Verdict(typing.NamedTuple):
    is_fused: bool
    reason: str  # why not, or what is put there
    gain_us: float = 0
    is_untuned: bool = False
    estimate: list[float] | None = None


class Meeting:
    """Of the ranks whose graphs have the same collectives on a group, in the same order."""

    def __init__(self, group: Group, signature: typing.Sequence[str], offers: list[Offer]) -> None:
        """Leaves this rank's offers, one for each collective, and waits for nobody."""
        self._offers = offers
        self._is_alone = group.size == 1 or group.backend == "fake"
        if self._is_alone:
            return
        digest = hashlib.sha256("\n".join(signature).encode()).hexdigest()[:32]
        self._graph = (group.name, digest)
        number = _counts[self._graph] = _counts.get(self._graph, 0) + 1
        key = f"mc2/graph/{group.name}/{digest}/{number}"
        self._keys, self._verdict = [f"{key}/{rank}" for rank in range(group.size)], f"{key}/verdict"
        self._store = typing.cast(typing.Any, dist.distributed_c10d)._get_process_group_store(group.handle)
        self._store.set(self._keys[group.rank], json.dumps(offers))

    def verdicts(self, wait_s: float) -> list[Verdict]:
        """One for each collective, the same on all ranks. If ranks do not come within wait_s, it is what this graph was
        judged the last time, as they run that, or else to leave everything."""
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
