"""Tests mc2.torch on gloo. Jobs of 2 and 3 processes run the same tests in every rank."""

import copy
import datetime
import gc
import importlib.util
import json
import math
import os
import pickle
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
import warnings
import weakref

try:
    import torch
    import torch.distributed as dist
except ImportError:  # python3-torch
    torch = None

import mc2
from values_test import Refusals

RANK, RANKS = int(os.environ.get("MC2_TEST_RANK", -1)), int(os.environ.get("MC2_TEST_RANKS", 0))
KINDS = ("matmul_all_reduce", "matmul_reduce_scatter", "all_gather_matmul", "matmul_all_to_all", "all_to_all_matmul")
M, N, K = 12 * 2 * 12, 40, 24  # rows divisible by 2 and 3 ranks, and enough to be cut

if torch is not None:  # the operators' type under autocast: PyTorch 1.13's gloo exchanges no bf16
    AUTOCAST = torch.float32 if torch.__version__ < "2" else torch.bfloat16
if RANK >= 0:
    import mc2.torch
    from mc2.torch import _bags, _groups, _passes, _plans, _symmetric, _together, tuning


def matrices(kind, dtype=None, m=M, seed=0):
    """Returns this rank's x and w."""
    generator = torch.Generator().manual_seed(seed * 100 + RANK)
    rows = m // RANKS if kind == "all_gather_matmul" else m
    x, w = (torch.empty(shape).uniform_(-1, 1, generator=generator) for shape in ((rows, K), (K, N)))
    return x.to(dtype or torch.float32), w.to(dtype or torch.float32)


def everyones(tensor):
    gathered = [torch.empty_like(tensor) for _ in range(RANKS)]
    dist.all_gather(gathered, tensor.contiguous())
    return gathered


