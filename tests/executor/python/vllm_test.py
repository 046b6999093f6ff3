"""Tests mc2_vllm, in ranks on gloo, on graphs with vLLM's collectives, which this file defines to vLLM's schemas."""

import sys
import types
import unittest
import warnings

import torch_test
from torch_test import K, N, RANK, RANKS, M, fuse, torch

if torch is not None and RANK >= 0:
    import torch.distributed as dist

    import functional_collectives
    import mc2.torch
    import mc2_vllm
    from inductor_test import linear, operators, random, traced
    from mc2.torch import _ops, inductor

    # The schemas are those of vllm/distributed/parallel_state.py, commit 00bb7e3 of vllm-project/vllm.
    LIBRARY = torch.library.Library("vllm", "DEF")
    for NAME, ARGUMENTS, THEIRS in (
        (
            "all_reduce",
            "Tensor tensor, str group_name",
            lambda real: lambda x, name: real["all_reduce"](x, "sum", own(name)),
        ),
        (
            "reduce_scatter",
            "Tensor tensor, int dim, int world_size, str group_name",
            lambda real: lambda x, dim, ranks, name: real["reduce_scatter_tensor"](
                x.transpose(0, dim), "sum", ranks, own(name)
            ).transpose(0, dim),
        ),
        (
            "all_gather",
            "Tensor tensor, int dim, int world_size, str group_name",
            lambda real: lambda x, dim, ranks, name: real["all_gather_into_tensor"](
                x.transpose(0, dim), ranks, own(name)
            ).transpose(0, dim),
        ),
    ):
        LIBRARY.define(f"{NAME}({ARGUMENTS}) -> Tensor")
        for KEY, IMPLEMENTATIONS in (("CPU", functional_collectives._REAL), ("Meta", functional_collectives._FAKE)):
            LIBRARY.impl(NAME, THEIRS(IMPLEMENTATIONS), KEY)
    V = torch.ops.vllm


class Coordinator:
    """Stands in for vLLM's group coordinators, to which parallel_state._groups has weak references."""

    def __init__(self, group):
        self.device_group = group


GROUP = "tp:0"


def own(name):
    return mc2_vllm._group_name(name)


class RanksTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if RANK < 0:
            raise unittest.SkipTest("runs in the ranks of a job")
        functional_collectives.operators()
        state, coordinator = types.ModuleType("vllm.distributed.parallel_state"), Coordinator(dist.group.WORLD)
        state._groups = {GROUP: lambda: coordinator, "pp:0": lambda: None}
        for name, module in (
            ("vllm", types.ModuleType("vllm")),
            ("vllm.distributed", types.ModuleType("vllm.distributed")),
            (state.__name__, state),
        ):
            sys.modules[name] = module

    def setUp(self):
        mc2.torch.forget()
        inductor._options = None
        inductor.forget()
        warnings.simplefilter("error")

    def rewritten(self, function, *inputs):
        """Returns the graph after the pass, and checks that its results are the same as before."""
        module = traced(function, *inputs)
        expected = module(*inputs)
        with _ops._below_autograd():
            mc2_vllm.fuse(module.graph)
        module.graph.lint()
        module.recompile()
        torch.testing.assert_close(module(*inputs), expected, rtol=1e-4, atol=1e-4)
        self.assertNotIn("_c10d_functional", str(module.graph))
        return module

    def fused(self, function, inputs, kinds):
        for kind in kinds:
            axis = torch_test.cut_axis(kind)
            fuse(kind, [axis // 2, axis - axis // 2])
        module = self.rewritten(function, *inputs)
        self.assertEqual(operators(module), kinds, inductor.report())
        self.assertNotIn("vllm", str(module.graph))

    def test_what_a_plan_cuts_is_fused(self):
        x, w, shard = random(M, K), random(N, K), random(M // RANKS, K)
        self.fused(lambda x, w: torch.relu(V.all_reduce(linear(x, w), GROUP)), (x, w), ["matmul_all_reduce"])
        self.fused(lambda x, w: V.reduce_scatter(linear(x, w), 0, RANKS, GROUP) + 1, (x, w), ["matmul_reduce_scatter"])
        self.fused(lambda x, w: linear(V.all_gather(x, 0, RANKS, GROUP), w), (shard, w), ["all_gather_matmul"])

    def test_settings_by_name_are_read(self):
        fuse("matmul_reduce_scatter", [M // RANKS // 2] * 2)
        x, w = random(M, K), random(N, K)
        module = traced(lambda x, w: V.reduce_scatter(linear(x, w), 0, RANKS, GROUP), x, w)
        (node,) = (node for node in module.graph.nodes if "vllm" in str(node.target))
        tensor, dim, ranks, name = node.args
        node.args, node.kwargs = (tensor,), {"dim": dim, "world_size": ranks, "group_name": name}
        with _ops._below_autograd():
            mc2_vllm.fuse(module.graph)
        self.assertEqual(operators(module), ["matmul_reduce_scatter"], inductor.report())

    def test_what_stays_is_vllms_own_again(self):
        fuse("matmul_all_reduce", [M])  # its plan is not to cut
        x, w = random(M, K), random(N, K)
        for function in (
            lambda x, w: V.all_reduce(linear(x, w), GROUP) * 2,
            lambda x, w: V.all_gather(linear(x, w), 0, RANKS, GROUP),
            lambda x, w: V.all_gather(linear(x, w), 1, RANKS, GROUP),
        ):
            before = [str(node.target) for node in traced(function, x, w).graph.nodes]
            module = self.rewritten(function, x, w)
            self.assertEqual([str(node.target) for node in module.graph.nodes], before)
        self.assertIn("its plan is not to fuse", inductor.report())

    def test_one_fused_beside_one_that_stays(self):
        fuse("matmul_all_reduce", [M // 2, M // 2])
        x, w = random(M, K), random(N, K)
        module = self.rewritten(lambda x, w: V.all_reduce(V.all_reduce(linear(x, w), GROUP) + 1, GROUP), x, w)
        self.assertEqual(operators(module), ["matmul_all_reduce"])
        self.assertEqual(str(module.graph).count("vllm.all_reduce"), 1)

    def test_groups_that_are_not_here_are_left(self):
        module = traced(lambda x: V.all_reduce(x, GROUP), random(M, K))
        (node,) = (node for node in module.graph.nodes if "vllm" in str(node.target))
        for name in ("pp:0", "tp:7"):
            node.args = (node.args[0], name)
            with _ops._below_autograd():
                mc2_vllm.fuse(module.graph)
            self.assertIn(f"'{name}'", str(module.graph).replace('"', "'").replace(f", {name})", f", '{name}')"))
        self.assertEqual(inductor.sites(), [])


@torch_test.starts_jobs
class JobsTest(torch_test.TwoAndThreeRanks, torch_test.Jobs):
    SCRIPT = __file__


if __name__ == "__main__":
    torch_test.run_ranks()
