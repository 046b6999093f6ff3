"""torch_peer.py with a stub of PyTorch: its answers, and which results it counts as wrong."""

import array
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = HERE / "torch_peer.py"
M, N, K = 8, 6, 4
FUSED, UNFUSED = ["fused_eager", "fused_graph"], ["unfused_eager", "unfused_graph"]


class TorchPeerProgramTest(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="mc2-torch-"))
        self.addCleanup(shutil.rmtree, self.directory)
        a, b = ([random.uniform(-1, 1) for _ in range(count)] for count in (M * K, K * N))
        self.write("a", a)
        self.write("b", b)
        self.write("c", [sum(a[i * K + t] * b[t * N + j] for t in range(K)) for i in range(M) for j in range(N)])

    def write(self, name, elements):
        (self.directory / f"{name}.0").write_bytes(array.array("f", elements).tobytes())

    def answers(self, *requests, fault="", ranks=1):
        environment = {
            **os.environ,
            "PYTHONPATH": str(HERE / "stub_torch"),
            "STUB_TORCH": fault,
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        done = subprocess.run(
            [sys.executable, PROGRAM, str(ranks)],
            input="".join(json.dumps(r) + "\n" for r in requests),
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.errors = done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def opening(self, op):
        return {"do": "open", "op": op, "dtype": "f32", "m": M, "n": N, "k": K, "directory": str(self.directory)}

    def test_times_every_form_of_every_kind(self):
        for op, forms in (
            ("all_gather_matmul", FUSED + UNFUSED),
            ("matmul_reduce_scatter", FUSED + UNFUSED),
            ("matmul_all_reduce", UNFUSED),
        ):
            with self.subTest(op=op):
                hello, opened, timed, closed = self.answers(
                    self.opening(op), {"do": "time", "repetitions": 3}, {"do": "close"}
                )
                self.assertEqual((hello["torch"], hello["nccl"]), ("0.0-stub", "2.28.9"))
                self.assertEqual(sorted(opened["forms"]), forms)
                for name in forms:
                    self.assertLessEqual(opened["forms"][name]["error_ratio"], 1)
                    self.assertEqual(len(timed["times_us"][name]), 3)
                    self.assertGreater(min(timed["times_us"][name]), 0)
                self.assertEqual(closed, {})

    def test_leaves_out_a_form_whose_result_differs(self):
        _, opened, timed = self.answers(
            self.opening("all_gather_matmul"), {"do": "time", "repetitions": 1}, fault="wrong"
        )
        for name in FUSED:
            self.assertIn("another result than mc2's", opened["forms"][name]["failure"])
        self.assertEqual(sorted(timed["times_us"]), UNFUSED)

    def test_compares_with_the_file(self):
        self.write("c", [0.5] * (M * N))
        _, opened = self.answers(self.opening("matmul_all_reduce"))
        for form in opened["forms"].values():
            self.assertIn("another result than mc2's", form["failure"])

    def test_goes_on_without_graphs(self):
        _, opened, timed = self.answers(
            self.opening("matmul_reduce_scatter"), {"do": "time", "repetitions": 1}, fault="no_graphs"
        )
        self.assertIn("not permitted when stream is capturing", opened["forms"]["fused_graph"]["failure"])
        self.assertEqual(sorted(timed["times_us"]), ["fused_eager", "unfused_eager"])

    def test_says_which_rank_ended_and_why(self):
        (answer,) = self.answers(fault="no_device", ranks=2)
        self.assertIn("rank 0 ended with code 1", answer["error"])
        self.assertIn("invalid device ordinal", self.errors)

    def test_ends_with_an_error_when_a_worker_does(self):
        hello, answer = self.answers(self.opening("matmul"))  # no such operator
        self.assertIn("torch", hello)
        self.assertIn("rank 0 ended with code 1", answer["error"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
