"""Finds matmuls next to collectives in a graph of aten operators and functional collectives, and replaces both by mc2's
operator.

Looks up no plan, so that any graph of torch.fx can be read and rewritten.
"""

from __future__ import annotations

import contextlib
import operator
import typing

import torch
from torch.fx import Graph, Node

from . import _ops  # noqa: F401 - registers the operators that are put into graphs

_Size = typing.Any  # int, or torch.SymInt where a size is dynamic

_AFTER_MATMUL = {
    "all_reduce": "matmul_all_reduce",
    "reduce_scatter_tensor": "matmul_reduce_scatter",
    "all_to_all_single": "matmul_all_to_all",
}
_BEFORE_MATMUL = {"all_gather_into_tensor": "all_gather_matmul", "all_to_all_single": "all_to_all_matmul"}


class Site(typing.NamedTuple):
    """A collective and a matmul that one operator can replace."""

    kind: str
    collective: Node
    result: Node  # the collective's complete result, with its parts in the final order
    product: Node  # the matmul
    bias: Node | None  # added to the result once
    shape: tuple[_Size, ...]  # shape of the whole that is scattered along `dim`, or of the share that is gathered
    dim: int
    keeps_rows: bool = False  # True: other nodes than the matmul use the gathered rows, too

    @property
    def x(self) -> Node:
        """The operator's input, [..., k], read from the graph because the replacement of another site may have changed
        it."""
        is_given_first = self.kind in _BEFORE_MATMUL.values()
        return typing.cast(Node, self.collective.args[0]) if is_given_first else _operands(self.product)[1]

    @property
    def w(self) -> Node:
        return _operands(self.product)[2]

    @property
    def ranks(self) -> int:
        """Number of ranks; only for collectives that gather or scatter, which have it as an argument."""
        return typing.cast(int, self.collective.args[-2])


def collectives(graph: Graph) -> list[Node]:
    """The collectives that a site may have, in the graph's order, which is the same on all ranks of a group."""
    return [node for node in graph.nodes if collective_name(node)]


def collective_name(node: Node) -> str:
    """The name of a collective that a site may have; "" for other nodes."""
    name = _name(node)
    return name if kinds(name) and str(node.target).startswith("_c10d_functional") else ""


def kinds(name: str) -> list[str]:
    """The operator kinds that have a collective of this name."""
    return [of_collective[name] for of_collective in (_AFTER_MATMUL, _BEFORE_MATMUL) if name in of_collective]


def group_name(collective: Node) -> typing.Any:
    return collective.args[-1]


def signature(collective: Node) -> str:
    """Name, type and sizes of a collective, which are the same on all ranks. Dynamic sizes are "?"."""
    taken = value(typing.cast(Node, collective.args[0]))
    sizes = " x ".join(str(size) if isinstance(size, int) else "?" for size in taken.shape)
    return f"{collective_name(collective)} of {sizes} {taken.dtype}"


def message_bytes(collective: Node, ranks: int) -> int | None:
    """Bytes of the whole array: the array that is reduced or exchanged, or all ranks' shards in a gather. Dynamic sizes
    count as in the call that the graph was compiled for; None if they are unknown."""
    whole = _bytes(value(typing.cast(Node, collective.args[0])))
    return whole if whole is None or collective_name(collective) != "all_gather_into_tensor" else whole * ranks


def bytes_taken_and_given(collective: Node) -> int:
    return sum(_bytes(value(node)) or 0 for node in (typing.cast(Node, collective.args[0]), collective))


def _bytes(tensor: torch.Tensor) -> int | None:
    count = tensor.numel()
    if not isinstance(count, int):
        count = count.node.hint if count.node.has_hint() else None
    return None if count is None else int(count) * tensor.element_size()


def read(collective: Node, ranks: int) -> Site | str:
    """The site of a collective, or why there is none."""
    name = collective_name(collective)
    waits = list(collective.users)
    if len(waits) != 1 or _name(waits[0]) != "wait_tensor":
        return "its result is not waited for in one place"
    if name == "all_gather_into_tensor":
        return _read_gather(collective, waits[0], ranks)
    if name == "all_to_all_single":
        if not _is_even(collective, ranks):
            return "it exchanges unequal parts"
        before = _read_exchanged(collective, waits[0])
        return before if isinstance(before, Site) else _read_product(collective, waits[0], ranks)
    if collective.args[1] != "sum":
        return f"it reduces by {collective.args[1]}; sums are fused"
    return _read_product(collective, waits[0], ranks)


