"""Tests mc2.torch's kinds whose rows choose experts, on gloo. Jobs of 1 to 3 processes run the tests in every rank."""

import tempfile
import unittest
import warnings

import torch_test
from torch_test import RANK, RANKS, Jobs, TwoAndThreeRanks, chosen, everyones, fuse, run_ranks, starts_jobs, torch
from values_test import Refusals

if RANK >= 0:
    import mc2.torch
    from mc2.torch import _plans, _problem

GATHER, SCATTER, SUM = KINDS = (
    "all_gather_grouped_matmul",
    "grouped_matmul_reduce_scatter",
    "grouped_matmul_all_reduce",
)
TOKENS, COUNT, TOP_K, N, K = 24 * 6, 5, 3, 8, 7  # nobody chooses expert 4


class Case:
    """The operands of all ranks, of which mine() returns this rank's. No row chooses the last expert."""

    def __init__(self, kind, dtype=None, seed=0, index_type=None):
        self.kind, ranks = kind, max(RANKS, 1)
        drawn = torch.Generator().manual_seed(seed)

        def random(*shape):
            return torch.empty(shape).uniform_(-1, 1, generator=drawn).to(dtype or torch.float32)

        share = TOKENS // ranks
        rows = share if kind == GATHER else TOKENS * TOP_K
        y_rows = {GATHER: TOKENS * TOP_K, SCATTER: share, SUM: TOKENS}[kind]
        self.experts = torch.randint(0, COUNT - 1, (TOKENS, TOP_K), generator=drawn).to(index_type or torch.int64)
        self.leaves = {"x": [random(rows, K) for _ in range(ranks)], "w": [random(COUNT, K, N) for _ in range(ranks)]}
        if kind != GATHER:
            self.leaves["weights"] = [random(TOKENS, TOP_K)] * ranks
        self.leaves["bias"] = (
            [random(N) for _ in range(ranks)] if kind != GATHER else [random(COUNT, N) for _ in range(ranks)]
        )
        if kind != GATHER:
            self.leaves["bias"] = self.leaves["bias"][:1] * ranks
            self.leaves["residual"] = [random(y_rows, N) for _ in range(ranks)]
            self.leaves["residual"] = self.leaves["residual"][:1] * ranks if kind == SUM else self.leaves["residual"]
        self.upstream = [random(y_rows, N) for _ in range(ranks)]
        self.upstream = self.upstream[:1] * ranks if kind == SUM else self.upstream

    def mine(self, names=None):
        return {
            name: of_ranks[RANK].clone() for name, of_ranks in self.leaves.items() if names is None or name in names
        }

    def call(self, x, w, weights=None, **more):
        operands = (x, w, self.experts) if weights is None else (x, w, self.experts, weights)
        return getattr(mc2.torch, self.kind)(*operands, **more)

    def definition(self, of_ranks):
        """Returns every rank's result by the definition. of_ranks: the leaves of all ranks, in double precision."""
        chosen_ones = self.experts.long()
        if self.kind == GATHER:
            rows = torch.cat(of_ranks["x"]).repeat_interleave(TOP_K, 0)
            return [
                torch.einsum("pk,pkn->pn", rows, w[chosen_ones.flatten()]) + bias[chosen_ones.flatten()]
                for w, bias in zip(of_ranks["w"], of_ranks["bias"])
            ]
        products = [
            torch.einsum("pk,pkn->pn", x, w[chosen_ones.flatten()]).view(TOKENS, TOP_K, N)
            for x, w in zip(of_ranks["x"], of_ranks["w"])
        ]
        total = sum(
            torch.einsum("tcn,tc->tn", product, weights) for product, weights in zip(products, of_ranks["weights"])
        )
        share = TOKENS // len(products)
        parts = (
            [total[rank * share : (rank + 1) * share] for rank in range(len(products))]
            if self.kind == SCATTER
            else [total] * len(products)
        )
        return [part + bias + residual for part, bias, residual in zip(parts, of_ranks["bias"], of_ranks["residual"])]


