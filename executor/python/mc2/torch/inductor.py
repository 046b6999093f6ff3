"""mc2 behind torch.compile: replaces matmuls beside a collective by mc2's operators, where a plan predicts a gain.

    mc2.torch.inductor.enable()          # before the model is compiled, on all ranks
    model = torch.compile(model)
    ...
    print(mc2.torch.inductor.report())   # what was fused, and why the rest was not

The model does not change. The functional collectives of tensor-parallel plans (parallelize_module), of DTensor and of
torch.distributed._functional_collectives are found. A graph in which nothing is fused is compiled as without mc2, with
one exception: if Inductor's overlap scheduler is on, it uses mc2's times of collectives.
"""

from __future__ import annotations

import collections
import fnmatch
import importlib
import re
import typing

import torch
from torch.fx import Graph, Node

from ..errors import Error
from . import _agreement, _estimates, _groups, _layout, _plans, _problem, _rewrite
from ._settings import log, settings, warn

_OLDEST = (2, 6)
_MAX_DYNAMIC_ROWS = 1 << 16
_WAIT_S = 300.0
_ESTIMATE = "mc2_estimate"  # key in a collective node's meta: the times for estimate_ms()


class Site(typing.NamedTuple):
    """A collective of a compiled graph, and whether it was fused."""

    name: str  # the module's, "layers.0.attn.wo"; in backward graphs followed by " (backward)"
    op: str  # "matmul_all_reduce m=4096 n=4096 k=3584 torch.bfloat16 x2", or "all_reduce of 2 x 96 torch.float32"
    is_fused: bool
    reason: str  # the cut that it runs with, or why it is not fused
    gain_us: float  # unfused minus fused time by the plan; with a dynamic m, at the m that was compiled first
    collective_us: float | None = (
        None  # time of the collective alone by mc2's models; None where no model covers its size
    )


class _Options(typing.NamedTuple):
    exclude: tuple[str, ...]
    wait_s: float
    previous: typing.Any = None  # the pass that was set before enable()


_options: _Options | None = None
_sites: list[Site] = []


def enable(*, exclude: typing.Iterable[str] = (), wait_s: float = _WAIT_S) -> None:
    """Makes graphs that are compiled from now on use mc2. All ranks call it with the same arguments.

    exclude  names of sites that are not fused, as sites() tells them; * stands for any text, ? for any character
    wait_s   how long a rank waits for the others to compile the same graph. After that the graph is not fused on any
             rank or, if it was compiled before, is fused as it was then

    While mc2 is enabled, PyTorch's cache of compiled graphs is not used, because plans may have changed. A pass that
    was set before runs first. If Inductor's overlap scheduler is on and has no custom_runtime_estimation, it uses the
    times that mc2's models give for collectives. Raises Error (unsupported) before PyTorch 2.6, (invalid_spec) for
    arguments of other types.
    """
    global _options
    config = _config()
    names = tuple(exclude) if not isinstance(exclude, str) else (exclude,)
    if not all(isinstance(name, str) for name in names):
        raise Error("invalid_spec", "exclude", f"is {names!r}; needs names of sites, such as 'layers.0.*'")
    if isinstance(wait_s, bool) or not isinstance(wait_s, (int, float)) or not wait_s > 0:
        raise Error("invalid_spec", "wait_s", f"is {wait_s!r}; needs seconds above 0")
    current = config.post_grad_custom_pre_pass
    previous = _options.previous if _options is not None and getattr(current, "is_mc2", False) else current
    _options = _Options(names, wait_s, previous)
    config.post_grad_custom_pre_pass = _pass(previous)
    _exchange_estimation(None, estimate_ms)
    _sites.clear()


def disable() -> None:
    """Makes graphs that are compiled from now on as without mc2."""
    global _options
    if _options is not None and getattr(
        _config().post_grad_custom_pre_pass, "is_mc2", False
    ):  # a pass that was set since enable() stays
        _config().post_grad_custom_pre_pass = _options.previous
    if _options is not None:
        _exchange_estimation(estimate_ms, None)
    _options = None


def sites() -> list[Site]:
    """Every collective that was compiled since enable(), in the order of compilation."""
    return list(_sites)


def report() -> str:
    """sites() as text. Sites that differ only in the number of a layer share a line."""
    fused = [site for site in _sites if site.is_fused]
    gain = sum(site.gain_us for site in fused)
    lines = [
        f"mc2.torch.inductor: {len(fused)} of {len(_sites)} collectives fused; by their plans {gain:.0f} us less in "
        f"one pass over all"
    ]
    counts = collections.Counter(site._replace(name=re.sub(r"\.\d+\.", ".*.", site.name)) for site in _sites)
    width = max((len(site.name) for site in counts), default=0)
    for site, count in counts.items():
        what = f"fused, {site.gain_us:.0f} us less: {site.reason}" if site.is_fused else f"as it was: {site.reason}"
        what += "" if site.collective_us is None else f"; its collective alone takes {site.collective_us:.0f} us"
        lines.append(f"{count:4} x {site.name:{width}}  {site.op}  {what}")
    return "\n".join(lines)