def replace(site: Site) -> None:
    """Puts mc2's operator in the place of the site."""
    if site.kind in _AFTER_MATMUL.values():
        _replace_product(site)
    else:
        _replace_gather(site)


def value(node: Node) -> torch.Tensor:
    """The node's value as a fake tensor."""
    return typing.cast(torch.Tensor, node.meta["val"])


# Properties of nodes.


def _name(node: Node) -> str:
    """The name of an operator: mm, view, all_reduce, ... "" for overloads that do more, such as mm.dtype and
    view.dtype."""
    is_usual = getattr(node.target, "_overloadname", "") in ("default", "Tensor", "int")
    return getattr(getattr(node.target, "overloadpacket", None), "__name__", "") if is_usual else ""


def _is_view(node: Node) -> bool:
    return _name(node) in ("view", "reshape", "_unsafe_view")


def _is_same(a: _Size, b: _Size) -> bool:
    """Whether sizes are known to be equal. Compares their texts, because comparing dynamic sizes would make them
    fixed."""
    return str(a) == str(b)


def _dynamic_count(sizes: typing.Iterable[_Size]) -> int:
    return sum(not isinstance(size, int) for size in sizes)


def _is_even(exchange: Node, ranks: int) -> bool:
    splits = [*typing.cast("list[typing.Any]", exchange.args[1]), *typing.cast("list[typing.Any]", exchange.args[2])]
    return (
        len(splits) == 2 * ranks
        and len({str(size.meta["val"]) if isinstance(size, Node) else str(size) for size in splits}) == 1
    )


def _operands(product: Node) -> tuple[Node | None, Node, Node]:
    """Bias (or None), x and w of a matmul."""
    args = typing.cast("tuple[Node, ...]", product.args)
    return (args[0], args[1], args[2]) if _name(product) == "addmm" else (None, args[0], args[1])


def _is_matmul(node: Node) -> bool:
    """Whether the node is x @ w or x @ w + bias [n], with operands of one type."""
    if _name(node) not in ("mm", "addmm") or any(factor != 1 for factor in node.kwargs.values()):
        return False
    bias, x, w = _operands(node)
    values = [value(node), *(value(given) for given in (x, w, bias) if given is not None)]
    is_one_type = all(each.dtype == values[0].dtype and each.device == values[0].device for each in values)
    return is_one_type and (bias is None or value(bias).dim() == 1)


# Sites with the matmul first.


def _read_product(collective: Node, wait: Node, ranks: int) -> Site | str:
    kind = _AFTER_MATMUL[collective_name(collective)]
    source, dim = typing.cast(Node, collective.args[0]), 0
    if kind == "matmul_reduce_scatter":
        source, dim = _unsplit(source, ranks) or (source, 0)
    shape, product = tuple(value(source).shape), _below_views(source)
    if not _is_matmul(product):
        return _why_no_product(product)
    if any(len(node.users) != 1 for node in [*_views(source, product), product]):
        return f"the matmul's result {product.name} is taken elsewhere, too"
    if kind != "matmul_all_reduce":
        if dim == len(shape) - 1 or not _is_same(shape[-1], value(product).shape[1]):
            return "it scatters columns; rows are cut"
        if _dynamic_count(shape) > 1:
            return "several of its dimensions are dynamic"
    bias, x, _ = _operands(product)
    if _name(x) in ("permute", "t", "transpose"):
        return "it sums gradients of a weight, over rows that may be others on each rank"
    if bias is not None:
        bias = _summed(bias, ranks) if kind != "matmul_all_to_all" else None
        if bias is None:
            return f"the matmul {product.name} adds a bias that is no share of one for all ranks"
    return Site(kind, collective, wait, product, bias, shape, dim)


def _why_no_product(node: Node) -> str:
    summed = [_below_views(given) for given in node.all_input_nodes] if _name(node) == "add" else []
    if any(_is_matmul(given) or _name(given) == "add" for given in summed):
        return "it takes the sum of several matmuls"
    return "what it takes is no matmul's result"


def _below_views(node: Node) -> Node:
    while _is_view(node):
        node = typing.cast(Node, node.args[0])
    return node


def _views(last: Node, first: Node) -> list[Node]:
    """The views that lead from `first` to `last`, in this order."""
    found: list[Node] = []
    while last is not first:
        found.insert(0, last)
        last = typing.cast(Node, last.args[0])
    return found


def _unsplit(joined: Node, ranks: int) -> tuple[Node, int] | None:
    """If `joined` puts the parts of a split one below the other: the node that is split, and along which dimension."""
    if _name(joined) != "cat" or len(joined.users) != 1 or (len(joined.args) > 1 and joined.args[1] != 0):
        return None
    split = _split_of(joined, ranks)
    if split is None or len(split.args) < 3 or len(typing.cast(Node, split.args[0]).users) != 1:
        return None
    return typing.cast(Node, split.args[0]), typing.cast(int, split.args[2]) % value(joined).dim()


