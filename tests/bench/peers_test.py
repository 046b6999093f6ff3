"""mc2-bench peers on the host backend, with a stand-in for PyTorch. The part that runs on GPUs is not tested here."""

import json
import pathlib
import shlex
import subprocess
import sys
import time
import xml.etree.ElementTree

from bench_program import SOURCE_DIRECTORY, SUCCESS, UNSUPPORTED, USAGE, BenchTest, environment, main, measured

FAKE_TORCH = SOURCE_DIRECTORY / "tests" / "bench" / "fake_torch.py"
HEADING = "m,n,k,op,dtype,ranks\n"
SHAPES = HEADING + "256,64,64,matmul_all_reduce,f32,2\n256,64,64,all_gather_matmul,f32,2\n"


def leftovers():
    return {path.name for path in pathlib.Path("/dev/shm").glob("mc2-peers-*")}


class PeersTest(BenchTest):
    def setUp(self):
        super().setUp()
        self.shapes = self.directory / "shapes.csv"
        self.shapes.write_text(SHAPES)
        self.json = self.directory / "peers.json"

    def arguments(self, *more, torch=FAKE_TORCH):
        return [
            "peers",
            "--backend",
            "host",
            "--link",
            "1Gbit,20us",
            "--shapes",
            self.shapes,
            "--budget",
            "0.5",
            "--torch",
            torch,
            "--json",
            self.json,
            *more,
        ]

    def run_peers(self, *more, fake="", torch=FAKE_TORCH):
        """Returns standard output and the JSON document."""
        done = measured(
            lambda: self.bench(
                *self.arguments(*more, torch=torch), env={**environment(self.directory), "FAKE_TORCH": fake}
            )
        )
        self.assertEqual(done.returncode, SUCCESS, done.stderr)
        return done.stdout, json.loads(self.json.read_text())

    def test_races_mc2_serial_and_torch_on_the_same_operands(self):
        before = leftovers()
        chart = self.directory / "mc2 and 'PyTorch'.svg"
        page, document = self.run_peers("--chart", chart)
        self.assertEqual(leftovers() - before, set())
        texts = [element.text for element in xml.etree.ElementTree.parse(chart).iter() if element.tag.endswith("}text")]
        self.assertLessEqual({"matmul_all_reduce", "all_gather_matmul", "PyTorch/mc2"}, set(texts))
        self.assertIn("matmul_all_reduce\n", page)
        self.assertIn("all_gather_matmul\n", page)
        self.assertIn("no graphs here", page)
        self.assertEqual(shlex.split(document["command"])[1:], list(map(str, self.arguments("--chart", chart))))
        self.assertEqual(document["software"]["torch"], "0.0-fake")
        self.assertEqual(len(document["shapes"]), 2)
        for shape in document["shapes"]:
            race, torch = shape["race"], shape["torch"]
            self.assertGreaterEqual(len(race["serial_us"]), 21)
            self.assertEqual(len(race["serial_us"]), len(race["mc2_us"]))
            self.assertLessEqual(shape["verified_error_ratio"], 1)
            self.assertEqual(torch["peer"], "fused_eager")
            self.assertEqual(torch["forms"]["fused_graph"], {"failure": "no graphs here"})
            # Every round of the stand-in takes 100 us, so the middle of the ratios is 100 / (median of mc2's rounds).
            mc2_us = sorted(torch["mc2_us"])
            self.assertEqual(len(mc2_us), 7)
            self.assertAlmostEqual(torch["forms"]["fused_eager"]["over_mc2"]["value"] * mc2_us[3], 100, places=3)
        self.assertEqual(document["summary"]["all"]["torch_shapes"], 2)

    def test_goes_on_without_a_torch_that_dies(self):
        page, document = self.run_peers(fake="dies")
        self.assertIn("the device is gone", page)
        for shape in document["shapes"]:
            self.assertIn("ended without an answer", shape["torch"]["failure"])
            self.assertGreater(shape["summary"]["mc2_us"], 0)
        self.assertEqual(document["summary"]["all"]["torch_shapes"], 0)

    def test_goes_on_without_a_torch_that_prints_or_lacks_something(self):
        for fake, said in (("prints", "Welcome!"), ("lacks", "no module torch here")):
            with self.subTest(fake=fake):
                page, document = self.run_peers("--ops", "all_gather_matmul", fake=fake)
                self.assertIn(said, page)
                self.assertIn(said, document["torch_missing"])
                self.assertEqual(len(document["shapes"]), 1)

    def test_says_that_the_interpreter_has_no_torch_or_is_missing(self):
        if (
            subprocess.run(
                ["/usr/bin/python3", "-c", "import torch"], stderr=subprocess.DEVNULL, check=False
            ).returncode
            == 0
        ):
            self.skipTest("this interpreter has PyTorch")
        page, _ = self.run_peers("--ops", "all_gather_matmul", torch="/usr/bin/python3")
        self.assertIn("has no module torch", page)
        page, _ = self.run_peers("--ops", "all_gather_matmul", torch="/no/such/python3")
        self.assertIn("cannot be started", page)

    def test_says_of_every_number_of_ranks_why_there_is_no_torch(self):
        self.shapes.write_text(HEADING + "240,64,64,matmul_all_reduce,f32,2\n240,64,64,matmul_all_reduce,f32,3\n")
        page, document = self.run_peers(torch="off")
        self.assertEqual([shape["torch"]["failure"] for shape in document["shapes"]], ["left out by --torch off"] * 2)
        self.assertNotIn("the first shape's", page)

    def test_leaves_out_what_the_time_limit_cuts(self):
        page, document = self.run_peers("--time-limit", "0.001", torch="off")
        self.assertEqual(len(document["shapes"]), 1)
        self.assertEqual([shape["op"] for shape in document["left_out"]], ["all_gather_matmul"])
        self.assertIn("left out\n", page)
        self.assertIn("--torch off", page)

    def test_refuses_without_a_gpu(self):
        done = self.bench("peers", "--shapes", self.shapes)
        if done.returncode == SUCCESS or "world_size" in done.stderr:
            self.skipTest("this machine has GPUs")
        self.assert_refused(done, UNSUPPORTED, "--backend: cuda is not available: ")

    def test_refuses_what_cannot_be_read(self):
        bench = ["peers", "--backend", "host", "--torch", "off"]
        self.refuse(USAGE, [*bench, "--shapes", self.directory / "none.csv"], "none.csv", "no such file")
        self.refuse(USAGE, [*bench, "--shapes", self.shapes, "--ops", "matmul_all_reduce,matmul"], "--ops", "'matmul'")
        self.refuse(USAGE, [*bench, "--shapes", self.shapes, "--ops", "matmul_reduce_scatter"], "--ops", "no shape")
        self.refuse(USAGE, [*bench, "--shapes", self.shapes, "--ranks", "7"], "--ranks", "7")
        self.refuse(USAGE, [*bench, "--shapes", self.shapes, "--budget", "0"], "--budget")
        self.refuse(USAGE, [*bench, "--shapes", self.shapes, "--chart", "peers.gif"], "--chart", ".svg")
        both = self.directory / "both.svg"
        self.refuse(USAGE, [*bench, "--shapes", self.shapes, "--json", both, "--chart", both], "--chart", "--json")
        shapes = self.shapes.rename(both)
        self.refuse(USAGE, [*bench, "--shapes", shapes, "--chart", both], "--chart", "would replace")

    def test_the_picture_in_the_docs_is_of_the_table(self):
        table, chart = SOURCE_DIRECTORY / "data" / "gpu" / "peers_x4.csv", self.directory / "chart.svg"
        self.assertEqual(self.bench("peers", "--table", table, "--chart", chart).returncode, SUCCESS)
        self.assertEqual(
            chart.read_text(),
            (SOURCE_DIRECTORY / "docs" / "figures" / "gpu_peers.svg").read_text(),
            "mc2-bench peers --table data/gpu/peers_x4.csv --chart docs/figures/gpu_peers.svg makes it anew",
        )

    def test_refuses_tables_that_cannot_be_drawn(self):
        table, chart = self.directory / "table.csv", self.directory / "chart.svg"
        head = "kind,m,n,k,serial_us,ideal_us,serial/mc2\n"
        for text, *expected in (
            ("", "heading"),
            (head, "no shape"),
            (head + "matmul,1,1,1,1,1,1\n", "table.csv:2:1", "unknown operator"),
            (head + "matmul_all_reduce,1,1,1,0,1,1\n", "table.csv:2:25", "not above 0"),
        ):
            table.write_text(text)
            self.refuse(USAGE, ["peers", "--table", table, "--chart", chart], *expected)
        self.refuse(USAGE, ["peers", "--table", table], "--table", "--chart")
        self.assertFalse(chart.exists())

    def test_every_shipped_shape_is_legal(self):
        """The time limit of 0 leaves out every shape, so that they are only parsed."""
        lines = (SOURCE_DIRECTORY / "data" / "gpu_shapes.csv").read_text().splitlines()
        rows = [line for line in lines if line[:1].isdigit()]
        self.assertGreaterEqual(len(rows), 20)
        self.assertEqual(len(set(rows)), len(rows))
        self.shapes = SOURCE_DIRECTORY / "data" / "gpu_shapes.csv"
        _, document = self.run_peers("--time-limit", "0", torch="off")
        self.assertEqual(document["shapes"], [])
        self.assertEqual(
            [",".join(str(op[key]) for key in ("m", "n", "k", "op", "dtype", "ranks")) for op in document["left_out"]],
            rows,
        )

    def test_ends_a_torch_that_hangs_when_interrupted(self):
        """The stand-in never starts; Ctrl-C must not wait for it."""
        env = {**environment(self.directory), "FAKE_TORCH": "hangs"}
        command = [sys.argv[1], *map(str, self.arguments())]
        with subprocess.Popen(
            command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            for line in process.stderr:
                if "starting PyTorch" in line:
                    break
            time.sleep(0.3)
            process.send_signal(2)
            _, rest = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130, rest)


if __name__ == "__main__":
    main()
