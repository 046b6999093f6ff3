"""Compares mc2.torch's kinds whose rows choose experts with PyTorch's own calls, on GPUs.

    torchrun --nproc-per-node 2 tests/bench/torch_chosen.py

PyTorch's calls are those that programs write by hand: all_gather_into_tensor, a sort of the choices, torch._grouped_mm,
a weighted sum and reduce_scatter_tensor or all_reduce. On small shapes mc2's results are compared with the definition
in double precision: eager, compiled, in a CUDA graph, with gradients, tuned and not tuned. An illegal choice must give
NaN. With several ranks the calls are then timed in turn, eager and captured. Rank 0 prints a CSV: medians in us of the
slowest rank's times.
"""

import torch
import torch.distributed as dist
from torch_rig import TOLERANCE, eager_and_captured, everyones, finish, largest, replayed, require_near, say, start

import mc2.torch

GATHER, SCATTER, SUM = KINDS = (
    "all_gather_grouped_matmul",
    "grouped_matmul_reduce_scatter",
    "grouped_matmul_all_reduce",
)
# tokens of all ranks, experts, experts that a token chooses, hidden size, inner size of a rank
LAYERS = [(8192, 8, 2, 4096, 7168), (8192, 64, 6, 2048, 704), (4096, 128, 8, 4096, 768), (512, 128, 8, 4096, 768)]