def _split_of(joined: Node, ranks: int) -> Node | None:
    """The split whose parts `joined` joins in their order; None if other nodes use the parts, too."""
    parts = typing.cast("list[Node]", joined.args[0])
    split = parts[0].args[0] if parts[0].args else None
    if not isinstance(split, Node) or _name(split) != "split" or not len(parts) == len(split.users) == ranks:
        return None
    is_whole = all(part.args == (split, i) and len(part.users) == 1 for i, part in enumerate(parts))
    return split if is_whole else None


def _summed(bias: Node, ranks: int) -> Node | None:
    """b, if the bias is b / ranks. DTensor adds that on every rank for a b that is the same on all ranks. Else None."""
    is_share = (_name(bias) == "div" and bias.args[1] == ranks) or (_name(bias) == "mul" and bias.args[1] == 1 / ranks)
    return typing.cast(Node, bias.args[0]) if is_share else None


# Sites with the collective first.


def _read_gather(collective: Node, wait: Node, ranks: int) -> Site | str:
    share = typing.cast(Node, collective.args[0])
    shape = tuple(value(share).shape)
    whole, dim = _joined(wait, ranks) or (wait, 0)
    if len(shape) < 2 or dim == len(shape) - 1:
        return "it gathers columns; rows are cut"
    if _dynamic_count(shape) > 1:
        return "several of its dimensions are dynamic"
    products, keeps_rows = _products(whole, shape[-1])
    if not products:
        return "what it gathers is no matmul's left operand"
    if _dynamic_count(value(product).shape[1] for product in products):
        return "columns of its matmul are dynamic"
    product = max(products, key=lambda node: value(node).shape[1])  # the longest matmul hides most of the gather
    return _collected("all_gather_matmul", collective, whole, product, shape, dim, keeps_rows or len(products) > 1)


def _joined(wait: Node, ranks: int) -> tuple[Node, int] | None:
    """If a gather is along a dimension other than the first: the node that joins the parts, and that dimension."""
    split = next(iter(wait.users), wait)
    part = next(iter(split.users), None)
    joined = next(iter(part.users), None) if part is not None else None
    if (
        joined is None
        or _name(joined) != "cat"
        or len(joined.args) < 2
        or len(wait.users) != 1
        or _split_of(joined, ranks) is not split
    ):
        return None
    is_first = len(split.args) < 3 or split.args[2] == 0
    return (joined, typing.cast(int, joined.args[1]) % value(joined).dim()) if is_first else None


def _read_exchanged(collective: Node, wait: Node) -> Site | str:
    shape = tuple(value(typing.cast(Node, collective.args[0])).shape)
    products, is_elsewhere = _products(wait, shape[-1])
    if len(products) != 1 or is_elsewhere:
        return "what it exchanges is not one matmul's left operand"
    return _collected("all_to_all_matmul", collective, wait, products[0], shape, 0, False)


def _collected(
    kind: str, collective: Node, whole: Node, product: Node, shape: tuple[_Size, ...], dim: int, keeps_rows: bool
) -> Site | str:
    bias, _, w = _operands(product)
    late = _later(w, collective)
    return late if isinstance(late, str) else Site(kind, collective, whole, product, bias, shape, dim, keeps_rows)


def _products(whole: Node, k: _Size) -> tuple[list[Node], bool]:
    """The matmuls whose left operand is `whole`, viewed as a matrix; and whether other nodes use it, too."""
    products: list[Node] = []
    is_elsewhere = False
    for user in whole.users:
        if _is_matmul(user) and _operands(user)[1] is whole and [*user.args].count(whole) == 1:
            products.append(user)
        elif _is_view(user) and _is_same(value(user).shape[-1], k):
            found, also = _products(user, k)
            products += found
            is_elsewhere = is_elsewhere or also
        else:
            is_elsewhere = True
    return products, is_elsewhere


_MOVABLE = (
    "view",
    "reshape",
    "_unsafe_view",
    "permute",
    "t",
    "transpose",
    "convert_element_type",
    "_to_copy",
    "detach",
    "alias",
)