def oracle(kind, x, w):
    """Returns this rank's result, computed from all ranks' operands in double precision."""
    xs, ws = everyones(x.double()), everyones(w.double())
    if kind == "all_gather_matmul":
        return torch.cat(xs) @ ws[RANK]
    part = slice(RANK * (len(x) // RANKS), (RANK + 1) * (len(x) // RANKS))
    if kind == "all_to_all_matmul":
        return torch.cat([other[part] for other in xs]) @ ws[RANK]
    products = [a @ b for a, b in zip(xs, ws)]
    if kind == "matmul_all_to_all":
        return torch.cat([product[part] for product in products])
    return sum(products)[part] if kind == "matmul_reduce_scatter" else sum(products)


TABLES, TABLE_ROWS = 3, 20


def bags(index_type, m=M, seed=0):
    """Returns this rank's row numbers and offsets. Some bags are empty."""
    generator = torch.Generator().manual_seed(seed * 100 + RANK)
    lengths = torch.randint(0, 6, (TABLES * m,), generator=generator)
    offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    indices = torch.randint(0, TABLE_ROWS, (int(offsets[-1]),), generator=generator)
    return indices.to(index_type), offsets.to(index_type)


def pooled(indices, tables, offsets, pooling):
    """Returns the features of all samples from this rank's tables, [m, features], with gradients."""
    m, of_tables = (len(offsets) - 1) // TABLES, []
    for t in range(TABLES):
        ends = offsets[t * m : (t + 1) * m + 1].long()
        rows = indices[ends[0] : ends[-1]].long()
        of_tables.append(
            torch.nn.functional.embedding_bag(rows, tables[t], ends - ends[0], mode=pooling, include_last_offset=True)
        )
    return torch.cat(of_tables, 1)


def cut_axis(kind, m=M):
    return m if kind == "matmul_all_reduce" else m // RANKS


def fuse(kind, blocks, m=M, n=N, k=K, dtype=None, group=None, tables=None, experts=None):
    """Lets later calls of this shape run with these blocks, as if they had won a race."""
    group = _groups.resolve(group)
    problem = _plans.Problem(kind, group, torch.device("cpu"), dtype or torch.float32, m, n, k, tables, experts)
    op = problem.op()
    lengths = (1, 2, 4, 8, 16, 32)
    samples = [mc2.Sample("matmul", x, 10.0 + x) for x in lengths]
    samples += [mc2.Sample("collective", x, 10.0 + x, message_bytes=x * op.bytes_per_unit) for x in lengths]
    model = mc2.fit(mc2.Profile(op, _groups.fingerprint(group, problem.device), samples)).model
    plan = mc2.predict(op, model, blocks).with_validation(mc2.Validation(1, 2, (0.5, 0.4, 0.6), 3), "test")
    _plans.keep(problem, model, plan)


def chosen():
    return [choice.eager.blocks for choice in _plans._choices.values() if choice.eager]


@unittest.skipIf(RANK < 0, "runs in the ranks of a job")
class RanksTest(Refusals):
    def setUp(self):
        mc2.torch.forget()
        _plans.settings.store, _plans.settings.is_disabled = "", False
        warnings.simplefilter("ignore")

    def assert_near(self, found, expected, dtype=None):
        dtype = dtype or torch.float32
        error = (found.double() - expected).abs().max() / expected.abs().max()
        self.assertLess(float(error), 16 * torch.finfo(dtype).eps)

    def test_fused_results_are_the_oracles(self):
        for kind in KINDS:
            rows = cut_axis(kind)
            for blocks in ([rows], [rows // 2, rows - rows // 2], [1, rows - 4, 3]):
                with self.subTest(kind, blocks=blocks):
                    fuse(kind, blocks)
                    x, w = matrices(kind)
                    expected = oracle(kind, x, w)
                    self.assert_near(getattr(mc2.torch, kind)(x, w), expected)
                    with torch.inference_mode():
                        self.assert_near(getattr(mc2.torch, kind)(x, w), expected)
                    self.assertEqual(
                        chosen(),
                        []
                        if kind == "matmul_all_reduce"
                        and len(blocks) == 1
                        or kind in ("matmul_reduce_scatter", "matmul_all_to_all")
                        and len(blocks) == 1
                        else [blocks],
                    )

    def test_unfused_and_fused_results_agree_in_every_type(self):
        for kind in KINDS:
            for dtype in (torch.float32, torch.bfloat16):
                if dtype == torch.bfloat16 and torch.__version__ < "2":
                    continue  # PyTorch 1.13's gloo does not sum bf16
                rows = cut_axis(kind)
                fuse(kind, [rows // 3, rows - rows // 3], dtype=dtype)
                x, w = matrices(kind, dtype)
                fused = getattr(mc2.torch, kind)(x, w)
                _plans.settings.is_disabled = True
                _plans.forget()
                self.assert_near(fused, getattr(mc2.torch, kind)(x, w).double(), dtype)
                _plans.settings.is_disabled = False

    def test_leading_dimensions_and_bias(self):
        for kind in KINDS:
            x, w = matrices(kind)
            bias = torch.arange(N, dtype=torch.float32)
            expected = oracle(kind, x, w) + bias
            found = getattr(mc2.torch, kind)(x.view(-1, 2, K), w, bias=bias)
            with self.subTest(kind):
                self.assertEqual(found.shape[1:], (2, N))
                self.assert_near(found.reshape(-1, N), expected)

    def test_residuals_are_added_once(self):
        for kind in KINDS:
            x, w = matrices(kind)
            expected = oracle(kind, x, w)
            residual = torch.empty(expected.shape).uniform_(-1, 1, generator=torch.Generator().manual_seed(3))
            bias = torch.ones(N)
            fuse(kind, [cut_axis(kind) - 5, 5])
            found = getattr(mc2.torch, kind)(x, w, residual=residual)
            leading = getattr(mc2.torch, kind)(x.view(-1, 2, K), w, bias=bias, residual=residual.view(-1, 2, N))
            with self.subTest(kind):
                self.assert_near(found, expected + residual)
                self.assert_near(leading.reshape(-1, N), expected + residual + 1)

    def test_rows_of_sums_are_normalised(self):
        for kind in ("matmul_all_reduce", "matmul_reduce_scatter"):
            x, w = matrices(kind)
            generator = torch.Generator().manual_seed(3)
            bias, weight = torch.empty(2, N).uniform_(-1, 1, generator=generator)
            expected = oracle(kind, x, w) + bias
            residual = torch.empty(expected.shape).uniform_(-1, 1, generator=generator)
            expected = expected + residual
            fuse(kind, [cut_axis(kind) - 5, 5])
            call = getattr(mc2.torch, f"{kind}_rms_norm")
            y, normed = call(x, w, weight, bias=bias, residual=residual, epsilon=0.5)
            root = (expected.square().mean(-1, keepdim=True) + 0.5).sqrt()
            with self.subTest(kind):
                self.assert_near(y, expected)
                self.assert_near(normed, expected / root * weight)
                self.assertEqual([t.shape for t in call(x.view(-1, 2, K), w, weight)], [(len(y) // 2, 2, N)] * 2)
                name = _groups.resolve(None).name
                fake = getattr(torch.ops.mc2, f"{kind}_rms_norm")(
                    x.to("meta"), w.to("meta"), weight.to("meta"), None, None, 1e-6, name
                )
                self.assertEqual([t.shape for t in fake], [y.shape, normed.shape])

    def test_gradients_pass_an_epilogue(self):
        """Compares with PyTorch's own operations on the result of the operator without the norm."""
        for kind in ("matmul_all_reduce", "matmul_reduce_scatter"):
            fuse(kind, [cut_axis(kind) - 7, 7])
            rows = M if kind == "matmul_all_reduce" else M // RANKS
            generator = torch.Generator().manual_seed(11)
            given = [
                *matrices(kind),
                *torch.empty(2, N).uniform_(0.5, 1, generator=generator),
                torch.empty(rows, N).uniform_(-1, 1, generator=generator),
            ]
            gradients = []
            for is_fused in (True, False):
                x, w, weight, bias, residual = leaves = [tensor.detach().clone().requires_grad_() for tensor in given]
                if is_fused:
                    y, normed = getattr(mc2.torch, f"{kind}_rms_norm")(x, w, weight, bias=bias, residual=residual)
                else:
                    y = getattr(mc2.torch, kind)(x, w, bias=bias, residual=residual)
                    normed = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6) * weight
                (y * 0.3 + normed.sin()).sum().backward()
                if kind == "matmul_reduce_scatter" and not is_fused:  # all ranks' rows share the weight
                    dist.all_reduce(weight.grad)
                gradients.append([leaf.grad for leaf in leaves])
            with self.subTest(kind):
                for mine, theirs in zip(*gradients):
                    torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)

    def test_gradients_of_gradients_are_refused(self):
        """The loss is not linear, so that its gradients depend on the result."""

        def refused(call, x, w, **more):
            results = call(x.requires_grad_(), w.requires_grad_(), **more)
            y = results[-1] if isinstance(results, tuple) else results
            of_x, of_w = torch.autograd.grad(y.square().sum(), (x, w), create_graph=True)
            for gradient in (of_x, of_w):
                with self.assertRaisesRegex(RuntimeError, "differentiate twice"):
                    gradient.sum().backward(retain_graph=True)

        for kind in (*KINDS, "replicated_matmul"):
            with self.subTest(kind):
                refused(getattr(mc2.torch, kind), *matrices(kind))
        for kind in ("matmul_all_reduce", "matmul_reduce_scatter"):
            with self.subTest(kind, has_norm=True):
                refused(getattr(mc2.torch, f"{kind}_rms_norm"), *matrices(kind), norm_weight=torch.ones(N))

    def test_no_rows_give_none(self):
        for kind in (*KINDS, "replicated_matmul"):
            x, w = (one.requires_grad_() for one in matrices(kind))
            with self.subTest(kind):
                y = getattr(mc2.torch, kind)(x[:0].view(0, 2, K), w, bias=torch.ones(N))
                self.assertEqual(y.shape, (0, 2, N))
                y.sum().backward()
                self.assertEqual((x.grad.abs().sum(), w.grad.abs().sum()), (0, 0))
        x, w = matrices("matmul_all_reduce")
        y, normed = mc2.torch.matmul_all_reduce_rms_norm(x[:0], w, torch.ones(N), residual=torch.ones(0, N))
        self.assertEqual((y.shape, normed.shape), ((0, N), (0, N)))

    def test_a_rank_without_rows_is_told_of_the_others(self):
        for kind in KINDS:
            x, w = matrices(kind)
            with self.subTest(kind):
                self.refused("mismatch", "x", getattr(mc2.torch, kind), x[:0] if RANK else x, w)

    @unittest.skipIf(RANK >= 0 and torch.__version__ >= "2", "gloo exchanges bfloat16 from PyTorch 2 on")
    def test_a_type_that_gloo_does_not_exchange_is_named(self):
        for kind in KINDS:
            x, w = matrices(kind, torch.bfloat16)
            self.refused("unsupported", "dtype", getattr(mc2.torch, kind), x, w)
        x, w = matrices("matmul_all_reduce", torch.bfloat16)
        self.refused("unsupported", "dtype", mc2.torch.matmul_all_reduce_rms_norm, x, w, torch.ones(N).bfloat16())

    @unittest.skipIf(torch.__version__ >= "2", "later versions multiply float16 on a CPU")
    def test_a_type_that_cpus_do_not_multiply_is_named_on_all_ranks(self):
        half = torch.float16
        for kind in KINDS if RANKS > 1 else ():
            x, w = matrices(kind, half)
            self.refused("unsupported", "dtype", getattr(mc2.torch, kind), x, w)
        counts = [2 if RANK == 0 else 0] + [0] * (2 * RANKS - 1)  # rank 0's expert has all rows
        self.refused("unsupported", "dtype", mc2.torch.route, counts, torch.zeros(2, 3, 4, dtype=half))
        experts = torch.zeros(4, 1, dtype=torch.int64)
        w_up, w_down = torch.zeros(2, 3, 4, dtype=half), torch.zeros(2, 4, 3, dtype=half)
        layer = torch.zeros(4, 3, dtype=half), experts, torch.ones(4, 1), w_up, w_down
        self.refused("unsupported", "dtype", mc2.torch.moe_layer, *layer)

    def test_pending_negations_are_seen(self):
        for kind in KINDS:
            for cut in (False, True):
                x, w = matrices(kind)
                expected = oracle(kind, x, w)
                if cut:
                    fuse(kind, [cut_axis(kind) - 5, 5])
                with self.subTest(kind, cut=cut):
                    negated = torch._neg_view(-x), torch._neg_view(-w)
                    self.assert_near(getattr(mc2.torch, kind)(*negated), expected)

    def test_strided_operands_are_taken(self):
        for kind in KINDS:
            x, w = matrices(kind)
            fuse(kind, [cut_axis(kind) - 5, 5])
            with self.subTest(kind):
                strided, transposed = x.repeat(1, 2)[:, :K], w.t().contiguous().t()
                self.assert_near(getattr(mc2.torch, kind)(strided, transposed), oracle(kind, x, w))

    def test_gradients_are_those_of_the_whole_problem(self):
        """Each rank's loss is the sum of its y * c. The expected gradients are those of the sum of all ranks' losses,
        in double precision."""
        for kind in KINDS:
            fuse(kind, [cut_axis(kind) - 7, 7])
            x, w = (t.requires_grad_() for t in matrices(kind))
            y = getattr(mc2.torch, kind)(x, w)
            shared = kind == "matmul_all_reduce"  # the same y and the same loss on every rank
            c = torch.empty_like(y).uniform_(-1, 1, generator=torch.Generator().manual_seed(7 if shared else 7 + RANK))
            (y * c).sum().backward()
            xs = [t.requires_grad_() for t in everyones(x.detach().double())]
            ws = [t.requires_grad_() for t in everyones(w.detach().double())]
            cs = everyones(c.double())
            part = [slice(r * (len(x) // RANKS), (r + 1) * (len(x) // RANKS)) for r in range(RANKS)]
            products = [a @ b for a, b in zip(xs, ws)]
            ys = {
                "matmul_all_reduce": lambda: [sum(products)],
                "matmul_reduce_scatter": lambda: [sum(products)[p] for p in part],
                "all_gather_matmul": lambda: [torch.cat(xs) @ b for b in ws],
                "matmul_all_to_all": lambda: [torch.cat([p[part[r]] for p in products]) for r in range(RANKS)],
                "all_to_all_matmul": lambda: [torch.cat([a[part[r]] for a in xs]) @ ws[r] for r in range(RANKS)],
            }[kind]()
            sum((a * b).sum() for a, b in zip(ys, cs)).backward()
            with self.subTest(kind):
                self.assert_near(x.grad, xs[RANK].grad)
                self.assert_near(w.grad, ws[RANK].grad)

    def under_autocast(self, call, given):
        """Returns the result under autocast and the gradients of the float32 leaves."""
        leaves = [tensor.detach().clone().requires_grad_() for tensor in given]
        with torch.autocast("cpu", torch.bfloat16):
            y = call(*leaves)
        self.assertEqual(y.dtype, AUTOCAST)
        (y.float() * torch.linspace(-1, 1, y.numel()).view(y.shape)).sum().backward()
        self.assertEqual({leaf.grad.dtype for leaf in leaves}, {torch.float32})
        return [y.detach(), *(leaf.grad for leaf in leaves)]

    def test_autocast_gives_its_type_whatever_the_plan(self):
        for kind in KINDS:
            x, w = matrices(kind)
            found = []
            for blocks in (None, [cut_axis(kind) - 9, 9]):
                mc2.torch.forget()
                if blocks:
                    fuse(kind, blocks, dtype=AUTOCAST)
                residual = torch.ones(M // RANKS if kind == "matmul_reduce_scatter" else M, N)
                operator = getattr(mc2.torch, kind)
                call = lambda x, w, bias, residual: operator(x, w, bias=bias, residual=residual)
                found.append(self.under_autocast(call, [x, w, torch.ones(N), residual]))
                self.assertEqual(chosen(), [blocks] if blocks else [])
                with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
                    self.assertEqual(operator(x, w.bfloat16()).dtype, AUTOCAST)  # operands of two types
            for unfused, fused in zip(*found):
                torch.testing.assert_close(fused, unfused, rtol=0.02, atol=0.2)

    def test_layers_take_what_autocast_gives(self):
        layer = mc2.torch.ColumnParallelLinear(K, RANKS * 8)
        x = torch.rand(M, K)
        with torch.autocast("cpu", torch.bfloat16):
            y = layer(x.requires_grad_())
        y.float().sum().backward()
        self.assertEqual((y.dtype, x.grad.dtype, layer.weight.grad.dtype), (AUTOCAST, torch.float32, torch.float32))

    def test_autocast_reaches_mixtures_of_experts(self):
        of_ranks, w_up, w_down = self.routed(3, 2)
        own, mine = slice(RANK * 3, (RANK + 1) * 3), of_ranks[RANK]
        expected = self.mixture(mine["x"], mine["experts"], mine["weights"], w_up, w_down)

        def layer(x, weights, w_up, w_down):
            return mc2.torch.moe_layer(x, mine["experts"], weights, w_up, w_down)

        y, *_ = self.under_autocast(layer, [mine["x"], mine["weights"], w_up[own], w_down[own]])
        torch.testing.assert_close(y.float(), expected, rtol=0.1, atol=0.5)

    def test_bags_are_pooled_and_exchanged_and_so_are_their_gradients(self):
        """Compares with all ranks' features, pooled in double precision. Every rank gets those of its own samples."""
        columns, kind = 5, "embedding_all_to_all"
        for pooling, dtype, sparse, blocks in (
            ("sum", torch.float32, False, None),
            ("mean", torch.float32, True, [M // RANKS - 9, 9]),
            ("sum", torch.float16, True, [1, M // RANKS - 1]),
            ("mean", torch.float16, False, None),
        ):
            with self.subTest(pooling, dtype=dtype, sparse=sparse, blocks=blocks):
                mc2.torch.forget()
                if blocks:
                    own = _bags.Tables(TABLES, TABLE_ROWS, pooling)
                    fuse(kind, blocks, n=TABLES * columns, k=3, dtype=dtype, tables=own)
                indices, offsets = bags(torch.int32 if sparse else torch.int64, seed=3)
                tables = (
                    torch.rand(TABLES, TABLE_ROWS, columns, generator=torch.Generator().manual_seed(RANK))
                    .to(dtype)
                    .requires_grad_()
                )
                y = mc2.torch.embedding_all_to_all(indices, tables, offsets, pooling=pooling, sparse=sparse, k=3)
                self.assertEqual(chosen(), [blocks] if blocks else [])
                whole = tables.detach().double().requires_grad_()
                features = pooled(indices, whole, offsets, pooling)
                share = slice(RANK * (M // RANKS), (RANK + 1) * (M // RANKS))
                self.assert_near(y, torch.cat([one[share] for one in everyones(features.detach())], 1), dtype)
                with torch.inference_mode():
                    again = mc2.torch.embedding_all_to_all(indices, tables, offsets, pooling=pooling, k=3)
                self.assertTrue(torch.equal(again, y))
                c = torch.rand(y.shape, generator=torch.Generator().manual_seed(9 + RANK)).to(dtype)
                (y * c).sum().backward()
                width = features.shape[1]
                of_own = [other[:, RANK * width : (RANK + 1) * width] for other in everyones(c.double())]
                (features * torch.cat(of_own)).sum().backward()
                self.assertEqual(tables.grad.is_sparse, sparse)
                self.assert_near(tables.grad.to_dense(), whole.grad, dtype)

    def test_bags_that_cannot_be_are_named(self):
        indices, offsets = bags(torch.int64)
        tables = torch.ones(TABLES, TABLE_ROWS, 4)

        def refused(code, field, indices=indices, tables=tables, offsets=offsets, **more):
            return self.refused(code, field, mc2.torch.embedding_all_to_all, indices, tables, offsets, **more)

        beyond, below, falling, late = indices.clone(), indices.clone(), offsets.clone(), offsets.clone()
        beyond[-1], below[0], falling[5], late[0] = TABLE_ROWS, -1, offsets[-1], 1
        self.assertIn(f"table {TABLES - 1}, sample", str(refused("invalid_spec", "indices", indices=beyond)))
        self.assertIn("names row -1; a table has rows 0 to 19", str(refused("invalid_spec", "indices", indices=below)))
        self.assertIn("table 0, sample 5", str(refused("invalid_spec", "offsets", offsets=falling)))
        refused("invalid_spec", "offsets", offsets=late)
        refused("invalid_spec", "offsets", indices=indices[:-1])
        refused("invalid_spec", "offsets", offsets=offsets[:-1])
        refused("invalid_spec", "offsets", offsets=offsets.int())
        refused("invalid_spec", "indices", indices=indices.float())
        refused("invalid_spec", "indices", indices=indices.view(1, -1))
        refused("invalid_spec", "tables", tables=tables[0])
        refused("invalid_spec", "tables", tables=tables.transpose(1, 2))
        refused("invalid_spec", "tables", tables=tables.long())
        refused("unknown_name", "pooling", pooling="max")
        refused("invalid_spec", "k", k=0)

    def test_ranks_that_call_with_other_tables_are_told_of_it(self):
        indices, offsets = bags(torch.int64)
        tables, call = torch.ones(TABLES, TABLE_ROWS, 4), mc2.torch.embedding_all_to_all
        fewer_rows = tables[:, RANK:].contiguous()
        self.refused("mismatch", "tables", call, indices[:0], fewer_rows, torch.zeros_like(offsets))
        self.refused("mismatch", "tables", call, indices, tables, offsets, pooling="sum" if RANK else "mean")
        self.refused("mismatch", "tables", call, indices, tables, offsets, k=2 + RANK)

    def test_a_wrong_bag_is_refused_where_it_is_and_nobody_waits(self):
        tables, call = torch.ones(TABLES, TABLE_ROWS, 4), mc2.torch.embedding_all_to_all
        for dtype, blocks in ((torch.float32, None), (torch.float16, None), (torch.float32, [M // RANKS - 9, 9])):
            mc2.torch.forget()
            if blocks:
                own = _bags.Tables(TABLES, TABLE_ROWS, "sum")
                fuse("embedding_all_to_all", blocks, n=TABLES * 4, k=3, tables=own)
            indices, offsets = bags(torch.int64)
            wrong = indices.clone()
            wrong[-1] = TABLE_ROWS
            with self.subTest(dtype=dtype, blocks=blocks):
                if RANK == 1:
                    self.refused("invalid_spec", "indices", call, wrong, tables.to(dtype), offsets)
                else:
                    y = call(indices, tables.to(dtype), offsets).view(M // RANKS, RANKS, TABLES * 4)
                    self.assertGreater(float(y[:, 0].abs().sum()), 0)
                    self.assertEqual(float(y[:, 1].abs().sum()), 0, "the wrong rank's features are zeros")
                y = call(indices, tables.to(dtype), offsets).view(M // RANKS, RANKS, TABLES * 4)
                self.assertGreater(float(y[:, 1].abs().sum()), 0)
                self.assertEqual(chosen(), [blocks] if blocks else [])

    def test_bags_of_other_lengths_keep_the_first_ones_plan(self):
        tables = torch.ones(TABLES, TABLE_ROWS, 4)
        for seed in range(3):
            mc2.torch.embedding_all_to_all(*bags(torch.int64, seed=seed)[:1], tables, bags(torch.int64, seed=seed)[1])
            self.assertEqual(len(_plans.untuned(_groups.resolve(None))), 1)
            _plans._choices.clear()  # as tuning another shape does
        fuse(
            "embedding_all_to_all",
            [M // RANKS - 9, 9],
            n=TABLES * 4,
            k=50,
            tables=_bags.Tables(TABLES, TABLE_ROWS, "sum"),
        )
        self.assertEqual(_plans.untuned(_groups.resolve(None)), [], "the shape is tuned, whatever k it was noted with")
        mc2.torch.embedding_all_to_all(*bags(torch.int64)[:1], tables, bags(torch.int64)[1])
        self.assertEqual(chosen(), [[M // RANKS - 9, 9]], "what was tuned is found, whatever the first bags were")

    def test_tables_may_change_between_a_call_and_its_gradient(self):
        indices, offsets = bags(torch.int64)
        tables = torch.ones(TABLES, TABLE_ROWS, 4, requires_grad=True)
        y = mc2.torch.embedding_all_to_all(indices, tables, offsets)
        y.mul_(2)  # legal, because y is not a view
        with torch.no_grad():
            tables.add_(1)
        (gradient,) = torch.autograd.grad(y.sum(), tables, create_graph=True)
        self.assertEqual(float(gradient.sum()), 2 * 4 * len(indices))
        with self.assertRaises(RuntimeError):
            gradient.sum().backward()

    def test_layers_say_what_they_are(self):
        layer = mc2.torch.RowParallelLinear(RANKS * 8, 6, bias=False)
        self.assertEqual((layer.in_features, layer.out_features, layer.weight.shape), (RANKS * 8, 6, (6, 8)))
        self.assertEqual(
            repr(layer),
            f"RowParallelLinear(in_features={RANKS * 8}, out_features=6, bias=False, own_weight=(6, 8), "
            "is_sequence_parallel=False)",
        )

    def test_layers_take_what_a_linear_layer_takes(self):
        whole = torch.nn.Linear(4 * RANKS, 2 * RANKS)
        for tensor in whole.parameters():
            dist.broadcast(tensor.data, 0)
        rows, columns = (
            layer.from_linear(whole) for layer in (mc2.torch.RowParallelLinear, mc2.torch.ColumnParallelLinear)
        )
        part = slice(RANK * 4, (RANK + 1) * 4), slice(RANK * 2, (RANK + 1) * 2)
        for shape in ((), (0,), (2, 0), (0, 3), (2, 0, 3), (3,)):
            x = torch.ones(*shape, 4 * RANKS)
            with self.subTest(shape=shape):
                torch.testing.assert_close(rows(x[..., part[0]]), whole(x))
                torch.testing.assert_close(rows(x[..., part[0]], residual=whole(x)), 2 * whole(x))
                torch.testing.assert_close(columns(x), whole(x)[..., part[1]])
        scattering = mc2.torch.RowParallelLinear.from_linear(whole, is_sequence_parallel=True)
        gathering = mc2.torch.ColumnParallelLinear.from_linear(whole, is_sequence_parallel=True)
        self.assertEqual(scattering(torch.ones(2 * RANKS, 0, 4)).shape, (2, 0, 2 * RANKS))
        self.assertEqual(gathering(torch.ones(2, 0, 4 * RANKS)).shape, (2 * RANKS, 0, 2))
        self.refused("invalid_spec", "x", scattering, torch.ones(4))

    def test_layers_are_copied_with_their_group_and_stored_without(self):
        group = dist.new_group()
        layer = mc2.torch.RowParallelLinear(RANKS * 8, 6, group=group)
        x = torch.ones(5, 8)
        for one in (copy.deepcopy(layer), copy.copy(layer), copy.deepcopy(torch.nn.Sequential(layer))[0]):
            self.assertIs(one.group, group)
            self.assertTrue(torch.equal(one(x), layer(x)))
        self.assertIsNot(copy.deepcopy(layer).weight, layer.weight)
        self.refused("unsupported", "group", pickle.dumps, layer)
        for default in (None, dist.group.WORLD):
            layer = mc2.torch.RowParallelLinear(RANKS * 8, 6, group=default)
            loaded = pickle.loads(pickle.dumps(layer))
            self.assertIsNone(loaded.group)
            self.assertTrue(torch.equal(loaded(x), layer(x)))

    def test_only_what_needs_a_gradient_gets_one(self):
        x, w = matrices("all_gather_matmul")
        w.requires_grad_()
        mc2.torch.all_gather_matmul(x, w).sum().backward()
        self.assertIsNone(x.grad)
        self.assertEqual(w.grad.shape, w.shape)

    def mlp(self, is_sequence_parallel):
        """Returns the same two layers whole and split over the ranks, and their input and target."""
        torch.manual_seed(5)
        whole = torch.nn.Sequential(torch.nn.Linear(K, 36), torch.nn.GELU(), torch.nn.Linear(36, N))
        parts = torch.nn.Sequential(
            mc2.torch.ColumnParallelLinear.from_linear(whole[0], is_sequence_parallel=is_sequence_parallel),
            torch.nn.GELU(),
            mc2.torch.RowParallelLinear.from_linear(whole[2], is_sequence_parallel=is_sequence_parallel),
        )
        x, target = torch.rand(M, K), torch.rand(M, N)
        return whole, parts, x, target

    def test_an_mlp_trains_as_its_whole_does(self):
        for is_sequence_parallel in (False, True):
            whole, parts, x, target = self.mlp(is_sequence_parallel)
            mine = slice(RANK * (M // RANKS), (RANK + 1) * (M // RANKS)) if is_sequence_parallel else slice(None)
            fuse("matmul_all_reduce", [M - 100, 100], k=36 // RANKS)
            fuse("all_gather_matmul", [cut_axis("all_gather_matmul") - 10, 10], n=36 // RANKS)
            optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (whole, parts)]
            for _ in range(4):
                losses = []
                for model, rows, optimizer in ((whole, slice(None), optimizers[0]), (parts, mine, optimizers[1])):
                    optimizer.zero_grad()
                    # With M in the denominator, the losses of ranks with a part of the rows add up to the whole loss.
                    loss = ((model(x[rows]) - target[rows]) ** 2).sum() / M
                    loss.backward()
                    optimizer.step()
                    losses.append(loss.detach())
                if is_sequence_parallel:
                    dist.all_reduce(losses[1])
                with self.subTest(is_sequence_parallel=is_sequence_parallel):
                    torch.testing.assert_close(losses[1], losses[0], rtol=1e-4, atol=1e-5)

    def routed(self, experts, top_k, seed=0, tokens=50):
        """Returns every rank's x, chosen experts and weights, and all experts' matrices; the same on all ranks."""
        generator = torch.Generator().manual_seed(seed)
        popular = torch.rand(RANKS * experts, generator=generator) ** 3
        popular[0] = 0  # nobody chooses this expert
        return (
            [
                {
                    "x": torch.randn(tokens + 7 * rank, 8, generator=generator),
                    "experts": torch.multinomial(popular.expand(tokens + 7 * rank, -1), top_k, generator=generator),
                    "weights": torch.rand(tokens + 7 * rank, top_k, generator=generator),
                }
                for rank in range(RANKS)
            ],
            torch.randn(RANKS * experts, 8, 12, generator=generator),
            torch.randn(RANKS * experts, 12, 8, generator=generator),
        )

    @staticmethod
    def mixture(x, experts, weights, w_up, w_down, b_up=None, b_down=None):
        """Returns the layer's result by its definition, token by token."""
        b_up, b_down = (
            torch.zeros(len(w), w.shape[2]) if b is None else b for w, b in ((w_up, b_up), (w_down, b_down))
        )
        rows = []
        for token, chosen, shares in zip(x, experts, weights):
            rows.append(
                sum(
                    (torch.nn.functional.silu(token @ w_up[e] + b_up[e]) @ w_down[e] + b_down[e]) * share
                    for e, share in zip(chosen, shares)
                )
            )
        return torch.stack(rows) if rows else x * weights.sum()

    def test_a_mixture_of_experts_is_its_definition_and_so_are_its_gradients(self):
        for experts, top_k, has_plan, tokens, has_bias in (
            (1, 1, False, 50, False),
            (3, 2, True, 50, False),
            (3, 2, True, 50, True),
            (4, 3, False, 50, True),
            (2, 2, False, 0, True),
        ):
            mc2.torch.forget()
            of_ranks, w_up, w_down = self.routed(experts, top_k, tokens=tokens)  # rank 0 has `tokens` rows, maybe none
            own = slice(RANK * experts, (RANK + 1) * experts)
            counts = [
                torch.bincount(r["experts"].flatten(), minlength=RANKS * experts).view(RANKS, experts) for r in of_ranks
            ]
            if has_plan:
                pair = mc2.torch._routing.rounded(int(torch.stack(counts).sum(2).max()))
                for kind, n, k in (("all_to_all_matmul", 12, 8), ("matmul_all_to_all", 8, 12)):
                    fuse(kind, [pair // 3, pair - pair // 3], m=pair * RANKS, n=n, k=k)
            mine = {name: tensor.clone() for name, tensor in of_ranks[RANK].items()}
            ws = {"w_up": w_up, "w_down": w_down}
            if has_bias:
                ws |= {
                    "bias_up": torch.rand(len(w_up), 12, generator=torch.Generator().manual_seed(1)),
                    "bias_down": torch.rand(len(w_up), 8, generator=torch.Generator().manual_seed(2)),
                }
            parts = {name: w[own].clone() for name, w in ws.items()}
            for tensor in (mine["x"], mine["weights"], *parts.values()):
                tensor.requires_grad_()
            y = mc2.torch.moe_layer(*mine.values(), **parts)
            if has_plan:
                self.assertEqual(len(chosen()[0]), 2)
            whole = [{name: tensor.clone() for name, tensor in r.items()} for r in of_ranks]
            for tensor in (*ws.values(), *(r["x"] for r in whole), *(r["weights"] for r in whole)):
                tensor.requires_grad_()
            expected = [self.mixture(r["x"], r["experts"], r["weights"], *ws.values()) for r in whole]
            torch.testing.assert_close(y, expected[RANK], rtol=1e-4, atol=1e-4)
            torch.stack([(each * each).sum() for each in expected]).sum().backward()
            (y * y).sum().backward()
            torch.testing.assert_close(mine["x"].grad, whole[RANK]["x"].grad, rtol=1e-3, atol=1e-3)
            torch.testing.assert_close(mine["weights"].grad, whole[RANK]["weights"].grad, rtol=1e-3, atol=1e-3)
            for name, part in parts.items():
                torch.testing.assert_close(part.grad, ws[name].grad[own], rtol=1e-3, atol=1e-3)

    def test_products_of_numbers_with_scales_are_the_oracles(self):
        from mc2.torch import _problem, _scaled

        has_type = _scaled.FLOAT8 is not None
        # Before PyTorch 2.1 int8 stands in for the type. gloo then exchanges no bf16.
        with unittest.mock.patch.multiple(
            _scaled,
            FLOAT8=_scaled.FLOAT8 if has_type else torch.int8,
            PRODUCT=_scaled.PRODUCT if has_type else torch.float32,
        ), unittest.mock.patch.dict(_problem.DTYPES, {} if has_type else {torch.int8: "f8e4m3"}):
            for kind in KINDS:
                with self.subTest(kind):
                    self.check_scaled(kind, _scaled.FLOAT8, _scaled.PRODUCT)

    def check_scaled(self, kind, dtype, product):
        generator = torch.Generator().manual_seed(RANK)
        rows = M // RANKS if kind == "all_gather_matmul" else M
        x, stored = (
            torch.randint(-8, 9, shape, generator=generator).float().to(dtype) for shape in ((rows, 32), (48, 32))
        )
        w, scales = stored.t(), {"x_scale": torch.tensor([0.5]), "w_scale": torch.tensor(0.25)}
        call = getattr(mc2.torch, kind)
        expected = oracle(kind, x.float() * 0.5, w.float() * 0.25)
        y = call(x, w, **scales)
        self.assertEqual(y.dtype, product)
        self.assert_near(y, expected, product)
        self.assert_near(call(x.view(-1, 2, 32), w, **scales).flatten(0, 1), expected, product)
        bias, residual = torch.ones(48, dtype=product), torch.full_like(y, 2)
        self.assert_near(call(x, w, bias=bias, residual=residual, **scales), expected + 3, product)
        self.assertEqual(call(x[:0], w, **scales).shape, (0, 48))
        for name, wrong in (
            ("x_scale", {"x_scale": None}),
            ("w_scale", {"w_scale": torch.ones(2)}),
            ("x", {"x": x.float()}),
            ("w", {"w": stored.t().contiguous()}),
            ("w", {"w": stored[:8].t()}),
            ("bias", {"bias": torch.ones(48, dtype=torch.float64)}),
        ):
            self.refused("invalid_spec", name, call, **{"x": x, "w": w, **scales, **wrong})
        self.refused(
            "unsupported", "bias", call, x, w, bias=torch.ones(48, dtype=product, requires_grad=True), **scales
        )
        learnt = torch.tensor([0.5], requires_grad=True)
        self.refused("unsupported", "x_scale", call, x, w, x_scale=learnt, w_scale=scales["w_scale"])
        with torch.no_grad():
            self.assert_near(call(x, w, x_scale=learnt, w_scale=scales["w_scale"]), expected, product)
        if dtype.is_floating_point:
            self.refused("invalid_spec", "x_scale", call, x, w)
        self.refused("unsupported", "dtype", mc2.torch.tune, kind, m=M, n=48, k=32, dtype=dtype)

    def test_a_promise_of_rows_gives_the_same_layer_and_is_held_to_on_all_ranks(self):
        of_ranks, w_up, w_down = self.routed(3, 2)
        own = slice(RANK * 3, (RANK + 1) * 3)
        parts = w_up[own], w_down[own]
        largest = max(int(torch.bincount(r["experts"].flatten() // 3, minlength=RANKS).max()) for r in of_ranks)
        mine = of_ranks[RANK]
        layer = torch.no_grad()(
            lambda max_rows, *ws: mc2.torch.moe_layer(*mine.values(), *(ws or parts), max_rows=max_rows)
        )
        expected = self.mixture(mine["x"], mine["experts"], mine["weights"], w_up, w_down)
        torch.testing.assert_close(layer(largest), expected, rtol=1e-4, atol=1e-4)
        biases = torch.ones(3, 12), torch.ones(3, 8)
        with_bias = torch.no_grad()(mc2.torch.moe_layer)(
            *mine.values(), *parts, bias_up=biases[0], bias_down=biases[1], max_rows=largest
        )
        of_all = (torch.ones(3 * RANKS, one.shape[1]) for one in biases)
        expected = self.mixture(mine["x"], mine["experts"], mine["weights"], w_up, w_down, *of_all)
        torch.testing.assert_close(with_bias, expected, rtol=1e-4, atol=1e-4)
        self.refused("invalid_spec", "bias_down", mc2.torch.moe_layer, *mine.values(), *parts, bias_down=biases[0])
        self.refused(
            "invalid_spec",
            "bias_up",
            torch.no_grad()(mc2.torch.moe_layer),
            *mine.values(),
            *parts,
            bias_up=biases[1],
            max_rows=largest,
        )
        self.refused("invalid_spec", "max_rows", layer, largest - 1)
        self.refused("invalid_spec", "max_rows", layer, largest + RANK)
        self.refused("invalid_spec", "max_rows", layer, 0)
        self.refused(
            "invalid_spec",
            "max_rows",
            torch.enable_grad()(lambda: mc2.torch.moe_layer(*mine.values(), *parts, max_rows=largest)),
        )
        self.refused("invalid_spec", "w_up", layer, largest, parts[1], parts[1])
        self.refused("invalid_spec", "w_down", layer, largest, parts[0], parts[1][:2])
        self.refused("invalid_spec", "w_down", layer, largest, parts[0], parts[1].double())
        with torch.inference_mode():
            layer(largest)

    def test_layers_that_wait_for_nothing_tell_all_ranks_of_too_many_rows(self):
        class Experts:
            """Stands in for two experts a rank, which return their input."""

            def __init__(self, m):
                self.m, self.x, self.told = m, torch.zeros(m, 4), None

            def run(self, w, counts):
                self.told = counts.tolist()
                return self.x.clone()

        from mc2.torch import _groups, _native_experts

        dispatch, combine = Experts(6), Experts(6)
        layer = _native_experts.NativeLayer(_groups.resolve(None), dispatch, combine)
        x, counts = torch.arange(20.0).view(5, 4), torch.arange(2 * RANKS) + 10 * RANK
        call = lambda token, activation=torch.neg: layer(x, torch.tensor(token), counts, None, None, activation)
        self.assertEqual(call([4, 0, 1]).tolist(), (-x[[4, 0, 1]]).tolist())
        self.assertEqual(dispatch.told, counts.view(RANKS, 2).tolist())
        self.assertEqual(combine.told, [[10 * rank + 2 * RANK, 10 * rank + 2 * RANK + 1] for rank in range(RANKS)])
        too_many = call([0] * 7)
        self.assertEqual(too_many.shape, (7, 4))
        self.assertTrue(too_many.isnan().all())
        self.assertEqual(dispatch.told, [[-1, -1]] * RANKS)
        for wrong in (lambda rows: rows[:, :1], lambda rows: None):
            combine.told = None
            self.refused("invalid_spec", "activation", call, [0], wrong)
            self.assertIsNotNone(combine.told)  # the other ranks wait in the combine

    def test_rows_lie_by_expert_and_come_back_to_their_places(self):
        counts = [[1, 2, 3, 0], [0, 4, 1, 1], [2, 0, 0, 5]][RANK][: 2 * RANKS] + [0] * (2 * RANKS - 4)
        x = torch.arange(sum(counts), dtype=torch.float32)[:, None] + 100 * RANK + torch.zeros(1, 2)
        w = torch.eye(2).expand(2, 2, 2).contiguous()
        routing = mc2.torch.route(counts, w)
        y = mc2.torch.moe_dispatch_matmul(x, w, routing)
        if RANKS == 2:
            arrived = {0: [0, 1, 2, 100, 101, 102, 103], 1: [3, 4, 5, 104, 105]}[RANK]
            self.assertEqual(y[:, 0].tolist(), arrived)
        self.assertEqual(mc2.torch.moe_matmul_combine(y, w, routing).tolist(), x.tolist())

    def test_routings_that_cannot_be_are_refused_on_all_ranks(self):
        w = torch.zeros(2, 3, 4)
        good = [1] * (2 * RANKS)
        wrong = [1, -5] + [0] * (2 * RANKS - 2)
        self.refused("invalid_spec", "counts", mc2.torch.route, wrong if RANK == 0 else good, w)
        self.refused("invalid_spec", "counts", mc2.torch.route, good + [1] if RANK == 1 else good, w)
        self.refused("invalid_spec", "w", mc2.torch.route, good, torch.zeros(3 if RANK == 1 else 2, 3, 4))
        routing = mc2.torch.route(good, w)
        self.refused("invalid_spec", "x", mc2.torch.moe_dispatch_matmul, torch.zeros(3, 3), w, routing)
        self.refused("invalid_spec", "w", mc2.torch.moe_dispatch_matmul, torch.zeros(2 * RANKS, 4), w, routing)
        for bias in (torch.zeros(4), torch.zeros(2, 4).double(), 1):
            self.refused(
                "invalid_spec",
                "bias",
                lambda: mc2.torch.moe_dispatch_matmul(torch.zeros(2 * RANKS, 3), w, routing, bias=bias),
            )
        experts = torch.full((4, 2), 2 * RANKS if RANK == 1 else 0)
        with self.assertRaises(mc2.Error):
            mc2.torch.moe_layer(torch.zeros(4, 3), experts, torch.ones(4, 2), w, torch.zeros(2, 4, 3))
        experts, w_down = torch.zeros(4, 2, dtype=torch.int64), torch.zeros(2, 4, 3 + RANK)
        layer = mc2.torch.moe_layer, torch.zeros(4, 3), experts, torch.ones(4, 2), w, w_down
        self.assertIn("has 4 columns on rank 1 and 3 on rank 0", self.refused("invalid_spec", "w_down", *layer))
        for counts in (["x"], None, [0.5] * 2 * RANKS, torch.ones(2 * RANKS, dtype=torch.bool)):
            self.refused("invalid_spec", "counts", mc2.torch.route, counts, w)
        self.refused("invalid_spec", "w", mc2.torch.route, good, None)
        other = mc2.torch.route, good, w.to(torch.float16 if RANK == 1 else torch.float32)
        text = self.refused("invalid_spec", "w", *other)
        self.assertIn("2 experts [3, 4] of torch.float16 and rank 0 2 experts [3, 4] of torch.float32", text)

    def test_an_activation_that_fails_makes_the_others_results_nan(self):
        x, experts = torch.ones(4, 8), torch.tensor([[0], [0], [RANKS - 1], [RANKS - 1]])

        def activation(rows):
            return rows.relu() if RANK else 1 / 0

        def layer():
            return mc2.torch.moe_layer(
                x, experts, torch.ones(4, 1), torch.ones(1, 8, 6), torch.ones(1, 6, 8), activation=activation
            )

        if RANK == 0:
            self.assertRaises(ZeroDivisionError, layer)
        else:
            self.assertEqual(layer().isnan().all(1).tolist(), [True, True, False, False])

    def test_what_is_wrong_with_a_layer_of_experts_is_named(self):
        right = {
            "x": torch.zeros(4, 3),
            "experts": torch.zeros(4, 2, dtype=torch.int64),
            "weights": torch.ones(4, 2),
            "w_up": torch.zeros(2, 3, 5),
            "w_down": torch.zeros(2, 5, 3),
        }
        mc2.torch.moe_layer(**right)
        for field, wrong in (
            ("x", None),
            ("x", torch.zeros(4, 1, 3)),
            ("x", torch.zeros(4, 3, dtype=torch.int64)),
            ("experts", [[0, 0]] * 4),
            ("experts", torch.zeros(4, 2)),  # floats, as if the weights were passed
            ("experts", torch.zeros(4, 2, dtype=torch.bool)),
            ("experts", torch.zeros(3, 2, dtype=torch.int64)),
            ("weights", torch.ones(4, 1)),
            ("weights", torch.ones(4, 2, dtype=torch.int64)),
            ("w_up", None),
            ("w_up", torch.zeros(2, 4, 5)),
            ("w_up", torch.zeros(2, 3, 5).double()),
            ("w_down", torch.zeros(5, 3)),
            ("w_down", torch.zeros(3, 5, 3)),
            ("w_down", torch.zeros(2, 4, 3)),  # has 4 rows, but w_up gives 5 columns
            ("bias_up", torch.zeros(5)),
            ("bias_down", 1),
            ("activation", lambda rows: rows[:, :2]),
            ("activation", lambda rows: None),
        ):
            name = "activation" if field == "w_down" and wrong.shape == (2, 4, 3) else field
            with self.subTest(field, wrong=wrong):
                self.refused("invalid_spec", name, mc2.torch.moe_layer, **{**right, field: wrong})
        no_grad = torch.no_grad()(mc2.torch.moe_layer)
        for wrong in (0, True, "512", 2.5):
            self.refused("invalid_spec", "max_rows", no_grad, **right, max_rows=wrong)
        routing = mc2.torch.route([1] * 2 * RANKS, right["w_up"])
        rows = torch.zeros(2 * RANKS, 3)
        dispatch, combine = mc2.torch.moe_dispatch_matmul, mc2.torch.moe_matmul_combine
        self.refused("invalid_spec", "routing", dispatch, rows, right["w_up"], None)
        self.refused("invalid_spec", "x", dispatch, None, right["w_up"], routing)
        self.refused("invalid_spec", "w", dispatch, rows, None, routing)
        self.refused("invalid_spec", "y", combine, rows[:1], right["w_down"], routing)

    def test_what_is_wrong_is_named(self):
        x, w = matrices("matmul_all_reduce")
        call = mc2.torch.matmul_all_reduce
        self.refused("invalid_spec", "w", call, x, w.double())
        self.refused("invalid_spec", "w", call, x, w[:-1])
        self.refused("invalid_spec", "x", call, x.long(), w.long())
        self.refused("invalid_spec", "x", call, x[0], w)
        self.refused("invalid_spec", "x", call, x[:, :0], w[:0])
        self.refused("invalid_spec", "x", call, x.view(-1, 2, K)[:, :0], w)
        self.refused("invalid_spec", "w", call, x, [1])
        self.refused("invalid_spec", "w", call, x, w.to("meta"))
        self.refused("invalid_spec", "bias", call, x, w, bias=torch.ones(N + 1))
        self.refused("invalid_spec", "residual", call, x, w, residual=torch.ones(N))
        self.refused("invalid_spec", "residual", call, x, w, residual=torch.ones(M, N).double())
        normed = mc2.torch.matmul_all_reduce_rms_norm
        self.refused("invalid_spec", "norm_weight", normed, x, w, None)
        self.refused("invalid_spec", "norm_weight", normed, x, w, torch.ones(N + 1))
        for epsilon in (0, -1, float("nan"), float("inf"), "x"):
            self.refused("invalid_spec", "epsilon", normed, x, w, torch.ones(N), epsilon=epsilon)
        self.refused("invalid_spec", "group", call, x, w, "no such group")
        self.refused("invalid_spec", "group", call, x, w, 17)
        self.refused("invalid_spec", "x", mc2.torch.matmul_reduce_scatter, x[: M - 1], w)
        self.refused("unsupported", "w", call, x, w.to_sparse())
        self.refused("invalid_spec", "in_features", mc2.torch.RowParallelLinear, 7 * RANKS + 1, 4)
        self.refused("invalid_spec", "in_features", mc2.torch.RowParallelLinear, "a", 8)
        self.refused("invalid_spec", "out_features", mc2.torch.RowParallelLinear, RANKS, -8)
        self.refused("invalid_spec", "linear", mc2.torch.RowParallelLinear.from_linear, torch.nn.ReLU())
        self.refused("unknown_name", "kind", mc2.torch.tune, "matmul", m=M, n=N, k=K)

    def test_what_cannot_be_tuned_is_named(self):
        def refused(code, field, **change):
            words = {"kind": "matmul_all_reduce", "m": M, "n": N, "k": K, "dtype": torch.float32, **change}
            return self.refused(code, field, mc2.torch.tune, words.pop("kind"), **words)

        refused("unsupported", "dtype", dtype=torch.float64)
        refused("unsupported", "dtype", dtype="f32")
        if torch.__version__ < "2":
            refused("unsupported", "dtype", dtype=torch.bfloat16)  # this gloo does not exchange it
        refused("unsupported", "m", m=1)
        refused("invalid_spec", "m", m=0)
        refused("invalid_spec", "tables", tables=(2, 3))
        refused("invalid_spec", "tables", kind="embedding_all_to_all")
        refused("invalid_spec", "experts", experts=(2, 3))
        refused("invalid_spec", "experts", kind="grouped_matmul_all_reduce")
        for device in ("foo", "meta", "cuda:99", 2.5) + (("cuda",) if not torch.cuda.is_available() else ()):
            refused("invalid_spec", "device", device=device)
        refused("invalid_spec", "rounds", rounds=0)
        refused("invalid_spec", "race_rounds", race_rounds=2.5)

    def test_ranks_that_tune_something_else_are_told_of_it(self):
        for field, values in (
            ("m", (M, 2 * M)),
            ("dtype", (torch.float32, torch.float16)),
            ("rounds", (3, 4)),
            ("device", ("cpu", "'foo', which is no CPU or GPU")),
            ("kind", ("matmul_all_reduce", "matmul")),
        ):
            words = {"kind": "matmul_all_reduce", "m": M, "n": N, "k": K, "dtype": torch.float32}
            words[field] = "foo" if field == "device" and RANK else values[RANK != 0]
            text = self.refused("mismatch", field, mc2.torch.tune, words.pop("kind"), **words)
            self.assertIn(f"is {values[1]} on rank 1 and {values[0]} on rank 0", text)
        words = {"m": M // RANKS, "n": N, "k": K + RANK, "dtype": torch.float32}
        self.refused("mismatch", "k", mc2.torch.tune, "all_gather_matmul", **words)
        words["tables"] = mc2.EmbeddingTables(TABLES, TABLE_ROWS)
        self.refused("mismatch", "k", mc2.torch.tune, "embedding_all_to_all", **words)

    def test_ranks_that_call_with_other_shapes_are_told_of_it(self):
        x, w = matrices("matmul_all_reduce")
        self.refused("mismatch", "x", mc2.torch.matmul_all_reduce, x[: M - 3 * RANK], w)

    def test_ranks_that_call_different_operators_are_told_of_it(self):
        x, w = matrices("matmul_all_reduce")
        choice = (torch.zeros(8, 1, dtype=torch.int64), torch.ones(8, 1))
        layer = (torch.ones(8, 4), *choice, torch.ones(1, 4, 6), torch.ones(1, 6, 4))
        calls = [(mc2.torch.moe_layer, *layer), (mc2.torch.matmul_all_reduce, x, w)]
        for own in (calls, calls[::-1]):
            text = self.refused("mismatch", "x", *own[RANK != 0])
            self.assertIn("calls a mixture of experts", text)
            self.assertIn("calls an operator that is planned", text)

    def test_ranks_with_another_k_are_told_of_it_where_all_have_one(self):
        for kind in ("all_gather_matmul", "all_to_all_matmul"):
            x, w = matrices(kind)
            mine = K - (RANK != 0)
            with self.subTest(kind):
                self.refused("mismatch", "x", getattr(mc2.torch, kind), x[:, :mine], w[:mine])
        layer = mc2.torch.ColumnParallelLinear(8 + RANK, 2 * RANKS, is_sequence_parallel=True)
        self.refused("mismatch", "x", layer, torch.ones(4, 8 + RANK))

    def test_ranks_that_call_with_other_epilogues_are_told_of_it(self):
        x, w = matrices("matmul_all_reduce")
        self.refused(
            "mismatch", "x", mc2.torch.matmul_all_reduce, x, w, residual=torch.ones(M, N) if RANK == 0 else None
        )
        self.refused("mismatch", "x", mc2.torch.matmul_all_reduce, x, w, bias=torch.ones(N) if RANK else None)

    def test_ranks_may_lay_out_their_weights_differently(self):
        for kind in KINDS:
            x, w = matrices(kind)
            expected = oracle(kind, x, w)
            for layout in (w, w.t().contiguous().t() if RANK else w):
                self.assert_near(getattr(mc2.torch, kind)(x, layout), expected)

    def test_uneven_shares_of_k_run_by_rank_0s_plan(self):
        if RANK == 0:
            fuse("matmul_all_reduce", [100, M - 100])
        x, w = matrices("matmul_all_reduce")
        mine = K - 4 * (RANK != 0)
        found = mc2.torch.matmul_all_reduce(x[:, :mine], w[:mine])
        self.assertEqual(chosen(), [[100, M - 100]])
        total = (x[:, :mine] @ w[:mine]).double()
        dist.all_reduce(total)
        self.assert_near(found, total)

    def test_without_a_plan_there_is_one_warning_and_the_unfused_result(self):
        x, w = matrices("matmul_all_reduce")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for m in (M, M, M - 1):
                self.assert_near(mc2.torch.matmul_all_reduce(x[:m], w), oracle("matmul_all_reduce", x[:m], w))
        # Only rank 0 warns, because only rank 0 looks for plans.
        self.assertEqual([str(w.message)[:10] for w in caught if "mc2" in str(w.message)], ["mc2.torch:"] * (RANK == 0))
        self.assertTrue(RANK != 0 or "tune" in str(caught[0].message))
        self.assertTrue(RANK != 0 or caught[0].filename == __file__, "the warning names the caller's line")

    def test_few_rows_are_not_cut_and_nobody_is_warned(self):
        x, w = matrices("matmul_all_reduce")
        mc2.torch.matmul_all_reduce(x[:3], w)
        self.assertEqual(chosen(), [])

    def test_tuning_keeps_the_faster_one_for_all_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/store.db"
            for kind in ("matmul_all_reduce", "all_gather_matmul", "embedding_all_to_all"):
                tables = mc2.EmbeddingTables(4, 100) if kind == "embedding_all_to_all" else None
                tuned = mc2.torch.tune(
                    kind,
                    m=512 * RANKS,
                    n=64,
                    k=64,
                    dtype=torch.float32,
                    rounds=3,
                    race_rounds=5,
                    store=path if RANK == 0 else "",
                    tables=tables,
                )
                digests = everyones(torch.frombuffer(bytearray(bytes.fromhex(tuned.plan.digest)), dtype=torch.uint8))
                self.assertTrue(all(torch.equal(digest, digests[0]) for digest in digests))
                self.assertEqual(
                    tuned.is_fused, tuned.plan.validation is not None and tuned.plan.validation.benefit_low > 0
                )
                self.assertEqual(tuned.captured_plan, tuned.plan, "a CPU has no graphs")
                if RANK == 0:
                    with mc2.Store(path) as store:
                        self.assertEqual(store.find_plan(tuned.plan.op, tuned.plan.fingerprint).plan, tuned.plan)
                        self.assertGreater(store.stats()["samples"], 0)

    def test_idle_time_is_used_for_what_was_called_untuned(self):
        calls = [("matmul_all_reduce", 512 * RANKS), ("all_gather_matmul", 512)]
        for kind, m in calls:
            getattr(mc2.torch, kind)(torch.ones(m, 64), torch.ones(64, 64))
        self.assertEqual(mc2.torch.tune_seen(0), [])
        problems = _plans.untuned(_groups.resolve(None))
        self.assertEqual([problem.m for problem in problems], [512 * RANKS] * 2)
        mc2.torch.tune_seen(60)  # on a busy host one may fail; it is not tried again
        self.assertEqual(_plans.untuned(_groups.resolve(None)), [])
        counts = everyones(torch.tensor([len(_plans._plans)]))
        self.assertEqual(len({int(count) for count in counts}), 1)

    def test_calls_of_a_kept_plan_count_as_tuned(self):
        fuse("matmul_all_reduce", [200, M - 200])
        x, w = matrices("matmul_all_reduce")
        mc2.torch.matmul_all_reduce(x, w)
        self.assertEqual(_plans.untuned(_groups.resolve(None)), [])

    def test_a_store_that_is_missing_hides_no_plan_of_this_process(self):
        fuse("matmul_all_reduce", [200, M - 200])
        _plans.settings.store = "/nowhere/store.db"
        x, w = matrices("matmul_all_reduce")
        mc2.torch.matmul_all_reduce(x, w)
        self.assertEqual(chosen(), [[200, M - 200]])

    def test_a_store_named_wrongly_is_told_before_anything_is_measured(self):
        shape = {"m": 512 * RANKS, "n": 64, "k": 64, "dtype": torch.float32}
        for store in ("/proc/nowhere/store.db", 5):
            text = self.refused(
                "invalid_spec", "store", lambda: mc2.torch.tune("matmul_all_reduce", **shape, store=store)
            )
            self.assertIn("rank 0: ", text)
        self.assertEqual(len(_plans._plans), 0)
        self.refused("invalid_spec", "m", lambda: mc2.torch.tune("matmul_all_reduce", **{**shape, "m": "512"}))
        for seconds in (math.nan, -1, "60"):
            self.refused("invalid_spec", "seconds", mc2.torch.tune_seen, seconds if RANK == 0 else 60)
        own_k = {**shape, "k": 0 if RANK == 1 else 64}
        if RANKS > 1:  # a rank's share, which may differ, so that one rank alone may be wrong
            self.refused("invalid_spec", "k", lambda: mc2.torch.tune("matmul_all_reduce", **own_k))

    def test_a_store_that_cannot_be_written_costs_only_what_it_would_keep(self):
        _plans.settings.store = "/proc/nowhere/store.db"
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tuned = mc2.torch.tune(
                "matmul_all_reduce",
                m=512 * RANKS,
                n=64,
                k=64,
                dtype=torch.float32,
                rounds=3,
                race_rounds=5,
            )
        self.assertEqual(next(iter(_plans._plans.values())), tuned.plan)
        self.assertEqual(
            ["kept in this process only" in str(w.message) for w in caught if "mc2" in str(w.message)],
            [True] * (RANK == 0),
        )

    def test_a_plan_too_long_to_agree_on_leaves_the_unfused_calls(self):
        fuse("matmul_all_reduce", [200, M - 200])
        original = _plans._OFFER_BYTES
        self.addCleanup(setattr, _plans, "_OFFER_BYTES", original)
        (problem, calls), plan = next(iter(_plans._plans.items()))
        _plans._plans[problem, calls] = plan.with_variant(mc2.Variant("x" * original))
        x, w = matrices("matmul_all_reduce")
        self.assert_near(mc2.torch.matmul_all_reduce(x, w), oracle("matmul_all_reduce", x, w))
        self.assertEqual(chosen(), [])

    def test_a_kept_plan_and_a_kept_model_are_used(self):
        with tempfile.TemporaryDirectory() as folder:
            fuse("matmul_all_reduce", [200, M - 200])
            if RANK == 0:
                with mc2.Store(folder + "/store.db") as store:
                    for plan in _plans._plans.values():
                        store.put_plan(plan)
                    for model in _plans._models.values():
                        store.put_model(model)
            mc2.torch.forget()
            _plans.settings.store = folder + "/store.db"
            x, w = matrices("matmul_all_reduce")
            self.assert_near(mc2.torch.matmul_all_reduce(x, w), oracle("matmul_all_reduce", x, w))
            self.assertEqual(chosen(), [[200, M - 200]])
            # Another m is planned from the model, with the same plan on all ranks.
            x, w = matrices("matmul_all_reduce", m=8 * M)
            self.assert_near(mc2.torch.matmul_all_reduce(x, w), oracle("matmul_all_reduce", x, w))
            counts = everyones(torch.tensor([sum(len(blocks) for blocks in chosen())]))
            self.assertEqual(len({int(count) for count in counts}), 1)

    def test_a_store_that_cannot_be_read_and_a_dead_service_leave_the_unfused_calls(self):
        with tempfile.NamedTemporaryFile() as broken:
            broken.write(b"no database at all" * 100)
            broken.flush()
            # A package made by bundle.sh has no mc2._client; the warning then names this module.
            place = "127.0.0.1" if importlib.util.find_spec("mc2._client") else "mc2._client"
            for store, server, word in ((broken.name, "", "database"), ("", "http://127.0.0.1:1", place)):
                mc2.torch.forget()
                _plans.settings.store, _plans.settings.server = store, server
                x, w = matrices("matmul_all_reduce")
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    self.assert_near(mc2.torch.matmul_all_reduce(x, w), oracle("matmul_all_reduce", x, w))
                self.assertTrue(RANK != 0 or word in str(caught[0].message), [str(w.message) for w in caught])
        _plans.settings.server = ""

    def test_what_is_forgotten_keeps_no_group(self):
        group = dist.new_group()
        x, w = matrices("matmul_all_reduce")
        mc2.torch.matmul_all_reduce(x, w, group=group)
        mc2.torch.tune(
            "matmul_all_reduce", m=M, n=N, k=K, dtype=torch.float32, group=group, device="cpu", rounds=3, race_rounds=3
        )
        gone = weakref.ref(group)
        dist.destroy_process_group(group)
        del group
        mc2.torch.forget()
        gc.collect()
        self.assertIsNone(gone())

    def test_disabled_everything_is_unfused(self):
        fuse("matmul_all_reduce", [200, M - 200])
        _plans.settings.is_disabled = True
        x, w = matrices("matmul_all_reduce")
        self.assert_near(mc2.torch.matmul_all_reduce(x, w), oracle("matmul_all_reduce", x, w))
        self.assertEqual(chosen(), [])

    def test_fake_tensors_have_the_real_ones_shapes(self):
        for kind in KINDS:
            x, w = matrices(kind)
            name = _groups.resolve(None).name
            fake = getattr(torch.ops.mc2, kind)(x.to("meta"), w.to("meta"), None, name)
            with self.subTest(kind):
                self.assertEqual(fake.shape, getattr(mc2.torch, kind)(x, w).shape)
        indices, offsets = bags(torch.int64)
        tables = torch.ones(TABLES, TABLE_ROWS, 4)
        fake = torch.ops.mc2.embedding_all_to_all(
            tables.to("meta"), indices.to("meta"), offsets.to("meta"), "sum", False, 0, name
        )
        self.assertEqual(fake.shape, mc2.torch.embedding_all_to_all(indices, tables, offsets).shape)

    def test_compiled_functions_give_the_eager_ones_results(self):
        if not hasattr(torch, "compile"):
            self.skipTest("PyTorch 1.13 has no torch.compile")
        fuse("matmul_all_reduce", [200, M - 200])
        x, w = (t.requires_grad_() for t in matrices("matmul_all_reduce"))
        function = torch.compile(
            lambda a, b: torch.relu(mc2.torch.matmul_all_reduce(a, b)), fullgraph=True, backend="aot_eager"
        )
        function(x, w).sum().backward()
        compiled = x.grad.clone(), w.grad.clone()
        x.grad = w.grad = None
        torch.relu(mc2.torch.matmul_all_reduce(x, w)).sum().backward()
        torch.testing.assert_close(compiled, (x.grad, w.grad))

    def test_compiled_mixtures_of_experts_give_the_eager_ones_results(self):
        if not hasattr(torch, "compile"):
            self.skipTest("PyTorch 1.13 has no torch.compile")
        layer = lambda *operands: mc2.torch.moe_layer(*operands) + 1
        compiled = torch.compile(layer, backend="eager")
        for seed in range(2):  # each call has another number of rows
            of_ranks, w_up, w_down = self.routed(3, 2, seed, tokens=20 + seed)
            own = slice(RANK * 3, (RANK + 1) * 3)
            operands = [*of_ranks[RANK].values(), w_up[own], w_down[own]]
            torch.testing.assert_close(compiled(*operands), layer(*operands))

    def test_compiled_epilogues_give_the_eager_ones_results(self):
        if not hasattr(torch, "compile"):
            self.skipTest("PyTorch 1.13 has no torch.compile")
        fuse("matmul_all_reduce", [200, M - 200])
        weight, residual = torch.rand(N), torch.rand(M // 2, 2, N)

        def function(x, w, weight, residual):
            y, normed = mc2.torch.matmul_all_reduce_rms_norm(x, w, weight, residual=residual)
            return (normed + mc2.torch.matmul_all_reduce(x, w, residual=y)).sum()

        gradients = []
        for run in (torch.compile(function, fullgraph=True, backend="aot_eager"), function):
            x, w = matrices("matmul_all_reduce")
            leaves = [t.clone().requires_grad_() for t in (x.view(-1, 2, K), w, weight, residual)]
            run(*leaves).backward()
            gradients.append([leaf.grad for leaf in leaves])
        torch.testing.assert_close(*gradients)

    def test_another_implementation_that_won_its_race_is_run(self):
        kind = "matmul_reduce_scatter"
        fuse(kind, [cut_axis(kind)])
        (problem, _), plan = next(iter(_plans._plans.items()))
        _plans.keep(problem, _plans._models[_plans.model_key(problem)], plan.with_variant(mc2.Variant(_symmetric.NAME)))
        calls, original = [], _symmetric.operator
        self.addCleanup(setattr, _symmetric, "operator", original)
        _symmetric.operator = lambda kind, group: lambda x, w, rows=None: calls.append(kind) or _passes.unfused(
            kind, group, x, w
        )
        x, w = matrices(kind)
        self.assert_near(mc2.torch.matmul_reduce_scatter(x, w), oracle(kind, x, w))
        self.assertEqual(calls, [kind])
        _symmetric.operator = lambda kind, group: None  # the plan was kept by another PyTorch
        self.assert_near(mc2.torch.matmul_reduce_scatter(x, w), oracle(kind, x, w))

    def test_it_races_where_every_rank_has_it(self):
        original = _symmetric.operator
        self.addCleanup(setattr, _symmetric, "operator", original)
        problem = _plans.Problem(
            "all_gather_matmul", _groups.resolve(None), torch.device("cpu"), torch.float32, M, N, K
        )
        fuse(problem.kind, [cut_axis(problem.kind)])
        calls, model = tuning._Calls(problem), _plans._models[_plans.model_key(problem)]
        works = lambda kind, group: lambda x, w, rows=None: _passes.unfused(kind, group, x, w)  # noqa: E731
        for operator, count in ((works, 1), (works if RANK else lambda *_: None, 0)):
            _symmetric.operator = operator

            def body(benches):
                rivals = benches[0].rivals(model)
                races = [mc2.race_on(benches[0], rivals, rounds=6)] if rivals else []
                return json.dumps([len(rivals), [race.round_count for race in races]])

            text = _together.lead(problem.group, torch.device("cpu"), [tuning._PassSteps(calls)], body)
            self.assertEqual(json.loads(text), [count, [6] * count])

    def test_the_last_choice_is_the_same_on_all_ranks(self):
        problem = _plans.Problem(
            "matmul_all_reduce", _groups.resolve(None), torch.device("cpu"), torch.float32, M, N, K
        )
        fuse(problem.kind, [cut_axis(problem.kind)])
        calls, model = tuning._Calls(problem), _plans._models[_plans.model_key(problem)]
        uncut, halves, thirds = (
            mc2.predict(calls.op, model, blocks) for blocks in ([M], [M // 2] * 2, [M // 4, M // 4, M // 2])
        )
        quick = tuning._Candidate(halves, lambda: None)
        slow = tuning._Candidate(thirds, lambda: time.sleep(0.05), " somewhere else")
        found = tuning._fastest(calls, [slow, quick], uncut, _groups.EAGER, 6)
        self.assertEqual(found.blocks, halves.blocks)
        self.assertGreater(found.validation.benefit_low, 0)
        self.assertEqual(found.fingerprint, problem.fingerprint())
        self.assertIn("somewhere else", found.reason)
        nobody = tuning._fastest(calls, [slow], uncut, _groups.EAGER, 6)
        self.assertEqual((nobody.blocks, nobody.validation), ([M], None))
        for plan in (found, nobody):
            digests = everyones(torch.frombuffer(bytearray(bytes.fromhex(plan.digest)), dtype=torch.uint8))
            self.assertTrue(all(torch.equal(digest, digests[0]) for digest in digests))

    def test_what_fails_on_one_rank_fails_on_all(self):
        problem = _plans.Problem(
            "matmul_all_reduce", _groups.resolve(None), torch.device("cpu"), torch.float32, M, N, K
        )

        class Failing(tuning._PassSteps):
            def verify(self, number):
                if RANK == RANKS - 1:
                    raise mc2.Error("mismatch", "plan", "rank is wrong")

        steps = Failing(tuning._Calls(problem))
        uncut = mc2._core.unpredicted(steps.op, steps.fingerprint, [M], steps.variants[0])
        for is_inferring, body in (
            (False, lambda benches: mc2.tune_on(benches[0], max_count=3, race_rounds=6).plan.to_json()),
            (True, lambda benches: benches[0].verify(uncut)),
        ):
            with torch.inference_mode(is_inferring), self.assertRaises(mc2.Error) as caught:
                _together.lead(problem.group, torch.device("cpu"), [steps], body)
            self.assertEqual((caught.exception.code, str(caught.exception)), ("mismatch", "plan: rank is wrong"))

        class Broken(Failing):
            def verify(self, number):
                if RANK == RANKS - 1:
                    raise RuntimeError("a library failed")

        with self.assertRaisesRegex(mc2.NativeError, "a library failed"):
            _together.lead(problem.group, torch.device("cpu"), [Broken(tuning._Calls(problem))], body)

    def test_subgroups_have_plans_of_their_own(self):
        pair = dist.new_group([0, 1])
        x, w = matrices("matmul_all_reduce")
        if RANK < 2:
            total = (x @ w).double()
            dist.all_reduce(total, group=pair)
            self.assert_near(mc2.torch.matmul_all_reduce(x, w, pair), total)
        else:
            self.refused("invalid_spec", "group", mc2.torch.matmul_all_reduce, x, w, pair)
        alone = [dist.new_group([rank]) for rank in range(RANKS)][RANK]
        self.assert_near(mc2.torch.matmul_all_reduce(x, w, alone), (x @ w).double())


starts_jobs = unittest.skipUnless(
    torch is not None and RANK < 0 and dist.is_available(), "python3-torch is not installed, or this is a rank"
)


class Jobs(unittest.TestCase):
    SCRIPT = __file__  # every rank runs this file's tests

    def run_job(self, ranks, *arguments, **variables):
        with tempfile.TemporaryDirectory() as folder:
            environment = {
                **os.environ,
                "MC2_TEST_RANKS": str(ranks),
                "MC2_TEST_MEETING": folder + "/meeting",
                "OMP_NUM_THREADS": "1",
                "GLOO_SOCKET_IFNAME": "lo",
                **variables,
            }
            processes = [
                subprocess.Popen(
                    [sys.executable, self.SCRIPT, *arguments],
                    env={**environment, "MC2_TEST_RANK": str(rank)},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
                for rank in range(ranks)
            ]
            outputs = [process.communicate(timeout=100)[0] for process in processes]
        for rank, (process, output) in enumerate(zip(processes, outputs)):
            self.assertEqual(process.returncode, 0, f"rank {rank} of {ranks}:\n{output}")
            self.assertRegex(output, r"Ran [1-9]\d* test")


class TwoAndThreeRanks:
    def test_two_ranks(self):
        self.run_job(2)

    def test_three_ranks(self):
        self.run_job(3)


def run_ranks():
    """Runs the tests of the main module: in a rank of a job the ranks' tests, otherwise those that start jobs."""
    if RANK >= 0:
        dist.init_process_group(
            "gloo",
            init_method="file://" + os.environ["MC2_TEST_MEETING"],
            rank=RANK,
            world_size=RANKS,
            timeout=datetime.timedelta(seconds=60),
        )
    outcome = unittest.main(exit=False).result
    if RANK >= 0:  # ends the threads of groups before the interpreter ends
        dist.destroy_process_group()
        mc2.torch.forget()
    sys.exit(not outcome.wasSuccessful())


@starts_jobs
class JobsTest(Jobs):
    def test_two_ranks(self):
        self.run_job(2)

    def test_three_ranks(self):
        self.run_job(
            3,
            *(
                "RanksTest.test_" + name
                for name in (
                    "fused_results_are_the_oracles",
                    "gradients_are_those_of_the_whole_problem",
                    "an_mlp_trains_as_its_whole_does",
                    "ranks_that_call_with_other_shapes_are_told_of_it",
                    "ranks_with_another_k_are_told_of_it_where_all_have_one",
                    "a_rank_without_rows_is_told_of_the_others",
                    "layers_take_what_a_linear_layer_takes",
                    "subgroups_have_plans_of_their_own",
                    "a_mixture_of_experts_is_its_definition_and_so_are_its_gradients",
                    "rows_lie_by_expert_and_come_back_to_their_places",
                    "a_promise_of_rows_gives_the_same_layer_and_is_held_to_on_all_ranks",
                    "layers_that_wait_for_nothing_tell_all_ranks_of_too_many_rows",
                    "routings_that_cannot_be_are_refused_on_all_ranks",
                )
            ),
        )

    def test_without_a_job_the_group_is_named(self):
        import mc2.torch

        with self.assertRaises(mc2.Error) as caught:
            mc2.torch.matmul_all_reduce(torch.ones(2, 2), torch.ones(2, 2))
        self.assertEqual((caught.exception.code, caught.exception.field), ("invalid_spec", "group"))

    def test_variables_that_say_nothing_are_refused(self):
        for name, value in (("MC2_DISABLE", "yes"), ("MC2_LOG", "loud")):
            done = subprocess.run(
                [sys.executable, "-c", "import mc2.torch"],
                env={**os.environ, name: value},
                capture_output=True,
                text=True,
                timeout=60,
            )
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"{name}: is '{value}'", done.stderr)


if __name__ == "__main__":
    run_ranks()