def forget() -> None:
    """Empties the list of sites()."""
    _sites.clear()


def estimate_ms(node: Node, size_bytes: int | None = None) -> float | None:
    """The time of a node, which enable() gives Inductor's overlap scheduler as custom_runtime_estimation. Collectives
    have the time of rank 0's models, on all ranks. Nodes that only move memory have PyTorch's own estimate, which the
    scheduler does not use beside a custom function. None for all other nodes: PyTorch estimates or times them. mc2's
    operators are among these, and nothing is scheduled to hide behind them, because they communicate themselves.

    size_bytes  another size of the collective, counted as PyTorch does: its input and its output together
    """
    estimate = node.meta.get(_ESTIMATE)
    if estimate is not None:
        us, fixed_us = estimate
        share = 1.0 if size_bytes is None else size_bytes / max(_rewrite.bytes_taken_and_given(node), 1)
        return float(fixed_us + (us - fixed_us) * share) / 1e3
    scheduling = importlib.import_module("torch._inductor.fx_passes.overlap_scheduling")
    needs_memory = getattr(scheduling, "estimate_mem_bound_runtime_ms", None)
    is_other = (
        node.op != "call_function"
        or scheduling.is_compute_node(node)
        or str(node.target).startswith(("_c10d_functional", "mc2"))
    )
    return None if needs_memory is None or is_other else float(needs_memory(node))


def _exchange_estimation(old: typing.Any, new: typing.Any) -> None:
    options = getattr(_config(), "aten_distributed_optimizations", None)
    if options is not None and getattr(options, "custom_runtime_estimation", new) is old:
        options.custom_runtime_estimation = new


def _config() -> typing.Any:
    if tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2]) < _OLDEST:
        raise Error("unsupported", "torch", f"is {torch.__version__}; mc2.torch.inductor needs 2.6 or later")
    return importlib.import_module("torch._inductor.config")


def _pass(previous: typing.Any) -> typing.Any:
    def run(_: typing.Any, graph: Graph) -> None:
        if previous is not None:
            previous(graph)
        fuse(graph)

    base = importlib.import_module("torch._inductor.custom_graph_pass").CustomGraphPass
    # A pass without a uuid turns PyTorch's cache off: what is compiled depends on plans and on other ranks.
    return type("Pass", (base,), {"__call__": run, "uuid": lambda _: None, "is_mc2": True})()


class _Candidate(typing.NamedTuple):
    """A collective of a graph, and the site that may be replaced."""

    collective: Node
    fault: str  # why there is no site that can be replaced; empty: there is one
    site: _rewrite.Site | None = None
    problems: tuple[_problem.Problem, ...] = ()  # one for each m whose plan is looked up
    is_dynamic: bool = False

    @property
    def name(self) -> str:
        """The module's name, followed by " (backward)" in a backward graph; the node's name if there is no module."""
        node = self.site.product if self.site else self.collective
        for key, ending in (("nn_module_stack", ""), ("fwd_nn_module_stack", " (backward)")):
            stack = node.meta.get(key)
            if stack:
                return re.sub(r"^L\['\w+'\]\.?", "", list(stack.values())[-1][0]) + ending
        return node.name

    @property
    def op(self) -> str:
        if not self.problems:
            return _rewrite.signature(self.collective)
        text = self.problems[0].text()
        return text.replace(" n=", " (dynamic) n=") if self.is_dynamic else text


def fuse(graph: Graph) -> None:
    """Rewrites a graph that has its gradients already. All ranks of a group that compile the same graph rewrite it in
    the same way."""
    options = _options or _Options((), _WAIT_S)
    met: list[tuple[_agreement.Meeting, list[_Candidate]]] = []
    for name, candidates in _candidates(graph, options).items():
        try:
            met.append((_meet(name, candidates), candidates))
        except Exception as error:  # without this rank's offer no rank fuses
            warn("inductor", f"collectives of group {name} are left as they were: {error}")
    # From here on a failure must raise: the other ranks may have fused already.
    for meeting, candidates in met:
        for candidate, verdict in zip(candidates, meeting.verdicts(options.wait_s)):
            _take(candidate, verdict)


def _take(candidate: _Candidate, verdict: _agreement.Verdict) -> None:
    site = Site(candidate.name, candidate.op, *verdict[:3], verdict.estimate[0] if verdict.estimate else None)
    if verdict.estimate:
        candidate.collective.meta[_ESTIMATE] = verdict.estimate
    if verdict.is_untuned and candidate.problems:
        _plans.note_untuned(candidate.problems[0])
    if verdict.is_fused:
        if candidate.site is None:
            raise Error(
                "mismatch",
                "torch.compile",
                f"other ranks have fused {site.name}, which this rank cannot: {candidate.fault}",
            )
        _rewrite.replace(candidate.site)
    _sites.append(site)
    log.info("torch.compile: %s", site)


