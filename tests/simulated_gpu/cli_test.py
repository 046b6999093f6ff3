"""Runs mc2 with --backend cuda on two simulated GPUs with 256 MiB of memory each."""

import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from program import NEGATIVE, SUCCESS, UNSUPPORTED, ProgramTest, main, operator  # noqa: E402  (tests/cli is no package)

ROWS_OF_A_RANK = ["matmul_reduce_scatter", "all_gather_matmul", "matmul_all_to_all", "all_to_all_matmul"]


class SimulatedGpuTest(ProgramTest):
    def run_blocks(self, kind, blocks, *more, asked=operator(512, 256, 128, "bf16", 2)):
        return self.mc2("run", "--backend", "cuda", "--op", kind, *asked, "--blocks", blocks, "--pairs", 5, *more)

    def test_doctor_names_the_gpus(self):
        page = self.succeed("doctor", "--store", self.store)
        self.assertIn("backend cuda: available, 2 x simulated GPU, CUDA ", page)

    def test_every_kind_runs_and_is_right(self):
        for kind, blocks in [("matmul_all_reduce", "128,384"), *((kind, "128,128") for kind in ROWS_OF_A_RANK)]:
            done = self.run_blocks(kind, blocks, "--json")
            self.assertIn(done.returncode, (SUCCESS, NEGATIVE), done.stderr)  # any gain depends on the CPU
            document = json.loads(done.stdout)
            self.assertLessEqual(document["verification"]["worst_error_ratio"], 1, kind)

    def test_nccl_copy_engines_and_our_kernels_run(self):
        for variant in [
            "nccl",
            "direct(ctas=8)",
            "persistent(ctas=8,gemm_sms=124)",
            "copy_engine(gemm_sms=132,slices=2)",
            "tile_store(gemm_sms=132,slices=2)",
        ]:
            done = self.run_blocks("matmul_reduce_scatter", "128,128", "--variant", variant)
            self.assertIn(done.returncode, (SUCCESS, NEGATIVE), f"{variant}: {done.stderr}")
            self.assertIn("verdict", done.stdout)

    def test_refusals_name_what_was_found(self):
        asked = operator(512, 256, 128, "bf16", 3)
        three = self.run_blocks("matmul_all_reduce", "512", asked=asked)
        self.assert_refused(three, UNSUPPORTED, "3 ranks need as many CUDA devices and this machine has 2")
        asked = operator(8192, 8192, 8192, "bf16", 2)
        large = self.run_blocks("matmul_all_reduce", "8192", asked=asked)
        self.assert_refused(large, UNSUPPORTED, "of device memory and its device has 256 MiB available")


if __name__ == "__main__":
    main()
