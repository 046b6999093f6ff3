"""Runs mc2 with --backend cuda on two simulated GPUs with 256 MiB of memory each."""

import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from program import (  # noqa: E402  (tests/cli is no package)
    NEGATIVE,
    SUCCESS,
    UNSUPPORTED,
    USAGE,
    ProgramTest,
    environment,
    main,
    operator,
)

ROWS_OF_A_RANK = ["matmul_reduce_scatter", "all_gather_matmul", "matmul_all_to_all", "all_to_all_matmul"]


class SimulatedGpuTest(ProgramTest):
    def run_blocks(self, kind, blocks, *more, asked=operator(512, 256, 128, "bf16", 2)):
        return self.mc2("run", "--backend", "cuda", "--op", kind, *asked, "--blocks", blocks, "--pairs", 6, *more)

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

    def test_ranks_share_a_device(self):
        four = operator(512, 256, 128, "bf16", 4)
        shared = ["--ranks-per-device", 2]
        for kind, blocks in [("matmul_all_reduce", "128,384"), *((kind, "64,64") for kind in ROWS_OF_A_RANK)]:
            done = self.run_blocks(kind, blocks, *shared, "--json", asked=four)
            self.assertEqual(done.returncode, SUCCESS, done.stderr)
            document = json.loads(done.stdout)
            self.assertLessEqual(document["verification"]["worst_error_ratio"], 1, kind)
            self.assertNotIn("measured", document)
        page = self.run_blocks("matmul_all_reduce", "128,384", *shared, asked=four).stdout
        self.assertIn("[SHARED DEVICE: by 2 ranks]", page)
        self.assertIn("none: ranks that share a device wait for one another", page)
        self.assertNotIn(" us", page)
        self.assertEqual(list(self.directory.rglob("*.db")), [])

    def test_ranks_that_share_a_device_are_not_timed(self):
        asked = ["--backend", "cuda", "--op", "matmul_all_reduce", *operator(512, 256, 128, "bf16", 4)]
        shared = {**environment(self.directory), "MC2_RANKS_PER_DEVICE": "2"}
        for command in ("tune", "profile"):
            done = self.mc2(command, *asked, "--store", self.store, env=shared)
            self.assert_refused(done, UNSUPPORTED, "ranks_per_device: is 2", "nothing is timed or kept there")
        nccl = self.run_blocks("matmul_all_reduce", "512", "--variant", "nccl", "--ranks-per-device", 2)
        self.assert_refused(nccl, UNSUPPORTED, "NCCL's, which takes a device only once")
        six = self.run_blocks(
            "matmul_all_reduce", "512", "--ranks-per-device", 2, asked=operator(512, 256, 128, "bf16", 6)
        )
        self.assert_refused(six, UNSUPPORTED, "6 ranks need 3 CUDA devices and this machine has 2")
        for value in ("0", "9", "two"):
            done = self.mc2("doctor", "--store", self.store, env={**shared, "MC2_RANKS_PER_DEVICE": value})
            self.assertIn(f'MC2_RANKS_PER_DEVICE: is "{value}"; legal:', done.stdout)
        on_host = self.mc2("run", *operator(512, 256, 128, "bf16", 2), "--blocks", "512", "--ranks-per-device", 2)
        self.assert_refused(on_host, USAGE, "--ranks-per-device: is for --backend cuda alone")

    def test_refusals_name_what_was_found(self):
        asked = operator(512, 256, 128, "bf16", 3)
        three = self.run_blocks("matmul_all_reduce", "512", asked=asked)
        self.assert_refused(three, UNSUPPORTED, "3 ranks need as many CUDA devices and this machine has 2")
        asked = operator(8192, 8192, 8192, "bf16", 2)
        large = self.run_blocks("matmul_all_reduce", "8192", asked=asked)
        self.assert_refused(large, UNSUPPORTED, "of device memory and its device has 256 MiB available")


if __name__ == "__main__":
    main()
