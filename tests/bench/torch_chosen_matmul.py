"""Compares mc2's two matmuls of a tensor-parallel mixture of experts with PyTorch's operators, on one Hopper GPU.

    python3 tests/bench/torch_chosen_matmul.py libmc2-grouped-matmul.so

The first half multiplies each token by the matrices of its experts. The second half multiplies the resulting rows in
the same way and sums those of each token, weighted. Both read the choices in every run. PyTorch uses sort,
index_select, torch._grouped_mm and index_copy, and in the second half a weighted sum. mc2 and PyTorch are replayed as
CUDA graphs, so that the times exclude the host, and compared with the definition in double precision. For an illegal
choice, mc2 must name it and leave NaN. Prints a CSV: medians in us.
"""

import ctypes
import sys

import torch
from torch_grouped_matmul import TOLERANCE, compared, open_library
from torch_rig import captured

TOKENS = (16, 256, 2048, 8192)
# model, sharded over 8 GPUs unless the name says over 2, and half: experts, top_k, n, k
SHAPES = {
    "deepseek-v3 up": (256, 8, 512, 7168),
    "deepseek-v3 down": (256, 8, 7168, 256),
    "mixtral-8x7b up": (8, 2, 3584, 4096),
    "mixtral-8x7b down": (8, 2, 4096, 1792),
    "qwen3-30b up x2": (128, 8, 768, 2048),
    "qwen3-30b down x2": (128, 8, 2048, 384),
}


class Arguments(ctypes.Structure):
    _fields_ = (
        [(name, ctypes.c_int64) for name in ("token_count", "top_k", "expert_count", "n", "k")]
        + [("b_is_transposed", ctypes.c_int), ("adds_up", ctypes.c_int)]
        + [(name, ctypes.c_void_p) for name in ("experts", "weights", "a", "b", "bias", "c")]
    )


class Half:
    """One half with its tensors; B is [experts, n, k] as torch.nn.Linear has it."""

    def __init__(self, library, shape, tokens, adds_up):
        self.library, self.adds_up = library, adds_up
        self.experts, self.top_k, self.n, self.k = shape
        draw = lambda *sizes: torch.randn(sizes, device="cuda", dtype=torch.bfloat16)
        self.a = draw(tokens * (self.top_k if adds_up else 1), self.k)
        self.b = draw(self.experts, self.n, self.k)
        popularity = 1 / torch.arange(1, self.experts + 1, device="cuda").float() ** 0.5
        self.chosen = torch.multinomial(popularity.expand(tokens, -1), self.top_k)
        self.numbers = torch.arange(self.experts, device="cuda")
        self.weights = torch.rand(tokens, self.top_k, device="cuda")
        rows = tokens if adds_up else tokens * self.top_k
        self.c = torch.full((rows, self.n), float("nan"), device="cuda", dtype=torch.bfloat16)
        self.arguments = Arguments(
            tokens,
            self.top_k,
            self.experts,
            self.n,
            self.k,
            1,
            adds_up,
            self.chosen.data_ptr(),
            self.weights.data_ptr() if adds_up else None,
            self.a.data_ptr(),
            self.b.data_ptr(),
            None,
            self.c.data_ptr(),
        )
        self.handle = library.mc2_make_chosen(ctypes.byref(self.arguments))

    def ours(self):
        self.library.mc2_run_chosen(self.handle, torch.cuda.current_stream().cuda_stream)
        return self.c

    def theirs(self):
        by_expert, order = self.chosen.flatten().sort()
        offsets = torch.searchsorted(by_expert, self.numbers, right=True, out_int32=True)
        rows = self.a[order if self.adds_up else order // self.top_k]
        products = torch._grouped_mm(rows, self.b.transpose(1, 2), offs=offsets)
        placed = torch.empty_like(products).index_copy_(0, order, products)
        if not self.adds_up:
            return placed
        return (placed.view(-1, self.top_k, self.n).float() * self.weights.unsqueeze(-1)).sum(1).to(torch.bfloat16)

    def error(self, found):
        flat = self.chosen.flatten()
        right = torch.empty(flat.numel(), self.n, device="cuda", dtype=torch.double)
        for expert in flat.unique():
            rows = (flat == expert).nonzero().flatten()
            right[rows] = self.a[rows if self.adds_up else rows // self.top_k].double() @ self.b[expert].double().T
        if self.adds_up:
            right = (right.view(-1, self.top_k, self.n) * self.weights.double().unsqueeze(-1)).sum(1)
        return float((found.double() - right).abs().max() / right.abs().max())

    def check_illegal(self):
        """Checks a number of an expert that does not exist, then a weight that is NaN."""
        token = self.chosen.shape[0] // 2
        kept = self.chosen[token, 1].item()
        self.chosen[token, 1] = self.experts + 3
        found = self.ours()
        torch.cuda.synchronize()
        row = token if self.adds_up else token * self.top_k + 1
        assert found[row].isnan().all(), "not NaN"
        others = torch.arange(found.shape[0], device="cuda") != row
        assert not found[others].isnan().any(), "NaN elsewhere"
        text = ctypes.create_string_buffer(256)
        assert self.library.mc2_chosen_fault(ctypes.c_void_p(self.handle), text, ctypes.c_size_t(256)) == 1
        wanted = f"row {token}, choice 1 is expert {self.experts + 3}; legal: 0 to {self.experts - 1}"
        assert wanted in text.value.decode(), text.value
        self.chosen[token, 1] = kept


def main(path):
    library = open_library(path, "chosen")
    torch.manual_seed(0)
    print(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    print("matmul,experts,top_k,n,k,tokens,mc2_us,torch_us,torch_over_mc2")
    for name, shape in SHAPES.items():
        for tokens in TOKENS:
            half = Half(library, shape, tokens, "down" in name)
            for found in (half.ours(), half.theirs()):
                worst = half.error(found)
                if not worst <= TOLERANCE:
                    raise SystemExit(f"{name}, {tokens} tokens: off by {worst}")
            half.chosen.copy_(half.chosen.flip(0))  # other choices, as in every step of a model
            if not half.error(half.ours()) <= TOLERANCE:
                raise SystemExit(f"{name}, {tokens} tokens: off with other choices")
            columns = compared(captured(half.ours)[0], captured(half.theirs)[0])
            half.check_illegal()
            print(",".join(map(str, (name, *shape, tokens, columns))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
