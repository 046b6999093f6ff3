"""Cuts along n, epilogues and 8-bit integers, from the profile to the run."""

import json

import program
from program import MACHINE, NO_ANSWER, QUICK, SUCCESS, UNSUPPORTED, USAGE, ProgramTest, operator

FEW_PAIRS = ["--pairs", "6", "--budget", "1"]
INVENTED_MODEL = program.SOURCE_DIRECTORY / "tests" / "install_consumer" / "model.json"
# 2 * 16 * 512 * 64 flop at 1 Gflop/s take 1049 us, 16 * 512 * 4 bytes at 1 Gbit/s 262 us. Two blocks hide half of the
# 262 us.
FEW_ROWS = ["--m", 16, "--n", 512, "--k", 64]


class FewRowsTest(ProgramTest):
    def test_blocks_are_columns_from_the_profile_to_the_trace(self):
        asked = [*FEW_ROWS, *MACHINE, "--store", self.store]
        profile = self.directory / "profile.json"
        page = self.succeed("profile", *asked, *QUICK, "--align", 64, "--out", profile)
        self.assertIn("matmul 512 columns", page)
        self.assertIn("block_columns", json.loads(profile.read_text())["samples"][0])
        page = self.tuned("--verbose", *asked, *QUICK, "--align", 64).stdout
        self.assertIn("us/column", page)
        plan, trace = self.directory / "plan.json", self.directory / "trace.json"
        self.succeed("plan", *asked, "--blocks", "4x128", "--out", plan)
        self.assertEqual(json.loads(plan.read_text())["cut"], {"block_columns": [128] * 4})
        page = self.succeed("run", "--plan", plan, *MACHINE, *FEW_PAIRS, "--trace", trace, "--store", self.store)
        self.assertIn("4 x 128", page)
        blocks = [event["args"] for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
        self.assertEqual({tuple(block) for block in blocks}, {("columns",)})
        explained = self.succeed("explain", plan, "--all", "--store", self.store)
        self.assertIn("columns (n)", explained)
        self.assertNotIn("rows (m)", explained)

    def test_a_model_answers_for_another_n_and_for_no_other_m(self):
        asked = ["--k", 64, *MACHINE, "--store", self.store]
        self.tuned("--m", 16, "--n", 512, *asked, *QUICK)
        plan = json.loads(self.succeed("plan", "--m", 16, "--n", 1000, *asked, "--json"))
        self.assertEqual(sum(plan["cut"]["block_columns"]), 1000)
        for m in (17, 512):
            self.refuse(NO_ANSWER, ["plan", "--m", m, "--n", 512, *asked], "blocks of columns")

    def test_rows_of_an_earlier_plan_are_refused(self):
        asked = [*FEW_ROWS, *MACHINE, "--store", self.store]
        plan = json.loads(self.tuned(*asked, *QUICK, "--json").stdout)
        plan["cut"] = {"block_rows": [16]}
        file = self.directory / "plan.json"
        file.write_text(json.dumps(plan))
        self.refuse(USAGE, ["run", "--plan", file, *MACHINE, "--store", self.store], "cut along n")

    def test_every_backend_cuts_columns(self):
        # The matmul takes 20 us + 0.5 us a column and the collective 20 us + 0.5 us a KiB. For 2048 columns of 16 rows
        # these are 1044 us and 84 us.
        model = json.loads(INVENTED_MODEL.read_text())
        model["op"].update(m=16, n=2048)
        model["variants"][0]["compute"]["curve"]["axis"] = "columns"
        file = self.directory / "model.json"
        for backend in ("host", "mpi", "cuda"):
            model["fingerprint"]["backend"] = backend
            file.write_text(json.dumps(model))
            plan = json.loads(self.succeed("plan", "--model", file, "--m", 16, "--n", 2048, "--k", 128, "--json"))
            self.assertGreater(len(plan["cut"]["block_columns"]), 1, backend)


class OperatorOfAModelTest(ProgramTest):
    def test_what_is_left_out_is_as_in_the_model(self):
        model = json.loads(INVENTED_MODEL.read_text())
        model["op"].update(kind="matmul_reduce_scatter", m=2048, dtype="bf16", world_size=4, epilogue="bias")
        file = self.directory / "model.json"
        file.write_text(json.dumps(model))
        asked = lambda *options: json.loads(self.succeed("plan", "--model", file, *options, "--json"))["op"]
        self.assertEqual(asked(), model["op"])
        self.assertEqual(asked("--m", 1024), {**model["op"], "m": 1024})
        whole = [
            "--op",
            "matmul_reduce_scatter",
            *operator(1024, model["op"]["n"], model["op"]["k"], "bf16", 4),
            "--bias",
        ]
        self.assertEqual(asked(*whole), {**model["op"], "m": 1024})
        for options in (["--op", "matmul_all_reduce"], ["--dtype", "f32"], ["--ranks", 2], ["--residual"]):
            self.refuse(
                NO_ANSWER, ["plan", "--model", file, *options], "no model of", "describes matmul_reduce_scatter"
            )
        near = ["plan", "--model", file, "--n", model["op"]["n"] + 8]
        self.assertEqual(json.loads(self.succeed(*near, "--json"))["makespan"]["reason"][:16], "transferred from")
        self.refuse(NO_ANSWER, [*near, "--no-transfer"], "no model of", "transfer is ruled out")


class EpilogueTest(ProgramTest):
    def test_epilogues_and_types_are_kept_apart_and_run(self):
        """On real lanes. Where the times fit no curve, a plan is kept without a model."""
        for options in (
            ["--bias"],
            ["--bias", "--residual"],
            ["--residual", "--op", "matmul_all_to_all"],
            ["--residual", "--norm", "rms"],
            ["--dtype", "i8"],
            ["--dtype", "i8", "--bias", "--op", "all_gather_matmul"],
        ):
            asked = ["--m", 192, "--n", 64, "--k", 64, *options, "--link", "1Gbit,20us", "--store", self.store]
            with self.subTest(options=options):
                tuned = self.mc2("tune", *asked, *QUICK)
                if tuned.returncode == UNSUPPORTED:
                    self.assert_refused(tuned, UNSUPPORTED, "--dtype: ", "i8")
                else:
                    self.assertEqual(tuned.returncode, SUCCESS, tuned.stderr)
                    self.assertIn("correct: ", self.succeed("run", *asked, *FEW_PAIRS))
        self.refuse(
            NO_ANSWER,
            ["plan", "--m", 192, "--n", 64, "--k", 64, "--link", "1Gbit,20us", "--store", self.store],
            "matmul_all_reduce m=192",
        )
        asked = ["plan", "--m", 192, "--n", 64, "--k", 64, "--norm"]
        self.refuse(USAGE, [*asked, "batch"], "--norm: ", "legal: none, rms")
        self.refuse(
            USAGE, [*asked, "rms", "--op", "all_gather_matmul"], "--norm: ", "matmul_all_reduce, matmul_reduce_scatter"
        )

    def test_shapes_name_epilogues(self):
        shapes = self.directory / "shapes.csv"
        shapes.write_text("m,n,k,epilogue\n96,64,64,bias\n96,64,64,gelu\n")
        self.refuse(
            USAGE,
            ["tune", "--shapes", shapes, *MACHINE, "--store", self.store],
            "shapes.csv:3",
            "gelu",
            "bias+residual",
        )
        shapes.write_text("m,n,k,op,epilogue\n96,64,64,all_gather_matmul,rms_norm\n")
        self.refuse(
            USAGE,
            ["tune", "--shapes", shapes, *MACHINE, "--store", self.store],
            "shapes.csv:2:28",
            "norm: is rms",
            "matmul_all_reduce, matmul_reduce_scatter",
        )
        shapes.write_text("m,n,k,epilogue\n96,64,64,residual+rms_norm\n96,64,64,bias\n")
        self.succeed("tune", "--shapes", shapes, "--norm", "rms", *MACHINE, "--store", self.store, *QUICK)
        kept = self.succeed("db", "list", "--store", self.store)
        self.assertIn("residual+rms_norm", kept)
        self.assertNotIn("bias+rms_norm", kept)


if __name__ == "__main__":
    program.main()