def _candidates(graph: Graph, options: _Options) -> dict[typing.Any, list[_Candidate]]:
    """The graph's candidates by name of their group, in the graph's order."""
    found: dict[typing.Any, list[_Candidate]] = {}
    products: dict[Node, str] = {}
    for collective in _rewrite.collectives(graph):
        try:
            candidate = _candidate(collective, options)
        except Exception as error:
            candidate = _Candidate(collective, f"it could not be read: {error}")
        if candidate.site and not candidate.fault:
            other = products.setdefault(candidate.site.product, collective.name)
            if other != collective.name:
                candidate = candidate._replace(fault=f"its matmul is fused with {other}")
        found.setdefault(_rewrite.group_name(collective), []).append(candidate)
    return found


def _candidate(collective: Node, options: _Options) -> _Candidate:
    name = _rewrite.group_name(collective)
    if not isinstance(name, str):
        return _Candidate(collective, "its group is not known when the graph is compiled")
    group = _groups.by_name(name)
    if group.size == 1:
        return _Candidate(collective, "its group has one rank")
    site = _rewrite.read(collective, group.size)
    if isinstance(site, str):
        return _Candidate(collective, site)
    rows, columns = _rewrite.value(site.product).shape
    x, k = _rewrite.value(site.x), _rewrite.value(site.w).shape[0]
    if not isinstance(columns, int) or not isinstance(k, int):
        return _Candidate(collective, "columns of its matmul are dynamic")
    if 0 in (rows if isinstance(rows, int) else 1, columns, k):
        return _Candidate(collective, "its matmul is empty")
    lengths = _lengths(rows, group.size)
    problems = tuple(_problem.Problem(site.kind, group, x.device, x.dtype, m, columns, k) for m in lengths)
    candidate = _Candidate(collective, "", site, problems, not isinstance(rows, int))
    if any(fnmatch.fnmatchcase(candidate.name, pattern) for pattern in options.exclude):
        return candidate._replace(fault="it is excluded by name")
    return candidate


def _lengths(rows: typing.Any, ranks: int) -> list[int]:
    """The values of m whose plans are looked up: one if m is fixed; if it is dynamic several, beginning with that of
    the first call."""
    if isinstance(rows, int):
        return [rows]
    bounds = rows.node.shape_env.bound_sympy(rows.node.expr)
    low, high = (int(min(max(bound, 1), _MAX_DYNAMIC_ROWS)) for bound in (bounds.lower, bounds.upper))
    powers = [ranks << i for i in range(20) if low <= ranks << i <= high]
    hint = rows.node.hint if rows.node.has_hint() else None
    return [*([int(hint)] if hint is not None else []), *reversed(powers)] or [high]


def _meet(name: typing.Any, candidates: list[_Candidate]) -> _agreement.Meeting:
    group = _groups.by_name(name)
    signature = [_rewrite.signature(candidate.collective) for candidate in candidates]
    estimates = _estimates.Estimates()
    offers = [
        _offer(candidate, group)._replace(estimate=_estimate(candidate.collective, group, estimates))
        for candidate in candidates
    ]
    return _agreement.Meeting(group, signature, offers)


def _estimate(collective: Node, group: _groups.Group, estimates: _estimates.Estimates) -> list[float] | None:
    """The times of a collective for Offer.estimate; None on ranks other than 0, whose models decide."""
    taken, message_bytes = _rewrite.value(typing.cast(Node, collective.args[0])), _rewrite.message_bytes(
        collective, group.size
    )
    if group.rank != 0 or message_bytes is None or settings.is_disabled:
        return None
    found = estimates.of(_rewrite.collective_name(collective), group, taken.device, taken.dtype, message_bytes)
    return list(found) if found is not None else None


def _offer(candidate: _Candidate, group: _groups.Group) -> _agreement.Offer:
    if candidate.fault or candidate.site is None:
        return _agreement.Offer(candidate.fault)
    first, site = candidate.problems[0], candidate.site
    rows = "dynamic" if candidate.is_dynamic else first.m
    call = [first.kind, f"m={rows}", f"n={first.n}", f"dim={site.dim}", *(["rows kept"] if site.keeps_rows else [])]
    try:
        return _wish(candidate, call) if group.rank == 0 else _agreement.Offer("", call)
    except Exception as error:
        return _agreement.Offer(f"its plan could not be looked up: {error}")


def _wish(candidate: _Candidate, call: list[typing.Any]) -> _agreement.Offer:
    """Rank 0's offer. It wishes to fuse if the plan of any m says so; the operator decides for each m when it is
    called."""
    first, site = candidate.problems[0], typing.cast(_rewrite.Site, candidate.site)
    calls = _groups.CAPTURED if first.device.type == "cuda" and _config().triton.cudagraphs else _groups.EAGER
    layout = _layout.layout(_rewrite.value(site.w))
    prospects = [_plans.prospect(first, layout, calls)]
    for problem in candidate.problems[1:]:
        if not prospects[-1].fault:
            break
        prospects.append(_plans.prospect(problem, layout, calls))
    last = prospects[-1]
    wish = prospects[0].fault if last.fault else ""
    at = f" at m={candidate.problems[len(prospects) - 1].m}" if candidate.is_dynamic else ""
    return _agreement.Offer("", call, wish, f"{last.cut}{at}", 0 if wish else last.gain_us, prospects[0].is_untuned)