@unittest.skipIf(RANK < 0, "runs in the ranks of a job")
class RanksTest(Refusals):
    assert_near = torch_test.RanksTest.assert_near

    def setUp(self):
        mc2.torch.forget()
        _plans.settings.store, _plans.settings.is_disabled = "", False
        warnings.simplefilter("ignore")

    def cut(self, kind, parts):
        """Lets later calls of this kind run in this number of blocks of rows, 1 or 2. Returns the blocks."""
        rows = TOKENS if kind == SUM else TOKENS // RANKS
        blocks = [rows // 3, rows - rows // 3] if parts == 2 else [rows]
        fuse(kind, blocks, m=TOKENS, n=N, k=K, experts=_problem.Experts(COUNT, TOP_K))
        return blocks

    def test_results_are_the_definitions(self):
        for kind in KINDS:
            for parts, index_type in ((0, torch.int64), (1, torch.int32), (2, torch.int64)):
                with self.subTest(kind, parts=parts):
                    mc2.torch.forget()
                    case = Case(kind, index_type=index_type)
                    blocks = self.cut(kind, parts) if parts and RANKS > 1 else []
                    expected = case.definition(
                        {name: [one.double() for one in ones] for name, ones in case.leaves.items()}
                    )[RANK]
                    self.assert_near(case.call(**case.mine()), expected)
                    self.assertEqual(
                        chosen(),
                        [blocks] if parts == 2 and RANKS > 1 or (parts and kind == GATHER and RANKS > 1) else [],
                    )
                    with torch.inference_mode():
                        self.assert_near(case.call(**case.mine()), expected)

    @unittest.skipIf(RANKS == 1, "ranks are compared")
    def test_ranks_with_another_k_are_told_of_it_where_all_have_one(self):
        mine = Case(GATHER).mine(("x", "w"))
        k = K - (RANK != 0)
        self.refused("mismatch", "x", Case(GATHER).call, mine["x"][:, :k], mine["w"][:, :k])

    @unittest.skipIf(RANK >= 0 and torch.__version__ >= "2", "gloo exchanges bfloat16 from PyTorch 2 on")
    def test_a_type_that_gloo_does_not_exchange_is_named(self):
        for kind in KINDS:
            case = Case(kind, torch.bfloat16)
            self.refused("unsupported", "dtype", lambda: case.call(**case.mine()))

    def test_without_bias_and_residual_nothing_is_added(self):
        for kind in KINDS:
            case = Case(kind)
            of_ranks = {name: [one.double() for one in ones] for name, ones in case.leaves.items()}
            zeros = {name: [torch.zeros_like(one) for one in of_ranks.get(name, [])] for name in ("bias", "residual")}
            self.assert_near(
                case.call(**case.mine(("x", "w", "weights"))), case.definition({**of_ranks, **zeros})[RANK]
            )

    def test_autocast_gives_its_type_and_gradients_of_the_operands(self):
        for kind in KINDS:
            case = Case(kind)
            of_ranks = {name: [one.double() for one in ones] for name, ones in case.leaves.items()}
            mine = {name: one.requires_grad_() for name, one in case.mine().items()}
            with torch.autocast("cpu", torch.bfloat16):
                y = case.call(**mine)
            self.assertEqual(y.dtype, torch_test.AUTOCAST)
            self.assert_near(y.detach(), case.definition(of_ranks)[RANK], torch_test.AUTOCAST)
            y.float().sum().backward()
            self.assertEqual({one.grad.dtype for one in mine.values()}, {torch.float32})

    def test_gradients_are_those_of_the_whole_problem(self):
        for kind in KINDS:
            for parts in (0, 2):
                with self.subTest(kind, parts=parts):
                    mc2.torch.forget()
                    if parts and RANKS > 1:
                        self.cut(kind, parts)
                    case = Case(kind, seed=3)
                    mine = {name: one.requires_grad_() for name, one in case.mine().items()}
                    (case.call(**mine) * case.upstream[RANK]).sum().backward()
                    # An operand that all ranks share is a single leaf of the whole problem.
                    shared = (
                        {"weights", "bias", "residual"}
                        if kind == SUM
                        else {"weights", "bias"}
                        if kind == SCATTER
                        else set()
                    )
                    whole = {
                        name: [one.double().requires_grad_() for one in (ones[:1] if name in shared else ones)]
                        for name, ones in case.leaves.items()
                    }
                    results = case.definition(
                        {name: ones * RANKS if name in shared else ones for name, ones in whole.items()}
                    )
                    losses = [(y * c.double()).sum() for y, c in zip(results, case.upstream)]
                    (losses[0] if kind == SUM else sum(losses)).backward()  # all ranks have the same sum: count it once
                    for name, one in mine.items():
                        self.assert_near(one.grad, whole[name][0 if name in shared else RANK].grad)

    def test_only_what_needs_a_gradient_gets_one(self):
        for kind in KINDS:
            case = Case(kind)
            for name in case.leaves:
                mine = case.mine()
                mine[name].requires_grad_()
                case.call(**mine).sum().backward()
                self.assertEqual([other for other, one in mine.items() if one.grad is not None], [name])

    def test_weights_may_be_of_the_rows_type_and_matrices_transposed(self):
        case = Case(SUM)
        mine = case.mine()
        y = case.call(**mine)
        mine["w"] = mine["w"].transpose(1, 2).contiguous().transpose(1, 2)
        torch.testing.assert_close(case.call(**mine), y)
        mine["weights"] = mine["weights"].double()
        torch.testing.assert_close(case.call(**mine), y)

    def test_two_halves_are_a_layer(self):
        """Every rank has some columns of the first matrices of the layer, and the same rows of the second ones."""
        drawn = torch.Generator().manual_seed(5)
        x, up, down = (
            torch.empty(shape).uniform_(-1, 1, generator=drawn) for shape in ((TOKENS, K), (COUNT, K, 6), (COUNT, 6, N))
        )
        experts, weights = torch.randint(0, COUNT, (TOKENS, TOP_K), generator=drawn), torch.rand(
            TOKENS, TOP_K, generator=drawn
        )
        rows, own = slice(RANK * TOKENS // RANKS, (RANK + 1) * TOKENS // RANKS), slice(
            RANK * 6 // RANKS, (RANK + 1) * 6 // RANKS
        )
        hidden = mc2.torch.all_gather_grouped_matmul(x[rows], up[:, :, own].contiguous(), experts).relu()
        y = mc2.torch.grouped_matmul_reduce_scatter(hidden, down[:, own].contiguous(), experts, weights)
        expected = [
            sum(weights[t, c] * (x[t] @ up[e]).relu() @ down[e] for c, e in enumerate(experts[t]))
            for t in range(TOKENS)
        ]
        self.assert_near(y, torch.stack(expected)[rows].double())

    def test_fake_tensors_have_the_real_ones_shapes(self):
        for kind in KINDS:
            case = Case(kind)
            operands = [*case.mine(("x", "w")).values(), case.experts, *case.mine(("weights",)).values()]
            more = [None] if kind == GATHER else [None, None]
            name = mc2.torch._groups.resolve(None).name
            fake = getattr(torch.ops.mc2, kind)(*(one.to("meta") for one in operands), *more, name)
            self.assertEqual(fake.shape, getattr(mc2.torch, kind)(*operands).shape)

    def test_compiled_functions_give_the_eager_ones_results(self):
        if not hasattr(torch, "compile"):
            self.skipTest("PyTorch 1.13 has no torch.compile")
        for kind in KINDS:
            case = Case(kind)
            gradients = []
            for run in (
                torch.compile(lambda **more: case.call(**more).relu(), fullgraph=True, backend="aot_eager"),
                lambda **more: case.call(**more).relu(),
            ):
                mine = {name: one.requires_grad_() for name, one in case.mine().items()}
                run(**mine).sum().backward()
                gradients.append([one.grad for one in mine.values()])
            torch.testing.assert_close(*gradients)

    def test_tuning_keeps_a_plan_that_calls_find(self):
        with tempfile.TemporaryDirectory() as folder:
            for kind in KINDS:
                path, experts = f"{folder}/{kind}.db", mc2.ChosenExperts(count=4, top_k=2)
                tuned = mc2.torch.tune(
                    kind,
                    m=256 * RANKS,
                    n=32,
                    k=32,
                    dtype=torch.float32,
                    rounds=3,
                    race_rounds=5,
                    store=path if RANK == 0 else "",
                    experts=experts,
                )
                self.assertEqual((tuned.plan.op.experts.count, tuned.plan.op.experts.top_k), (4, 2))
                digests = everyones(torch.frombuffer(bytearray(bytes.fromhex(tuned.plan.digest)), dtype=torch.uint8))
                self.assertTrue(all(torch.equal(digest, digests[0]) for digest in digests))
                if RANK == 0:
                    with mc2.Store(path) as store:
                        self.assertEqual(store.find_plan(tuned.plan.op, tuned.plan.fingerprint).plan, tuned.plan)

    def test_what_was_called_untuned_is_known_by_its_experts(self):
        case = Case(SUM)
        case.call(**case.mine())
        (problem,) = _plans.untuned(mc2.torch._groups.resolve(None))
        self.assertEqual(problem.experts, (COUNT, TOP_K))
        self.assertIn("5 experts of which 3 are chosen", problem.text())

    def test_what_cannot_be_is_named(self):
        for kind in KINDS:
            case = Case(kind)

            def refused(code, field, case=case, **change):
                mine = {**case.mine(), "experts": case.experts, **change}
                experts, weights = mine.pop("experts"), mine.pop("weights", None)
                operands = (
                    (mine.pop("x"), mine.pop("w"), experts)
                    if weights is None
                    else (mine.pop("x"), mine.pop("w"), experts, weights)
                )
                return str(self.refused(code, field, getattr(mc2.torch, case.kind), *operands, **mine))

            mine = case.mine()
            refused("invalid_spec", "x", x=mine["x"][:-1])
            refused("invalid_spec", "x", x=mine["x"][:, :-1])
            refused("invalid_spec", "x", x=[1])
            refused("invalid_spec", "w", w=mine["w"][0])
            refused("invalid_spec", "w", w=mine["w"].double())
            refused("invalid_spec", "w", w=mine["w"][:0])
            refused("invalid_spec", "experts", experts=case.experts.float())
            refused("invalid_spec", "experts", experts=case.experts.flatten())
            refused("invalid_spec", "experts", experts=case.experts[:0])
            self.assertIn(
                "at most 5 of 5 experts", refused("invalid_spec", "experts", experts=case.experts.repeat(1, 2))
            )
            refused("invalid_spec", "bias", bias=mine["bias"][..., :-1])
            if kind != GATHER:
                refused("invalid_spec", "weights", weights=mine["weights"][:, :-1])
                refused("invalid_spec", "weights", weights=case.experts)
                refused("invalid_spec", "residual", residual=mine["residual"][:-1])
                wrong = mine["weights"].clone()
                wrong[2, 1] = float("nan")
                self.assertIn("token 2, choice 1 has weight nan", refused("invalid_spec", "weights", weights=wrong))
            wrong = case.experts.clone()
            wrong[3, 2] = COUNT
            self.assertIn(
                "token 3, choice 2 is expert 5; there are 5, 0 to 4", refused("invalid_spec", "experts", experts=wrong)
            )
            wrong[0, 0] = -1
            self.assertIn("token 0, choice 0 is expert -1", refused("invalid_spec", "experts", experts=wrong))
            if RANKS > 1:
                operands = (
                    mine["x"],
                    mine["w"][: COUNT - RANK].contiguous(),
                    case.experts,
                    *case.mine(("weights",)).values(),
                )
                self.refused("mismatch", "x", getattr(mc2.torch, kind), *operands)

    def test_what_cannot_be_tuned_is_named(self):
        tune, sizes = mc2.torch.tune, {"m": 64, "n": 8, "k": 8}
        self.refused("invalid_spec", "experts", lambda: tune(SUM, **sizes))
        self.refused("invalid_spec", "experts", lambda: tune(SUM, **sizes, experts=torch.zeros(2, 2)))
        self.refused(
            "invalid_spec", "experts", lambda: tune("matmul_all_reduce", **sizes, experts=mc2.ChosenExperts(4, 2))
        )

    def test_double_precision_is_kept(self):
        case = Case(SUM, torch.float64)
        mine = {name: one.requires_grad_() for name, one in case.mine().items()}
        y = case.call(**mine)
        expected = case.definition(case.leaves)[RANK]
        torch.testing.assert_close(y, expected, rtol=1e-12, atol=1e-12)
        y.sum().backward()
        weights = case.leaves["weights"][0].clone().requires_grad_()
        case.definition({**case.leaves, "weights": [weights] * RANKS})[0].sum().backward()
        torch.testing.assert_close(mine["weights"].grad, weights.grad, rtol=1e-11, atol=1e-11)

    def test_a_choice_that_is_wrong_on_one_rank_leaves_no_other_waiting(self):
        for kind in KINDS:
            case = Case(kind)
            case.call(**case.mine())
            if RANK == 0:
                case.experts = case.experts.clone()
                case.experts[3, 2] = COUNT
                with self.assertRaises(mc2.Error):
                    case.call(**case.mine())
            else:
                y = case.call(**case.mine())
                self.assertEqual(bool(y.isnan().any()), kind == SUM, "the sum of what rank 0 has not")
                self.assertFalse(bool(y[4 * TOP_K :].isnan().any()))


@starts_jobs
class JobsTest(TwoAndThreeRanks, Jobs):
    SCRIPT = __file__

    def test_one_rank(self):
        self.run_job(
            1,
            *(
                "RanksTest.test_" + name
                for name in (
                    "results_are_the_definitions",
                    "gradients_are_those_of_the_whole_problem",
                    "what_cannot_be_is_named",
                )
            ),
        )


if __name__ == "__main__":
    run_ranks()
