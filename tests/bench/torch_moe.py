"""Compares a mixture-of-experts layer by mc2.torch.moe_layer with PyTorch's own calls, on GPUs.

    torchrun --nproc-per-node 2 tests/bench/torch_moe.py

PyTorch's calls are those that programs write by hand: all_to_all_single of the rows sorted by expert, a permutation,
torch._grouped_mm, and the way back. The results are compared with each other and, on small layers, with the definition
in double precision; mc2's gradients in bf16 are compared with those in f32. Then the calls are timed in turn: without
gradients, with a promised upper limit of rows, that call in a CUDA graph, and with gradients. Rank 0 prints a CSV:
medians in us of the slowest rank's times.
"""

import torch
import torch.distributed as dist
from torch.distributed.nn.functional import all_to_all_single as exchange
from torch_rig import TOLERANCE, captured, everyones, finish, medians, require_near, say, start

import mc2.torch

FEW_TOKENS = 1024  # so few that all their rows may go to one rank
# tokens of a rank, experts of a token, experts of a rank, hidden size, inner size, how many times as often rank 0's
# experts are chosen
LAYERS = [
    (4096, 2, 4, 4096, 14336, 1),
    (8192, 6, 16, 2048, 1408, 1),
    (8192, 6, 16, 2048, 1408, 2),
    (4096, 8, 32, 7168, 2048, 1),
    (512, 8, 32, 7168, 2048, 1),
]


class Layer:
    def __init__(self, tokens, top_k, experts, hidden, inner, popularity, dtype=torch.bfloat16):
        own, shared = (torch.Generator("cuda").manual_seed(seed) for seed in (dist.get_rank(), 99))
        wanted = torch.rand(dist.get_world_size() * experts, generator=shared, device="cuda") + 0.2
        wanted[:experts] *= popularity
        random = lambda *shape: torch.randn(shape, generator=own, device="cuda")
        self.x = random(tokens, hidden).to(dtype)
        self.chosen = torch.multinomial(wanted.expand(tokens, -1), top_k, generator=own)
        self.weights = torch.rand(tokens, top_k, generator=own, device="cuda")
        self.up = (random(experts, hidden, inner) / hidden**0.5).to(dtype)
        self.down = (random(experts, inner, hidden) / inner**0.5).to(dtype)

        self.max_rows = tokens * top_k if tokens <= FEW_TOKENS else 2 * tokens * top_k // dist.get_world_size()

    def fused(self):
        return mc2.torch.moe_layer(self.x, self.chosen, self.weights, self.up, self.down)

    def promised(self):
        return mc2.torch.moe_layer(self.x, self.chosen, self.weights, self.up, self.down, max_rows=self.max_rows)

    def trains(self, layer):
        operands = (self.x, self.weights, self.up, self.down)
        for operand in operands:
            operand.requires_grad_()
        gradients = torch.autograd.grad(layer(), operands, torch.ones_like(self.x))
        for operand in operands:
            operand.requires_grad_(False)
        return gradients

    def by_hand(self):
        ranks, experts = dist.get_world_size(), len(self.up)
        chosen, order = self.chosen.flatten().sort(stable=True)
        counts = torch.searchsorted(chosen, torch.arange(ranks * experts + 1, device="cuda")).diff()
        received = torch.empty_like(counts)
        dist.all_to_all_single(received, counts)
        table = torch.stack([counts, received]).cpu().view(2, ranks, experts)
        sent, got = (side.sum(1).tolist() for side in table)
        token = order // self.chosen.shape[1]
        arrived = self.x.new_empty((sum(got), self.x.shape[1]))
        arrived = exchange(arrived, self.x[token], got, sent)
        expert_of = torch.arange(experts, device="cuda").repeat(ranks).repeat_interleave(received, output_size=sum(got))
        places, ends = expert_of.argsort(stable=True), received.view(ranks, experts).sum(0).cumsum(0).to(torch.int32)
        rows = torch.nn.functional.silu(self.multiply(arrived[places], self.up, ends))
        product = self.multiply(rows, self.down, ends)
        back = torch.empty_like(product)
        back[places] = product
        returned = product.new_empty((len(token), product.shape[1]))
        returned = exchange(returned, back, sent, got)
        rows_of_tokens = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device="cuda"))
        of_tokens = returned.index_select(0, rows_of_tokens).view(*self.chosen.shape, -1)
        return (of_tokens * self.weights[..., None].to(returned.dtype)).sum(1)

    @staticmethod
    def multiply(rows, matrices, ends):
        if rows.dtype == torch.bfloat16:
            return torch._grouped_mm(rows, matrices, offs=ends)
        firsts = [0, *ends.tolist()]
        return torch.cat([rows[first:end] @ matrix for first, end, matrix in zip(firsts, firsts[1:], matrices)])

    def gradients(self):
        operands = [tensor.clone().requires_grad_() for tensor in (self.x, self.weights, self.up, self.down)]
        x, weights, up, down = operands
        mc2.torch.moe_layer(x, self.chosen, weights, up, down).float().square().sum().backward()
        return [operand.grad for operand in operands]

    def definition(self):
        up, down = (torch.cat(everyones(side.double())) for side in (self.up, self.down))
        rows = []
        for token, chosen, weights in zip(self.x.double(), self.chosen.tolist(), self.weights.double()):
            rows.append(
                sum(torch.nn.functional.silu(token @ up[e]) @ down[e] * weight for e, weight in zip(chosen, weights))
            )
        return torch.stack(rows)


