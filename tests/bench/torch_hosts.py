"""Compares mc2's own backend with PyTorch's calls on a group that spans hosts, on GPUs.

    torchrun --nnodes 2 --node-rank NODE --nproc-per-node 4 --master-addr HOST tests/bench/torch_hosts.py

Like tests/bench/torch_chosen.py, it tunes, compares with the definition in double precision, eager and in a CUDA graph,
and then times in turn. For matmul_all_reduce it also uses another group of the same ranks, which opens a world of its
own. Rank 0 prints a CSV: medians in us of the slowest rank's times. The output names plans that are not of mc2's own
backend.
"""

import torch
import torch.distributed as dist
from torch_rig import TOLERANCE, eager_and_captured, everyones, finish, replayed, require_near, say, start

import mc2.torch
from mc2.torch import _groups, _hosts, _native, _problem

SUM, SCATTER, GATHER = KINDS = ("matmul_all_reduce", "matmul_reduce_scatter", "all_gather_matmul")
SHAPES = [(4096, 4096, 2048), (8192, 4096, 7168)]


class Operands:
    def __init__(self, kind, m, n, k, group=None):
        ranks = dist.get_world_size()
        own = torch.Generator("cuda").manual_seed(dist.get_rank())
        self.kind, self.group, self.problem = kind, group, {"m": m, "n": n, "k": k}
        self.x = torch.randn((m // ranks if kind == GATHER else m, k), generator=own, device="cuda").bfloat16()
        self.w = (torch.randn((k, n), generator=own, device="cuda") / k**0.5).bfloat16()

    def fused(self):
        return getattr(mc2.torch, self.kind)(self.x, self.w, group=self.group)

    def tune(self):
        return mc2.torch.tune(self.kind, **self.problem, group=self.group)

    def natively(self):
        """A call that runs mc2's own backend, whichever plan won the tuning."""
        group = _groups.resolve(self.group)
        problem = _problem.Problem(self.kind, group, self.x.device, self.x.dtype, *self.problem.values())
        reason = _native.common_fault(_groups.gathered(group, (_hosts.place(group), _native.fault(problem), "plain")))
        if reason:
            raise SystemExit(f"mc2's own backend does not run: {reason}")
        length = problem.m if self.kind == SUM else problem.m // group.size
        variant = _native.world(group).variants(problem.op())[0]
        cut = [length // 2, length - length // 2]
        call = _native.Native(problem, cut, variant, "pipelined", self.w)
        return lambda: call(self.x, self.w)[0]

    def by_hand(self):
        if self.kind == GATHER:
            rows = self.x.new_empty((self.problem["m"], self.problem["k"]))
            dist.all_gather_into_tensor(rows, self.x)
            return rows @ self.w
        y = self.x @ self.w
        if self.kind == SUM:
            dist.all_reduce(y)
            return y
        out = y.new_empty((len(y) // dist.get_world_size(), y.shape[1]))
        dist.reduce_scatter_tensor(out, y)
        return out

    def definition(self):
        xs, ws = everyones(self.x.double()), everyones(self.w.double())
        if self.kind == GATHER:
            return torch.cat(xs) @ ws[dist.get_rank()]
        total = sum(x @ w for x, w in zip(xs, ws))
        return total if self.kind == SUM else total.chunk(len(xs))[dist.get_rank()]


def check(kind, group):
    one = Operands(kind, 256 * dist.get_world_size(), 192, 320, group)
    expected = one.definition()
    say(f"# {one.tune().text}")
    native = one.natively()
    for name, call in (("tuned", one.fused), ("own backend", native)):
        for _ in range(3):
            require_near(call(), expected, TOLERANCE, f"{kind}, {name}")
        require_near(replayed(call), expected, TOLERANCE, f"{kind}, {name}, captured")
    mc2.torch.forget()


def main():
    start()
    group = dist.new_group(backend="nccl")
    for kind in KINDS:
        check(kind, None)
    check(SUM, group)
    say("# results of eager and captured calls agree with the definition")
    say("kind,m,n,k,own backend,fused_us,by_hand_us,ratio,captured_us,by_hand_captured_us,captured_ratio")
    for m, n, k in SHAPES:
        for kind in KINDS:
            one = Operands(kind, m, n, k)
            found = one.tune()
            say(f"# {found.text}")
            is_own = "yes" if found.captured_plan.variant.name in ("nccl", "hierarchical") else "no"
            say(",".join(map(str, (kind, m, n, k, is_own, *eager_and_captured(one)))))
            del one
            mc2.torch.forget()
            torch.cuda.empty_cache()
    finish()


if __name__ == "__main__":
    main()