def _later(wanted: Node, point: Node) -> list[Node] | str:
    """The nodes that `wanted` needs and that come after `point`, in order, if all of them may be moved before it. Else
    the reason why not."""
    order = {node: i for i, node in enumerate(point.graph.nodes)}
    found: set[Node] = set()
    pending = [wanted]
    while pending:
        node = pending.pop()
        if order[node] < order[point] or node in found:
            continue
        if _name(node) not in _MOVABLE:
            return f"its matmul's weight is computed after it, by {node.name}"
        found.add(node)
        pending += node.all_input_nodes
    return sorted(found, key=order.__getitem__)


# Replacing sites.


class _Emitter:
    """Inserts new nodes before a node. Their values are computed with fake tensors; their place in the program (module
    and stack) is that of the node."""

    def __init__(self, point: Node) -> None:
        self._point = point

    def __call__(self, target: typing.Any, *args: typing.Any) -> Node:
        graph = self._point.graph
        with graph.inserting_before(self._point):
            node = graph.call_function(target, args)
        with _fake_mode(self._point):
            node.meta["val"] = target(*torch.fx.node.map_arg(args, lambda arg: arg.meta["val"]))
        for key in ("nn_module_stack", "fwd_nn_module_stack", "stack_trace"):
            if key in self._point.meta:
                node.meta[key] = self._point.meta[key]
        return node

    def reshape(self, node: Node, sizes: typing.Sequence[_Size]) -> Node:
        """At most one size may be dynamic."""
        return self(torch.ops.aten.reshape.default, node, [size if isinstance(size, int) else -1 for size in sizes])

    def moved(self, node: Node, source: int, target: int) -> Node:
        order = [i for i in range(value(node).dim()) if i != source]
        return self(torch.ops.aten.permute.default, node, [*order[:target], source, *order[target:]])

    def operator(self, name: str, site: Site, x: Node) -> Node:
        return self(getattr(torch.ops.mc2, name).default, x, site.w, None, group_name(site.collective))

    def added(self, y: Node, bias: Node | None) -> Node:
        return y if bias is None else self(torch.ops.aten.add.Tensor, y, bias)


def _fake_mode(node: Node) -> typing.ContextManager[typing.Any]:
    mode = getattr(value(typing.cast(Node, node.args[0])), "fake_mode", None)
    return mode if mode is not None else contextlib.nullcontext()


def _replace_product(site: Site) -> None:
    emit, x, k = _Emitter(site.collective), site.x, value(site.w).shape[0]
    if site.dim > 0:  # brings each rank's rows together
        length = site.shape[site.dim] // site.ranks
        parts = emit.reshape(x, [*site.shape[: site.dim], site.ranks, length, *site.shape[site.dim + 1 : -1], k])
        x = emit.reshape(emit.moved(parts, site.dim, 0), [-1, k])
    y = emit.added(emit.operator(site.kind, site, x), site.bias)
    if site.kind == "matmul_all_reduce":
        for view in _views(typing.cast(Node, site.collective.args[0]), site.product):
            y = emit(view.target, y, *view.args[1:])
    else:
        y = emit.reshape(y, value(site.result).shape)
    _take_over(site.result, y)


def _replace_gather(site: Site) -> None:
    emit = _Emitter(site.collective)
    for node in _later(site.w, site.collective):
        site.collective.prepend(typing.cast(Node, node))
    x = site.x if value(site.x).dim() == 2 else emit.reshape(site.x, [-1, value(site.x).shape[-1]])
    if not site.keeps_rows:
        y = _ordered(emit, site, emit.operator(site.kind, site, x))
        _take_over(site.product, _Emitter(site.product).added(y, site.bias))
        return
    both = emit.operator("all_gather_matmul_rows", site, x)
    y, rows = (_ordered(emit, site, emit(operator.getitem, both, i)) for i in range(2))
    whole, y = emit.reshape(rows, value(site.result).shape), _Emitter(site.product).added(y, site.bias)
    _take_over(site.product, y)
    _take_over(site.result, whole)


def _ordered(emit: _Emitter, site: Site, matrix: Node) -> Node:
    """Reorders a matrix [rows, c], whose rows are rank after rank, to the order of a gather along site.dim."""
    if site.dim == 0:
        return matrix
    columns = value(matrix).shape[1]
    parts = emit.reshape(matrix, [site.ranks, *site.shape[:-1], columns])
    return emit.reshape(emit.moved(parts, 0, site.dim), [-1, columns])


def _take_over(old: Node, new: Node) -> None:
    old.replace_all_uses_with(new)
    _erase(old)


def _erase(node: Node) -> None:
    """Erases a node without users, and all nodes that then have none."""
    if node.users or node.op != "call_function":
        return
    inputs = node.all_input_nodes
    node.graph.erase_node(node)
    for given in inputs:
        _erase(given)