def broken_promises():
    """Checks that a broken promise gives NaN and that the next call fails on all ranks; after forget(), calls are right
    again."""
    layer = Layer(64, 2, 4, 32, 48, 1)
    with torch.no_grad():
        expected, chosen = layer.promised(), layer.chosen
        x, weights = layer.x, layer.weights
        for wrong in (
            torch.full_like(chosen, -3),
            torch.full_like(chosen, 4 * dist.get_world_size()),
            chosen.repeat(2 * dist.get_world_size(), 1),
        ):
            if dist.get_rank() == 1:
                layer.chosen, more = wrong, len(wrong) // len(chosen)
                layer.x, layer.weights = x.repeat(more, 1), weights.repeat(more, 1)
            if not layer.promised().isnan().all():
                raise SystemExit("a broken promise gives numbers")
            torch.cuda.synchronize()
            dist.barrier()
            layer.chosen, layer.x, layer.weights = chosen, x, weights
            try:
                layer.promised()
                raise SystemExit("a broken promise is no error")
            except mc2.NativeError as error:
                told = str(error)
            mc2.torch.forget()
            require_near(layer.promised(), expected, TOLERANCE, "the layer after an error")
    say(told)


def main():
    start()
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, TOLERANCE)):
        small = Layer(64, 2, 3, 32, 48, 2, dtype)
        for name in ("fused", "by_hand"):
            with torch.no_grad():
                require_near(getattr(small, name)(), small.definition(), tolerance, name)
    exact = Layer(64, 2, 3, 32, 48, 2, torch.float32)
    exact.x, exact.up, exact.down = (side.float() for side in (small.x, small.up, small.down))
    for found, expected in zip(small.gradients(), exact.gradients()):
        require_near(found, expected, TOLERANCE, "a gradient")
    lines = [
        "tokens,top_k,experts_a_rank,hidden,inner,popularity,moe_layer_us,promised_us,captured_us,by_hand_us,"
        "by_hand / moe_layer,by_hand / promised,by_hand / captured,trained_us,by_hand_trained_us,by_hand / trained"
    ]
    for sizes in LAYERS:
        layer = Layer(*sizes)
        with torch.no_grad():
            expected = layer.by_hand()
            for name in ("fused", "promised"):
                require_near(getattr(layer, name)(), expected, TOLERANCE, name)
            replay, result = captured(layer.promised)
            replay()
            require_near(result, expected, TOLERANCE, "a replay")
            columns = medians((layer.fused, layer.promised, replay), layer.by_hand)
        for found, right in zip(layer.trains(layer.fused), layer.trains(layer.by_hand)):
            require_near(found, right, TOLERANCE, "a gradient")
        trained = medians((lambda: layer.trains(layer.fused),), lambda: layer.trains(layer.by_hand))
        lines.append(",".join(map(str, (*sizes, *columns, *trained))))
    broken_promises()
    say("\n".join(lines))
    finish()


if __name__ == "__main__":
    main()