class Operands:
    """Operands of one kind. n and k are those of one rank's product."""

    def __init__(self, kind, m, count, top_k, n, k, dtype=torch.bfloat16, seed=0):
        ranks, rank = dist.get_world_size(), dist.get_rank()
        own, shared = (torch.Generator("cuda").manual_seed(number) for number in (100 * seed + rank, 100 * seed + 99))
        self.kind, self.problem = kind, {"m": m, "n": n, "k": k, "dtype": dtype}
        self.kept = mc2.ChosenExperts(count, top_k)
        wanted = torch.rand(count, generator=shared, device="cuda") + 0.2
        self.experts = torch.multinomial(wanted.expand(m, -1), top_k, generator=shared)
        rows = m // ranks if kind == GATHER else m * top_k
        self.x = torch.randn((rows, k), generator=own, device="cuda").to(dtype)
        self.w = (torch.randn((count, k, n), generator=own, device="cuda") / k**0.5).to(dtype)
        self.weights = torch.rand((m, top_k), generator=shared, device="cuda")
        self.bias = torch.randn((count, n) if kind == GATHER else (n,), generator=shared, device="cuda").to(dtype)

    def leaves(self):
        return [self.x, self.w, self.bias, *([] if self.kind == GATHER else [self.weights])]

    def fused(self, has_bias=False):
        more = {"bias": self.bias} if has_bias else {}
        weights = () if self.kind == GATHER else (self.weights,)
        return getattr(mc2.torch, self.kind)(self.x, self.w, self.experts, *weights, **more)

    def tune(self):
        return mc2.torch.tune(self.kind, **self.problem, experts=self.kept)

    def definition(self, xs, ws, bias, weights, experts=None):
        """The results of all ranks from the operands of all ranks, in double precision."""
        chosen = (self.experts if experts is None else experts).flatten()
        m, top_k = self.experts.shape
        if self.kind == GATHER:
            rows = torch.cat(xs).repeat_interleave(top_k, 0)
            return [torch.bmm(rows.unsqueeze(1), w[chosen]).squeeze(1) + bias[chosen] for w in ws]
        products = [torch.bmm(x.unsqueeze(1), w[chosen]).view(m, top_k, -1) for x, w in zip(xs, ws)]
        total = sum((product * weights.unsqueeze(2)).sum(1) for product in products)
        return [part + bias for part in (total.chunk(len(xs)) if self.kind == SCATTER else [total] * len(xs))]

    def by_hand(self):
        m, top_k = self.experts.shape
        ranks = dist.get_world_size()
        x = self.x
        if self.kind == GATHER:
            x = x.new_empty((m, x.shape[1]))
            dist.all_gather_into_tensor(x, self.x)
        values, order = self.experts.flatten().sort(stable=True)
        ends = torch.searchsorted(values, torch.arange(1, len(self.w) + 1, device="cuda"), out_int32=True)
        rows = x[order // top_k if self.kind == GATHER else order]
        made = torch._grouped_mm(rows, self.w, offs=ends)
        y = torch.empty_like(made).index_copy_(0, order, made)
        if self.kind == GATHER:
            return y
        y = torch.bmm(self.weights.to(y.dtype).unsqueeze(1), y.view(m, top_k, -1)).squeeze(1)
        if self.kind == SUM:
            dist.all_reduce(y)
            return y
        out = y.new_empty((m // ranks, y.shape[1]))
        dist.reduce_scatter_tensor(out, y)
        return out


def check(kind, dtype, is_tuned):
    ranks, rank = dist.get_world_size(), dist.get_rank()
    for seed in range(3):  # other choices in other memory
        one = Operands(kind, 64 * ranks, 6, 2, 48, 40, dtype, seed)
        name = f"{kind}, {dtype}, seed {seed}, {'tuned' if is_tuned else 'not tuned'}"
        if is_tuned and seed == 0:
            say(f"# {one.tune().text}")
        whole = [everyones(one.x.double()), everyones(one.w.double()), one.bias.double(), one.weights.double()]
        expected = one.definition(*whole)[rank]
        for _ in range(3):
            require_near(one.fused(True), expected, TOLERANCE, name)
        torch._dynamo.reset()  # the compiler limits the number of variants of one function
        compiled = torch.compile(lambda each: each.fused(True) * 2, fullgraph=True, backend="aot_eager")
        require_near(compiled(one), 2 * expected, TOLERANCE, f"{name}, compiled")
        if dtype == torch.bfloat16 or (is_tuned and dtype == torch.float16):  # other calls wait for the choices
            require_near(replayed(lambda: one.fused(True)), expected, TOLERANCE, f"{name}, captured")
        for leaf in one.leaves():
            leaf.requires_grad_()
        gradients = torch.autograd.grad(one.fused(True).sum(), one.leaves())
        for leaf in one.leaves():
            leaf.requires_grad_(False)
        mine = [[tensor.clone().requires_grad_() for tensor in tensors] for tensors in whole[:2]]
        shared = [tensor.clone().requires_grad_() for tensor in whole[2:]]
        results = one.definition(*mine, *shared)
        (results[0].sum() if kind == SUM else sum(result.sum() for result in results)).backward()
        of_bias = shared[0].grad / ranks if kind == GATHER else shared[0].grad  # GATHER: all ranks' results were summed
        for gradient, whole_one in zip(gradients, (mine[0][rank].grad, mine[1][rank].grad, of_bias, shared[1].grad)):
            require_near(gradient, whole_one, TOLERANCE, f"{name}, gradient")
    one.experts[3, 1] = 6
    y = one.fused()
    torch.cuda.synchronize()
    if not largest(y.isnan().any()):
        raise SystemExit(f"{name}: a choice that there is not went unnoticed")
    mc2.torch.forget()


def main():
    start()
    ranks = dist.get_world_size()
    for kind in KINDS:
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            for is_tuned in (False, True) if ranks > 1 else (False,):
                check(kind, dtype, is_tuned)
    say("# results, gradients, compiled and captured calls agree with the definition")
    say("kind,tokens,experts,top_k,n,k,fused_us,by_hand_us,ratio,captured_us,by_hand_captured_us,captured_ratio")
    for tokens, count, top_k, hidden, inner in LAYERS if ranks > 1 else ():
        for kind in KINDS:
            n, k = (inner, hidden) if kind == GATHER else (hidden, inner)
            one = Operands(kind, tokens, count, top_k, n, k)
            say(f"# {one.tune().text}")
            require_near(one.fused(), one.by_hand(), TOLERANCE, f"{kind} {tokens}")
            say(",".join(map(str, (kind, tokens, count, top_k, n, k, *eager_and_captured(one)))))
            del one
            mc2.torch.forget()
            torch.cuda.empty_cache()
    finish()


if __name__ == "__main__":
    main()
