"""Runs each program of docs/examples/python and the benchmark of PyTorch's layers as its reader would."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "docs" / "examples" / "python"
MOST_RUNS = 6


class ExamplesTest(unittest.TestCase):
    def run_example(self, name, *arguments, spoilt=None):
        """Returns what the example printed. Repeats a run that prints `spoilt`: another program disturbed its times."""
        for _ in range(MOST_RUNS):
            done = subprocess.run(
                [sys.executable, EXAMPLES / name, *arguments],
                capture_output=True,
                text=True,
                timeout=100,
                env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
            )
            if spoilt is None or spoilt not in done.stdout:
                break
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "python3-numpy is not installed")
    def test_the_notebook_plans_runs_and_draws(self):
        with tempfile.TemporaryDirectory() as folder:
            printed = self.run_example("notebook.py", folder, spoilt="raced, no model")
            self.assertIn("fused", printed)
            if "raced, no model" not in printed:
                self.assertIn("as predicted", printed)
            self.assertIn("<svg", (pathlib.Path(folder) / "plan.html").read_text())

    @unittest.skipUnless(importlib.util.find_spec("torch"), "python3-torch is not installed")
    def test_the_mlp_has_equal_losses(self):
        self.assertIn("losses are equal", self.run_example("mlp.py"))

    @unittest.skipUnless(importlib.util.find_spec("torch"), "python3-torch is not installed")
    def test_decoding_gives_the_same_by_both_programs(self):
        sizes = (
            "--layers 1 --width 128 --heads 4 --kv-heads 2 --hidden 256 --context 16 --batch 2 80 --rounds 3".split()
        )
        lines = self.run_example("decode.py", *sizes).splitlines()
        self.assertIn("runs as torch.distributed's calls: m: 2 rows are too few to cut", lines)
        rows = [line.split() for line in lines[-2:]]
        self.assertEqual([int(row[0]) for row in rows], [2, 80])
        self.assertTrue(all(float(row[-1]) < 1e-5 for row in rows), rows)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "python3-torch is not installed")
    def test_a_recommendation_model_trains_alike_by_both_programs(self):
        sizes = "--samples 512 --rows 1000 --tables 3 --columns 16 --bag 4 --hidden 32 --rounds 5".split()
        lines = self.run_example("dlrm.py", *sizes).splitlines()
        self.assertIn("2 ranks of 3 tables, 512 samples, 4 rows a bag", lines)
        loss, off = (float(word) for word in (lines[-1].split()[1].rstrip(","), lines[-1].split()[-3]))
        self.assertLess(loss, 1)
        self.assertLess(off, 1e-5)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "python3-torch is not installed")
    def test_the_benchmark_starts_its_ranks_and_refuses_nonsense(self):
        command = [sys.executable, ROOT / "tests" / "bench" / "torch_layers.py"]
        for given, started, text in (
            (["--ranks", "1"], {}, "--ranks: is 1; legal: 2 to 1024"),
            (["--ranks", "3"], {"RANK": "0", "WORLD_SIZE": "2"}, "--ranks: is 3, but 2 processes were started"),
            (["--kinds", "all_reduce"], {}, "--kinds: all_reduce: legal are matmul_all_reduce"),
        ):
            done = subprocess.run(
                [*command, *given],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
                env={**os.environ, **started},
            )
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(text, done.stderr)
        done = subprocess.run(
            [
                *command,
                "--ranks",
                "2",
                "--shrink",
                "32",
                "--rows",
                "128",
                "--rounds",
                "3",
                "--kinds",
                "matmul_all_reduce",
            ],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("llama-3-8b mlp down, matmul_all_reduce", done.stdout)


if __name__ == "__main__":
    unittest.main()
