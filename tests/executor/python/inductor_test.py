"""Tests mc2.torch.inductor, in ranks on gloo: it rewrites graphs of functional collectives to operators that give the
same results."""

import pathlib
import re
import sys
import types
import unittest
import unittest.mock
import warnings

import torch_test
from torch_test import K, N, RANK, RANKS, M, fuse, torch
from values_test import Refusals

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "docs" / "examples" / "python"

if torch is not None and RANK >= 0:
    import torch.distributed as dist
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    import functional_collectives
    import mc2
    import mc2.torch
    from mc2.torch import _groups, _ops, _plans, inductor

    if hasattr(torch, "compile"):
        sys.path.insert(0, str(EXAMPLES))
        import llama

    C = functional_collectives.operators()
    functional_collectives.give_stores()
    aten = torch.ops.aten
B = 2  # the batch: the first of three dimensions


def group_name():
    return _groups.resolve(None).name


def reduced(x, how="sum"):
    return C.wait_tensor(C.all_reduce(x, how, group_name()))


def scattered(x, dim=0):
    if dim > 0:  # as torch.distributed._functional_collectives does
        x = torch.cat(torch.split(x, x.shape[dim] // RANKS, dim))
    return C.wait_tensor(C.reduce_scatter_tensor(x, "sum", RANKS, group_name()))


def gathered(x, dim=0):
    whole = C.wait_tensor(C.all_gather_into_tensor(x, RANKS, group_name()))
    return whole if dim == 0 else torch.cat(torch.split(whole, whole.shape[0] // RANKS), dim)


def exchanged(x, splits=None):
    splits = splits or [x.shape[0] // RANKS] * RANKS
    return C.wait_tensor(C.all_to_all_single(x, splits, splits, group_name()))


def linear(x, weight, bias=None):
    """The operations as which torch.nn.Linear on [..., k] is traced."""
    rows, w = x.view(-1, x.shape[-1]), weight.t()
    y = torch.mm(rows, w) if bias is None else torch.addmm(bias, rows, w)
    return y.view(*x.shape[:-1], weight.shape[0])


def random(*shape, is_same=False):
    """Returns random numbers, different on every rank or, with is_same, the same on all."""
    return torch.empty(shape).uniform_(
        -1, 1, generator=torch.Generator().manual_seed(len(shape) if is_same else 100 + RANK)
    )


def traced(function, *inputs):
    """Returns the graph of a function. Every node has the fake tensor that tells its shape."""
    module = make_fx(function)(*inputs)
    placeholders, fake = iter(inputs), FakeTensorMode()
    with _ops._below_autograd():
        for node in module.graph.nodes:
            if node.op == "placeholder":
                node.meta["val"] = fake.from_tensor(next(placeholders))
            elif node.op == "call_function":
                args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda arg: arg.meta["val"])
                with fake:
                    node.meta["val"] = node.target(*args, **kwargs)
    return module


def rewrite(module):
    with _ops._below_autograd():
        inductor.fuse(module.graph)


def operators(module):
    """Returns the names of mc2's operators in a graph."""
    return [str(node.target).split(".")[1] for node in module.graph.nodes if str(node.target).startswith("mc2.")]


class RanksTest(Refusals):
    def setUp(self):
        if RANK < 0:
            self.skipTest("runs in the ranks of a job")
        mc2.torch.forget()
        inductor._options = None
        warnings.simplefilter("error")
        fuse("matmul_all_reduce", [M // 2, M // 2])

    def fused(self, function, inputs, kinds):
        """Checks that the graph has these operators after the pass, and the same results as before."""
        for kind in {kind.replace("_rows", "") for kind in kinds}:
            axis = torch_test.cut_axis(kind)
            fuse(kind, [axis // 2, axis - axis // 2])
        module = traced(function, *inputs)
        expected = module(*inputs)
        rewrite(module)
        module.graph.lint()  # no node uses a later one
        module.recompile()
        found = module(*inputs)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        self.assertEqual(operators(module), list(kinds), inductor.report())

    def left(self, function, inputs, reason):
        """Checks that the pass leaves the graph as it is, and that the report says why."""
        module = traced(function, *inputs)
        before = str(module.graph)
        rewrite(module)
        self.assertEqual(str(module.graph), before)
        self.assertIn(reason, inductor.report())

    def test_sums_of_products(self):
        x, w = random(M, K), random(N, K)
        self.fused(lambda x, w: torch.relu(reduced(linear(x, w))), (x, w), ["matmul_all_reduce"])
        self.fused(lambda x, w: reduced(linear(x, w)) + 1, (x.reshape(B, M // B, K), w), ["matmul_all_reduce"])
        self.fused(
            lambda x, w, b: reduced(linear(x, w, b / RANKS)), (x, w, random(N, is_same=True)), ["matmul_all_reduce"]
        )
        self.fused(lambda x, w: reduced(reduced(linear(x, w))[:, :K] @ w.t()), (x, w), ["matmul_all_reduce"] * 2)

    def test_scattered_sums(self):
        x, w, b = random(M, K), random(N, K), random(N, is_same=True)
        kinds = ["matmul_reduce_scatter"]
        self.fused(lambda x, w: scattered(linear(x, w)), (x, w), kinds)
        self.fused(lambda x, w, b: scattered(linear(x, w, b / RANKS)), (x, w, b), kinds)
        self.fused(lambda x, w: scattered(linear(x, w)), (x.reshape(RANKS, M // RANKS, K), w), kinds)
        self.fused(lambda x, w, b: scattered(linear(x, w, b / RANKS), 1) * 2, (x.reshape(B, M // B, K), w, b), kinds)
        self.fused(lambda x, w: scattered(linear(x, w), 2), (x.reshape(B, 3, M // B // 3, K), w), kinds)

    def test_gathered_rows(self):
        x, w, b, other = random(M // RANKS, K), random(N, K), random(N), random(N // 2, K)
        self.fused(lambda x, w: linear(gathered(x), w), (x, w), ["all_gather_matmul"])
        self.fused(lambda x, w, b: torch.relu(linear(gathered(x), w, b)), (x, w, b), ["all_gather_matmul"])
        wide = x.reshape(B, -1, K)
        self.fused(lambda x, w: linear(gathered(x, 1), w), (wide, w), ["all_gather_matmul"])
        self.fused(lambda x, w: linear(gathered(x), w), (wide, w), ["all_gather_matmul"])

        def two(dim):
            def function(x, other, w, b):
                rows = gathered(x, dim)
                return linear(rows, other), linear(rows, w, b)

            return function

        self.fused(two(0), (x, other, w, b), ["all_gather_matmul_rows"])
        self.fused(two(1), (wide, other, w, b), ["all_gather_matmul_rows"])
        self.fused(lambda x, w: (linear(gathered(x), w), gathered(x) + 1), (x, w), ["all_gather_matmul"])

        def kept(x, w):
            rows = gathered(x, 1)
            return rows, linear(rows, w)

        self.fused(kept, (wide, w), ["all_gather_matmul_rows"])

    def test_rows_are_kept_by_unfused_calls_too(self):
        x, w = random(M // RANKS, K), random(K, N)
        warnings.simplefilter("ignore")
        y, rows = torch.ops.mc2.all_gather_matmul_rows(x, w, None, group_name())
        torch.testing.assert_close(rows, torch.cat(torch_test.everyones(x)))
        torch.testing.assert_close(y, rows @ w)

    def test_exchanges(self):
        x, w = random(M, K), random(N, K)
        self.fused(lambda x, w: exchanged(linear(x, w)), (x, w), ["matmul_all_to_all"])
        self.fused(lambda x, w: linear(exchanged(x), w), (x, w), ["all_to_all_matmul"])
        self.fused(lambda x, w: linear(exchanged(x), w), (x.reshape(RANKS, 2, -1, K), w), ["all_to_all_matmul"])

    def test_what_is_no_site_is_left_with_the_reason(self):
        x, w, b = random(M, K), random(N, K), random(N, is_same=True)
        self.left(lambda x, w: reduced(linear(x, w), "max"), (x, w), "it reduces by max; sums are fused")
        self.left(lambda x: reduced(x), (x,), "what it takes is no matmul's result")
        self.left(lambda x, w: reduced(linear(x, w) + linear(x, w)), (x, w), "it takes the sum of several matmuls")
        self.left(
            lambda x, w, b: reduced(linear(x, w, b)), (x, w, b), "adds a bias that is no share of one for all ranks"
        )

        def twice(x, w):
            y = linear(x, w)
            return reduced(y), y

        self.left(twice, (x, w), "is taken elsewhere, too")
        self.left(
            lambda x, w: scattered(linear(x, w), 1), (x, random(6 * RANKS, K)), "it scatters columns; rows are cut"
        )
        self.left(lambda x, w: linear(gathered(x, 1), w), (x, random(N, K * RANKS)), "it gathers columns; rows are cut")
        self.left(lambda x: gathered(x) + 1, (x,), "what it gathers is no matmul's left operand")
        self.left(lambda x, w: linear(gathered(x), w * 2), (x, w), "its matmul's weight is computed after it, by mul")
        splits = [M - RANKS + 1] + [1] * (RANKS - 1)
        if RANKS == 2:
            splits = [M // 2] * 2
            self.left(
                lambda x, w: torch.mm(w, exchanged(x, splits)), (x, random(N, M)), "what it takes is no matmul's result"
            )

    def test_without_a_plan_the_graph_is_the_same_and_the_shape_is_noted(self):
        mc2.torch.forget()
        self.left(
            lambda x, w: reduced(linear(x, w)), (random(M, K), random(N, K)), "mc2.torch.tune() measures this shape"
        )
        self.assertEqual([problem.kind for problem in _plans.untuned(_groups.resolve(None))], ["matmul_all_reduce"])

    def test_a_plan_not_to_cut_leaves_the_same_graph(self):
        fuse("matmul_all_reduce", [M])
        self.left(lambda x, w: reduced(linear(x, w)), (random(M, K), random(N, K)), "its plan is not to fuse")

    def test_what_collectives_take_alone_is_rank_0s_estimate_on_all(self):
        """In fuse()'s model a message of x rows takes 10 + x us, for x up to 32. A row of twice as many columns counts
        as two."""
        fuse("matmul_all_reduce", [M])
        if RANK != 0:
            _plans._models.clear()
        for rows, columns, us in ((24, N, 34), (12, 2 * N, 34), (96, N, 106), (M, N, None)):
            with self.subTest(rows=rows, columns=columns):
                module = traced(lambda x: reduced(x), random(rows, columns))
                rewrite(module)
                node = next(node for node in module.graph.nodes if "all_reduce" in str(node.target))
                found = inductor.sites()[-1].collective_us
                self.assertEqual(found is None, us is None, found)
                if us is not None:
                    self.assertAlmostEqual(found, us, delta=0.02 * us)
                    self.assertAlmostEqual(inductor.estimate_ms(node), found / 1e3)
                    self.assertAlmostEqual(
                        inductor.estimate_ms(node, 2 * 2 * rows * columns * 4), (2 * found - 11) / 1e3, delta=1e-3
                    )
                    self.assertAlmostEqual(inductor.estimate_ms(node, 0), 11 / 1e3, delta=1e-3)
        self.assertIn("its collective alone takes 106 us", inductor.report())

    def test_a_type_that_is_not_planned_has_no_estimate(self):
        fuse("matmul_all_reduce", [M])
        self.left(lambda x: reduced(x), (random(M, N).double(),), "what it takes is no matmul's result")
        self.assertIsNone(inductor.sites()[-1].collective_us)

    def test_small_gains_count_where_calls_cost_the_host_nothing(self):
        fuse("matmul_all_reduce", [M // 2, M // 2])
        (kept,) = (plan for (_, calls), plan in _plans._plans.items() if calls == _groups.EAGER)
        plan = kept.with_variant(mc2.Variant("tile_store")).with_validation(
            mc2.Validation(90, 100, (0.1, 0.05, 0.15), 5), "gains 10 us"
        )
        problem = _plans.Problem(
            "matmul_all_reduce", _groups.resolve(None), torch.device("cuda", 0), torch.bfloat16, M, N, K
        )
        for origin in ("kept", "model"):
            found = types.SimpleNamespace(plan=plan, origin=origin, source="a test")
            with unittest.mock.patch.object(_plans._native, "fault", lambda _: ""), unittest.mock.patch.object(
                _plans._native, "fingerprint", lambda _: None
            ), unittest.mock.patch.object(
                _plans._core, "find_plan", lambda *_, **options: found
            ), unittest.mock.patch.object(
                _plans, "store", lambda: self
            ), unittest.mock.patch.object(
                _plans.Problem, "fingerprint", lambda *_: None
            ):
                eager, captured = (
                    _plans.prospect(problem, _plans._layout.PLAIN, calls) for calls in (_groups.EAGER, _groups.CAPTURED)
                )
                self.assertIn("its plan gains 10 us, and a call outside a CUDA graph costs the host 50", eager.fault)
                self.assertEqual((captured.fault, captured.gain_us), ("", 10))
                natively = [_plans._found_natively(problem, self, calls) for calls in (_groups.EAGER, _groups.CAPTURED)]
                self.assertEqual(natively, [found if origin == "kept" else None, found])

    def test_what_is_disabled_estimates_nothing(self):
        fuse("matmul_all_reduce", [M])
        with unittest.mock.patch.object(_plans.settings, "is_disabled", True):
            self.left(lambda x: reduced(x), (random(24, N),), "what it takes is no matmul's result")
        self.assertIsNone(inductor.sites()[-1].collective_us)

    def test_sites_are_excluded_by_name(self):
        inputs = random(M, K), random(N, K)
        module = traced(lambda x, w: reduced(linear(x, w)), *inputs)
        product = next(node for node in module.graph.nodes if str(node.target) == "aten.mm.default")
        product.meta["nn_module_stack"] = {"1": ("L['self'].layers.0.down", object)}
        inductor._options = inductor._Options(("layers.?.down",), 5, None)
        rewrite(module)
        self.assertEqual(operators(module), [])
        self.assertEqual(
            [(site.name, site.reason) for site in inductor.sites()], [("layers.0.down", "it is excluded by name")]
        )

    def test_layers_alike_are_one_line_of_the_report(self):
        site = inductor.Site(
            "layers.0.ffn.w2", "matmul_all_reduce m=288 n=40 k=24 torch.float32 x2", True, "2 x 144", 12.0
        )
        names = ("layers.0.ffn.w2", "layers.1.ffn.w2", "layers.10.ffn.w2", "layers.1.ffn.w3", "head2")
        inductor._sites.extend(site._replace(name=name) for name in names)
        inductor._sites.append(site._replace(is_fused=False, reason="its plan is not to fuse", gain_us=0))
        lines = inductor.report().splitlines()
        self.assertIn("5 of 6 collectives fused; by their plans 60 us less", lines[0])
        self.assertEqual(
            [line.split()[:3] for line in lines[1:]],
            [
                ["3", "x", "layers.*.ffn.w2"],
                ["1", "x", "layers.*.ffn.w3"],
                ["1", "x", "head2"],
                ["1", "x", "layers.*.ffn.w2"],
            ],
        )
        self.assertIn("as it was: its plan is not to fuse", lines[4])

    def test_what_one_rank_cannot_replace_is_left_on_all(self):
        def taken_twice(x, w):
            y = linear(x, w)
            return reduced(y), y * 2

        inputs = random(M, K), random(N, K)
        module = traced(taken_twice if RANK == 1 else lambda x, w: reduced(linear(x, w)), *inputs)
        rewrite(module)
        self.assertEqual(operators(module), [])
        self.assertIn("rank 1: the matmul's result", inductor.report())
        self.assertIn("is taken elsewhere, too", inductor.report())

    def test_ranks_that_compile_nothing_keep_the_others_from_fusing(self):
        inputs = random(3 * M, K), random(N, K)
        module = traced(lambda x, w: reduced(linear(x, w)), *inputs)
        dist.barrier()
        inductor._options = inductor._Options((), 0.3, None)
        if RANK == 0:
            rewrite(module)
        dist.barrier()
        if RANK != 0:  # these ranks compile too late to change the verdict
            rewrite(module)
        self.assertEqual(operators(module), [])
        self.assertRegex(inductor.report(), r"rank 1.* of the group did not compile this graph within 0.3 s")

    def test_a_rank_that_compiles_again_by_itself_does_what_the_others_run(self):
        m = 4 * M
        fuse("matmul_all_reduce", [m // 2, m // 2], m=m)
        function, inputs = lambda x, w: reduced(linear(x, w)), (random(m, K), random(N, K))
        module, again = traced(function, *inputs), traced(function, *inputs)
        rewrite(module)
        self.assertEqual(operators(module), ["matmul_all_reduce"])
        inductor._options = inductor._Options((), 0.3, None)
        if RANK == 0:
            rewrite(again)
            self.assertEqual(operators(again), ["matmul_all_reduce"])
        dist.barrier()
        if RANK != 0:
            rewrite(again)

    def test_sites_that_feed_each_other(self):
        x, w = random(M, K), random(K, K)
        fuse("matmul_all_reduce", [M // 2, M // 2], n=K)
        self.fused(lambda x, w: reduced(torch.mm(reduced(torch.mm(x, w)), w)), (x, w), ["matmul_all_reduce"] * 2)
        fuse("matmul_reduce_scatter", [M // RANKS // 2] * 2, n=K)
        fuse("all_gather_matmul", [M // RANKS // 2] * 2, n=K)
        self.fused(
            lambda x, w: torch.mm(gathered(scattered(torch.mm(x, w))), w),
            (x, w),
            ["matmul_reduce_scatter", "all_gather_matmul"],
        )
        self.fused(lambda x, w: scattered(torch.mm(gathered(x), w)), (random(M // RANKS, K), w), ["all_gather_matmul"])
        self.assertIn("its matmul is fused with all_gather_into_tensor", inductor.report())

    def test_columns_that_differ_by_rank_are_left(self):
        x, w = random(M // RANKS, K), random(N - RANK, K)
        fuse("all_gather_matmul", [M // RANKS // 2] * 2)
        self.left(
            lambda x, w: linear(gathered(x), w),
            (x, w),
            "rank 1 has all_gather_matmul m=288 n=39 dim=0, rank 0 all_gather_matmul m=288 n=40 dim=0",
        )

    def test_gradients_of_weights_are_left(self):
        self.left(
            lambda x, w: reduced(torch.mm(x.t(), w)), (random(M, K), random(M, N)), "it sums gradients of a weight"
        )

    def test_what_fails_on_one_rank_is_left_on_all_at_once(self):
        def failing(*_):
            raise ValueError("no plan today")

        inputs = random(M, K), random(N, K)
        with unittest.mock.patch.object(_plans, "prospect", failing):
            self.left(lambda x, w: reduced(linear(x, w)), inputs, "its plan could not be looked up: no plan today")

    def test_nothing_is_summed_as_without_mc2(self):
        y = torch.ops.mc2.matmul_all_reduce(torch.empty(0, K), random(K, N), None, group_name())
        self.assertEqual(tuple(y.shape), (0, N))

    def test_the_same_graph_compiled_again_is_judged_anew(self):
        function, inputs = lambda x, w: reduced(linear(x, w)), (random(M, K), random(N, K))
        for blocks, kinds in (([M], []), ([M // 2, M // 2], ["matmul_all_reduce"]), ([M], [])):
            fuse("matmul_all_reduce", blocks)
            module = traced(function, *inputs)
            rewrite(module)
            self.assertEqual(operators(module), kinds)

    def test_groups_are_told_apart_and_a_foreign_collective_stays(self):
        handle = dist.new_group([0, 1])
        if RANK > 1:
            return
        pair = _groups.resolve(handle)
        fuse("matmul_all_reduce", [M // 2, M // 2], group=handle)

        def function(x, w):
            y = C.wait_tensor(C.all_reduce(linear(x, w), "sum", pair.name))
            return C.wait_tensor(C.broadcast(y, 0, pair.name))

        module = traced(function, random(M, K), random(N, K))
        rewrite(module)
        self.assertIn("broadcast", str(module.graph))
        self.assertEqual(operators(module), ["matmul_all_reduce"], inductor.report())

    def test_what_is_wrong_is_named(self):
        if hasattr(torch, "compile"):
            self.refused("invalid_spec", "exclude", inductor.enable, exclude=[1])
            self.refused("invalid_spec", "wait_s", inductor.enable, wait_s=0)
        else:
            self.refused("unsupported", "torch", inductor.enable)


WIDTH, HEADS, HIDDEN, VOCABULARY = 64, 4, 128, 96


if torch:
    HEADER_FOLDERS = (pathlib.Path(torch.__file__).parent / "include", pathlib.Path("/usr/include"))


class CompiledTest(unittest.TestCase):
    """Compares an unmodified model under torch.compile with the same model uncompiled."""

    mesh = None

    def setUp(self):
        if RANK < 0 or RANKS != 2:
            self.skipTest("runs in the ranks of a job of two")
        if not hasattr(torch, "compile") or not hasattr(dist, "device_mesh"):
            self.skipTest(f"PyTorch {torch.__version__} compiles no tensor-parallel models")
        if not any((folder / "ATen").is_dir() for folder in HEADER_FOLDERS):
            self.skipTest("PyTorch's C++ headers are missing (libtorch-dev); Inductor compiles for CPUs with them")
        mc2.torch.forget()
        warnings.simplefilter("default")
        if CompiledTest.mesh is None:  # all tests share it: PyTorch takes equal meshes for the same one
            CompiledTest.mesh = dist.device_mesh.init_device_mesh("cpu", (RANKS,))
        self.group = self.mesh.get_group()
        inductor.enable(wait_s=120)
        self.addCleanup(inductor.disable)

    def plan(self, *shapes, cut=True):
        for kind, n, k in shapes:
            axis = torch_test.cut_axis(kind)
            fuse(kind, [axis // 2, axis - axis // 2] if cut else [axis], n=n, k=k, group=self.group)

    def plan_all(self, cut=True):
        share = WIDTH // RANKS
        sums = [(n, k) for n in (WIDTH,) for k in (share, HIDDEN // RANKS)]
        self.plan(
            *(("matmul_all_reduce", n, k) for n, k in sums),
            *(("matmul_reduce_scatter", n, k) for n, k in sums),
            cut=cut,
        )
        self.plan(*(("all_gather_matmul", n, WIDTH) for n in (share, HIDDEN // RANKS, VOCABULARY // RANKS)), cut=cut)
        self.plan(
            ("matmul_reduce_scatter", WIDTH, VOCABULARY // RANKS),
            *(("all_gather_matmul", k, WIDTH) for k in (share, HIDDEN // RANKS)),
            cut=cut,
        )

    def model(self, shard, bias=False, layers=2):
        torch.manual_seed(1)
        return shard(llama.Llama(layers, WIDTH, HEADS, HIDDEN, VOCABULARY, bias), self.mesh)

    def input(self, shard, batch=2, m=M):
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor

        torch.manual_seed(2)
        x = torch.randn(batch, m // batch, WIDTH)
        return x if shard is llama.shard else distribute_tensor(x, self.mesh, [Shard(1)])

    def compiled(self, model, **options):
        torch._dynamo.reset()
        inductor.forget()
        return torch.compile(model, **options)

    def code(self, model, x):
        from torch._inductor.utils import run_and_get_code

        with torch.no_grad():
            _, code = run_and_get_code(self.compiled(model), x)
        return re.sub(r"AOT ID: \['\d+", "AOT ID: ['", "".join(code))  # the number counts graphs

    def assert_fused(self, names):
        self.assertEqual([site.name for site in inductor.sites() if site.is_fused], names, inductor.report())

    def test_forward(self):
        self.plan_all()
        for shard, names in (
            (llama.shard, ("attention.wo", "ffn.w2")),
            (llama.shard_sequence, ("attention.wq", "attention.wo", "ffn.w1", "ffn.w2")),
        ):
            for bias in (False, True):
                for batch in (1, 2):
                    with self.subTest(shard.__name__, bias=bias, batch=batch), torch.no_grad():
                        model, x = self.model(shard, bias), self.input(shard, batch)
                        expected = model(x)
                        torch.testing.assert_close(self.compiled(model)(x), expected, rtol=1e-4, atol=1e-5)
                        ends = ["head"] if shard is llama.shard_sequence else []
                        self.assert_fused([f"layers.{i}.{name}" for i in range(2) for name in names] + ends)

    def test_training(self):
        self.plan_all()
        for shard, count in ((llama.shard, 2 + 5), (llama.shard_sequence, 5 + 3)):
            with self.subTest(shard.__name__):
                gradients = []
                for run in (lambda model: model, self.compiled):
                    model, x = self.model(shard, layers=1), self.input(shard)
                    run(model)(x).square().mean().backward()
                    gradients.append(
                        [
                            parameter.grad.to_local() if hasattr(parameter.grad, "to_local") else parameter.grad
                            for parameter in model.parameters()
                        ]
                    )
                torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-3, atol=1e-6)
                fused = [site for site in inductor.sites() if site.is_fused]
                self.assertEqual(len(fused), count, inductor.report())
                self.assertTrue(any(site.name.endswith("(backward)") for site in fused), inductor.report())

    def test_lengths_that_change(self):
        self.plan_all()
        model = self.model(llama.shard)
        compiled = self.compiled(model, dynamic=True)
        with torch.no_grad():
            for m in (M, 2 * M, 128, 96):
                x = self.input(llama.shard, m=m)
                torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
        self.assert_fused([f"layers.{i}.{name}" for i in range(2) for name in ("attention.wo", "ffn.w2")])
        self.assertIn("(dynamic)", inductor.report())

    def test_the_generated_code_is_the_same_where_nothing_pays(self):
        model, x = self.model(llama.shard), self.input(llama.shard)
        inductor.disable()
        without = self.code(model, x)
        inductor.enable(wait_s=120)
        self.plan_all(cut=False)
        self.assertEqual(self.code(model, x), without)
        self.assert_fused([])
        self.plan_all()
        self.assertIn("mc2.matmul_all_reduce", self.code(model, x))
        inductor.disable()
        self.assertEqual(self.code(model, x), without)

    def test_the_overlap_scheduler_is_given_estimates(self):
        import torch._inductor.config as config

        options = config.aten_distributed_optimizations
        self.assertIs(options.custom_runtime_estimation, inductor.estimate_ms)
        asked = []

        def recorded(node, size_bytes=None):
            asked.append((str(node.target), inductor.estimate_ms(node, size_bytes)))
            return asked[-1][1]

        self.plan_all()
        inductor.enable(exclude=["*"], wait_s=120)
        for shard, name in ((llama.shard, "all_reduce"), (llama.shard_sequence, "all_gather_into_tensor")):
            model, x = self.model(shard), self.input(shard, m=96)  # rows within the range of fuse()'s models
            with torch.no_grad(), config.patch(
                {
                    "aten_distributed_optimizations.enable_overlap_scheduling": True,
                    "aten_distributed_optimizations.custom_runtime_estimation": recorded,
                }
            ):
                torch.testing.assert_close(self.compiled(model)(x), model(x), rtol=1e-4, atol=1e-5)
            times = [ms for target, ms in asked if name in target]
            self.assertTrue(times and None not in times, asked)
        self.assertTrue(any(ms is not None for target, ms in asked if target.startswith("aten.")), asked)
        inductor.disable()
        self.assertIsNone(options.custom_runtime_estimation)
        options.custom_runtime_estimation = recorded
        self.addCleanup(setattr, options, "custom_runtime_estimation", None)
        inductor.enable(wait_s=120)
        self.assertIs(options.custom_runtime_estimation, recorded)  # another program's setting is kept
        inductor.disable()
        self.assertIs(options.custom_runtime_estimation, recorded)

    def test_what_is_met_untuned_is_noted(self):
        model, x = self.model(llama.shard), self.input(llama.shard)
        with torch.no_grad():
            self.compiled(model)(x)
            self.assert_fused([])
            untuned = _plans.untuned(_groups.resolve(self.group))
            self.assertEqual(
                {(problem.kind, problem.n, problem.k) for problem in untuned},
                {("matmul_all_reduce", WIDTH, WIDTH // RANKS), ("matmul_all_reduce", WIDTH, HIDDEN // RANKS)},
            )

    def test_passes_of_others_run_too(self):
        import torch._inductor.config as config

        inductor.disable()
        seen = []
        config.post_grad_custom_pre_pass = lambda graph: seen.append(len(graph.nodes))
        self.addCleanup(setattr, config, "post_grad_custom_pre_pass", None)
        inductor.enable(wait_s=120)
        self.plan_all()
        with torch.no_grad():
            self.compiled(self.model(llama.shard))(self.input(llama.shard))
        self.assertTrue(seen)
        self.assert_fused([f"layers.{i}.{name}" for i in range(2) for name in ("attention.wo", "ffn.w2")])


@unittest.skipUnless(
    hasattr(torch, "compile") and RANK < 0 and torch.cuda.is_available(), "needs PyTorch 2 and a GPU, and is no rank"
)
class FakeGroupTest(unittest.TestCase):
    """Compiles Llama-3-8B's layers for 8 ranks on one GPU. The fake group exchanges nothing, so the tests look at
    graphs, not at results."""

    RANKS = 8

    def setUp(self):
        import torch.distributed as dist
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group("fake", rank=0, world_size=self.RANKS, store=FakeStore())
        self.addCleanup(dist.destroy_process_group)
        self.mesh = dist.device_mesh.init_device_mesh("cuda", (self.RANKS,))

    def test_every_site_is_found(self):
        sys.path.insert(0, str(EXAMPLES))
        import llama
        import mc2.torch
        from mc2.torch import _plans, inductor
        from torch.distributed.tensor import Shard, distribute_tensor

        inductor.enable()
        self.addCleanup(inductor.disable)
        expected = {
            llama.shard: ["matmul_all_reduce m=4096 n=4096 k=512", "matmul_all_reduce m=4096 n=4096 k=1792"],
            llama.shard_sequence: [
                "all_gather_matmul m=4096 n=512 k=4096",
                "matmul_reduce_scatter m=4096 n=4096 k=512",
                "all_gather_matmul m=4096 n=1792 k=4096",
                "matmul_reduce_scatter m=4096 n=4096 k=1792",
            ],
        }
        pays = lambda problem, w_layout, calls: _plans.Prospect(10, "2 x 2048", "")
        for shard, ops in expected.items():
            for batch in (1, 2):
                with self.subTest(shard.__name__, batch=batch), unittest.mock.patch.object(
                    _plans, "prospect", pays
                ), unittest.mock.patch.object(_plans, "_chosen", lambda *call: None), torch.no_grad():
                    torch._dynamo.reset()
                    mc2.torch.forget()
                    with torch.device("cuda"):
                        model = shard(llama.Llama(2, 4096, 32, 14336, 8192).to(torch.bfloat16), self.mesh)
                        x = torch.randn(batch, 4096 // batch, 4096, dtype=torch.bfloat16)
                    x = x if shard is llama.shard else distribute_tensor(x, self.mesh, [Shard(1)])
                    y = torch.compile(model)(x)
                    self.assertEqual(tuple(y.shape), (batch, 4096 // batch, 8192))
                    found = [site.op for site in inductor.sites() if site.is_fused and site.name != "head"]
                    self.assertEqual(found, [f"{op} torch.bfloat16 x8" for op in ops] * 2, inductor.report())


@torch_test.starts_jobs
class JobsTest(torch_test.TwoAndThreeRanks, torch_test.Jobs):
    SCRIPT = __file__


if __name__ == "__main__":
    torch_test.run_ranks()
