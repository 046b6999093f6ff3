"""mc2 sweep: a row for every cell of the grid, the same text for any number of threads, and one line for whatever is
wrong."""

import csv
import io
import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import time

import program
from program import (
    EXAMPLE,
    EXAMPLE_MODEL,
    INTERRUPTED,
    MACHINE,
    NO_ANSWER,
    SUCCESS,
    SYSTEM,
    USAGE,
    ProgramTest,
    operator,
)

TOPOLOGY = program.SOURCE_DIRECTORY / "data" / "topologies" / "dgx_h100.json"
HEADING = "model,layer,parallel,n,k,units,dtype\n"
# On 8 ranks, down is the operator that EXAMPLE_MODEL describes: n = 8192, k = 24576 / 8 = 3072.
DOWN = "Toy,down,row,8192,24576,,f16\n"
UP = "Toy,up,column,8192,3072,4,f16\n"


class SweepTest(ProgramTest):
    def shapes(self, text):
        file = self.directory / "layers.csv"
        file.write_text(text, encoding="utf-8")
        return file

    def example(self, *arguments, ranks=8):
        """The arguments of a sweep of the toy layers, with the model of the first layer."""
        shapes = self.shapes(HEADING + DOWN + UP)
        return ["sweep", "--shapes", shapes, "--model", EXAMPLE_MODEL, "--ranks", ranks, *arguments]

    def rows(self, *arguments):
        return list(csv.DictReader(io.StringIO(self.succeed(*arguments, "--csv"))))


class TableTest(SweepTest):
    def test_rows_are_in_grid_order(self):
        rows = self.rows(*self.example("--m", "4096,1024:2048:1024", ranks="2,8"))
        expected = [
            (layer, kind, ranks, m)
            for layer, kinds in (
                ("down", ("matmul_all_reduce", "matmul_reduce_scatter")),
                ("up", ("all_gather_matmul",)),
            )
            for kind in kinds
            for ranks in ("2", "8")
            for m in ("1024", "2048", "4096")
        ]
        self.assertEqual([(row["layer"], row["kind"], row["ranks"], row["m"]) for row in rows], expected)

    def test_rows_agree_with_plan(self):
        rows = self.rows(*self.example("--m", "1000,4096", "--kinds", "matmul_all_reduce"))
        self.assertEqual(len(rows), 2)
        for row in rows:
            plan = json.loads(
                self.succeed("plan", "--model", EXAMPLE_MODEL, *operator(row["m"], 8192, 3072, "f16", 8), "--json")
            )
            self.assertEqual((row["n"], row["k"], row["dtype"]), ("8192", "3072", "f16"))
            self.assertAlmostEqual(
                float(row["makespan_us"]), plan["makespan"]["us"], delta=1e-6 * plan["makespan"]["us"]
            )
            self.assertAlmostEqual(float(row["serial_us"]), plan["serial_us"], delta=1e-6 * plan["serial_us"])
            self.assertAlmostEqual(float(row["benefit"]), 1 - plan["makespan"]["us"] / plan["serial_us"], delta=2e-6)
            self.assertEqual((row["bound"], row["provenance"]), (plan["bound"], plan["makespan"]["provenance"]))
            self.assertEqual(row["status"], "cut" if len(plan["cut"]["block_rows"]) > 1 else "uncut")
            self.assertIn(plan["reason"], row["reason"])
            self.assertIn("worked_example_model.json", row["source"])

    def test_a_cell_without_a_plan_is_a_row_that_says_why(self):
        rows = self.rows(*self.example("--m", "1000,1001"))
        by_cell = {(row["kind"], row["m"]): row for row in rows}
        self.assertEqual(len(by_cell), 6)
        unknown = by_cell["matmul_reduce_scatter", "1000"]
        self.assertEqual((unknown["status"], unknown["refusal"], unknown["n"]), ("refused", "not_found", "8192"))
        self.assertIn("--model: no model of matmul_reduce_scatter", unknown["reason"])
        ragged = by_cell["matmul_reduce_scatter", "1001"]
        self.assertEqual(ragged["refusal"], "invalid_spec")
        self.assertIn("multiple of the 8 ranks, e.g. 1008", ragged["reason"])
        divided = by_cell["all_gather_matmul", "1000"]
        self.assertEqual((divided["refusal"], divided["n"], divided["k"]), ("infeasible", "", ""))
        self.assertIn("8 ranks do not divide n = 8192 into whole parts, of which it has 4", divided["reason"])
        self.assertEqual(divided["makespan_us"] + divided["blocks"] + divided["source"], "")

    def test_the_summary_counts_rows(self):
        done = self.complete(*self.example("--m", "1000"))
        self.assertRegex(
            done.stderr, r"^mc2: 3 rows: 1 plans \(1 cut, 0 uncut\), 2 refused; \d+\.\d\d s on \d+ threads\n$"
        )

    def test_threads_change_nothing(self):
        for form in ("--csv", "--json"):
            asked = self.example("--m", "128:65536:128", "--kinds", "matmul_all_reduce", form)
            one = self.succeed(*asked, "--threads", 1)
            self.assertEqual(self.succeed(*asked, "--threads", 7), one)
            self.assertEqual(one.count("matmul_all_reduce"), 512)

    def test_json_follows_its_schema_and_agrees_with_csv(self):
        asked = self.example("--m", "8,1000,1001,4096")
        document = json.loads(self.succeed(*asked, "--json"))
        program.validators()["mc2.sweep/1"].validate(document)
        rows = self.rows(*asked)
        self.assertEqual(len(rows), len(document["rows"]))
        for in_csv, in_json in zip(rows, document["rows"]):
            self.assertEqual({name for name, cell in in_csv.items() if cell}, set(in_json))
            for name, value in in_json.items():
                self.assertEqual(float(in_csv[name]) if isinstance(value, (int, float)) else in_csv[name], value)
        counted = {status: sum(row["status"] == status for row in rows) for status in ("cut", "uncut", "refused")}
        self.assertEqual(document["summary"], counted)

    def test_strategy_and_options_reach_the_plans(self):
        document = json.loads(
            self.succeed(*self.example("--m", 4096, "--kinds", "matmul_all_reduce", "--strategy", "formula", "--json"))
        )
        self.assertEqual(document["options"]["strategy"], "formula")
        # docs/cost_model.md section 3: the recipe cuts the worked example into 512 and 4 x 896.
        self.assertEqual(document["rows"][0]["blocks"], "512 + 4 x 896")

    def test_output_file_is_whole_or_unchanged(self):
        file = self.directory / "plans.csv"
        printed = self.succeed(*self.example("--m", 4096, "--csv"))
        self.assertEqual(self.succeed(*self.example("--m", 4096, "--out", file)), "")
        self.assertEqual(file.read_text(), printed)
        self.refuse(SYSTEM, self.example("--m", 4096, "--out", self.directory / "no" / "plans.csv"), "plans.csv")

    def test_experts_are_dispatched_to_and_combined_from_undivided(self):
        layers = self.shapes(
            HEADING + "Toy,expert_up,dispatch,2048,7168,,bf16\nToy,expert_down,combine,7168,2048,,bf16\n"
        )
        topology = program.SOURCE_DIRECTORY / "data" / "topologies" / "dgx_h100.json"
        rows = self.rows("sweep", "--shapes", layers, "--topology", topology, "--ranks", "4,8", "--m", 8192)
        self.assertEqual(
            [(row["kind"], row["ranks"], row["n"], row["k"]) for row in rows],
            [
                ("all_to_all_matmul", "4", "2048", "7168"),
                ("all_to_all_matmul", "8", "2048", "7168"),
                ("matmul_all_to_all", "4", "7168", "2048"),
                ("matmul_all_to_all", "8", "7168", "2048"),
            ],
        )
        page = self.succeed("sweep", "--shapes", layers, "--topology", topology, "--ranks", "4,8", "--m", 8192)
        self.assertIn("m of experts: rows that reach a rank, where mc2 model counts tokens", page)
        for row in rows:
            blocks = json.loads(
                self.succeed(
                    "plan",
                    "--topology",
                    topology,
                    "--op",
                    row["kind"],
                    *operator(8192, row["n"], row["k"], "bf16", row["ranks"]),
                    "--json",
                )
            )
            self.assertEqual(sum(blocks["cut"]["block_rows"]), 8192 // int(row["ranks"]))
            self.assertAlmostEqual(
                float(row["makespan_us"]), blocks["makespan"]["us"], delta=1e-6 * blocks["makespan"]["us"]
            )
            self.assertLessEqual(float(row["makespan_us"]), float(row["serial_us"]))

    def test_names_that_csv_and_json_must_quote(self):
        file = self.shapes('model,layer,parallel,n,k,dtype\n"A ""b"", c",\u00e9\\x,row,8192,24576,f16\n')
        asked = ["sweep", "--shapes", file, "--model", EXAMPLE_MODEL, "--ranks", 8, "--m", 4096]
        row = self.rows(*asked)[0]
        self.assertEqual((row["model"], row["layer"]), ('A "b", c', "\u00e9\\x"))
        document = json.loads(self.succeed(*asked, "--json"))
        self.assertEqual((document["rows"][0]["model"], document["rows"][0]["layer"]), ('A "b", c', "\u00e9\\x"))


class PageTest(SweepTest):
    def test_a_line_for_each_layer_and_ranks_and_every_reason_once(self):
        page = self.succeed(*self.example("--m", "1000,4096", ranks="2,8"))
        self.assertIn("Toy, matmul_all_reduce, f16\n", page)
        cut = json.loads(self.succeed("plan", "--model", EXAMPLE_MODEL, *EXAMPLE, "--json"))
        benefit = 100 * (1 - cut["makespan"]["us"] / cut["serial_us"])
        self.assertRegex(page, rf"(?m)^  down +8 +[\d.]+ % +{benefit:.1f} %$")
        self.assertRegex(page, r"(?m)^  down +2 +- +-$")
        self.assertEqual(page.count("no model of"), 1)

    def test_gains_of_plans_that_are_not_cut_are_marked(self):
        asked = ["sweep", "--models", "Llama-3-8B", "--topology", TOPOLOGY, "--ranks", 8]
        gathers = [*asked, "--kinds", "all_gather_matmul"]
        page = self.succeed(*gathers)
        lines = {line.split()[0]: re.findall(r"\*?-?[\d.]+ %|whole", line) for line in page.split("\n") if "%" in line}
        seen = set()
        for row in self.rows(*gathers):
            mark = "" if row["status"] == "cut" else "*"
            seen.add(mark)
            self.assertEqual(lines[row["layer"]].pop(0), f"{mark}{100 * float(row['benefit']):.1f} %")
        self.assertEqual(seen, {"", "*"})
        self.assertIn("*: saved by one uncut block, which overlaps by itself", program.unwrapped(page))
        others = self.succeed(*asked, "--kinds", "matmul_all_reduce")
        self.assertIn("whole: serial is best", program.unwrapped(others))
        self.assertNotIn("*", others)

    def test_fits_a_screen_whatever_the_grid(self):
        page = self.succeed("sweep", "--topology", TOPOLOGY, "--m", "128:16384:128")
        lines = page.split("\n")
        self.assertLessEqual(len(lines), 41)  # the last line is empty
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertRegex(page, r"not shown: \d+ lines, \d+ values of m; --csv or --json")

    def test_a_page_without_a_plan_is_an_error(self):
        self.store.touch()
        done = self.mc2("sweep", "--store", self.store)
        self.assertEqual((done.returncode, done.stdout), (NO_ANSWER, ""))
        self.assertIn("has no cost model", program.unwrapped(done.stderr))
        self.assertIn("mc2 tune", done.stderr)
        self.assertLess(len(done.stderr), 1000)


class BuiltInLayersTest(SweepTest):
    def plan_free_rows(self, *arguments):
        """The rows of a sweep for which no model exists."""
        self.store.touch()  # an empty store
        done = self.mc2("sweep", *arguments, "--m", 1024, "--csv", "--store", self.store)
        self.assertEqual(done.returncode, NO_ANSWER, done.stderr)
        return list(csv.DictReader(io.StringIO(done.stdout)))

    def test_they_are_the_models_in_data(self):
        names = {file.stem for file in (program.SOURCE_DIRECTORY / "data" / "llm").glob("*.json")}
        self.assertEqual({row["model"] for row in self.plan_free_rows()}, names)

    def test_every_model_has_both_parallelisms_at_2_and_4_ranks(self):
        rows = self.plan_free_rows()
        models = {row["model"] for row in rows}
        divided = {(row["model"], row["kind"], row["ranks"]) for row in rows if row["n"]}
        for model in models:
            for kind in ("matmul_all_reduce", "matmul_reduce_scatter", "all_gather_matmul"):
                for ranks in ("2", "4"):
                    self.assertIn((model, kind, ranks), divided)

    def test_one_rank_of_llama_3_70b(self):
        # 64 heads and 2 x 8 KV heads of 128 columns: (64 + 16) * 128 / 8 = 1280; the MLP's 28672 / 8 = 3584.
        rows = self.plan_free_rows("--models", "Llama-3-70B", "--ranks", 8)
        shapes = {(row["layer"], row["kind"]): (row["n"], row["k"], row["dtype"]) for row in rows}
        self.assertEqual(shapes["attention_qkv", "all_gather_matmul"], ("1280", "8192", "bf16"))
        self.assertEqual(shapes["attention_output", "matmul_all_reduce"], ("8192", "1024", "bf16"))
        self.assertEqual(shapes["mlp_gate_up", "all_gather_matmul"], ("7168", "8192", "bf16"))
        self.assertEqual(shapes["mlp_down", "matmul_reduce_scatter"], ("8192", "3584", "bf16"))

    def test_heads_stay_whole(self):
        # Qwen2-7B has 28 heads and 4 KV heads, so 8 ranks divide its MLP but not its attention.
        rows = self.plan_free_rows("--models", "Qwen2-7B", "--ranks", 8)
        refused = {row["layer"] for row in rows if row["refusal"] == "infeasible"}
        self.assertEqual(refused, {"attention_qkv", "attention_output"})


class SourceTest(SweepTest):
    def test_kept_models_of_this_machine(self):
        self.profiled_and_fitted()
        file = self.shapes("model,layer,parallel,n,k,dtype\nToy,kept,row,64,128,f32\nToy,other,row,64,256,f32\n")
        done = self.complete(
            "sweep",
            "--shapes",
            file,
            "--ranks",
            "2,1000",
            "--m",
            "8,80,96,200",
            *MACHINE,
            "--kinds",
            "matmul_all_reduce",
            "--csv",
            "--store",
            self.store,
        )
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        few, *kept = [row for row in rows if row["layer"] == "kept" and row["ranks"] == "2"]
        self.assertEqual(few["refusal"], "not_found")  # takes a model of the same m, but says nothing of other m
        self.assertEqual(len(kept), 3)
        for row in kept:
            self.assertIn("kept model of m=96", row["source"])
            self.assertIn("EMULATED", row["source"])
            plan = json.loads(
                self.succeed("plan", "--m", row["m"], "--n", 64, "--k", 64, *MACHINE, "--json", "--store", self.store)
            )
            self.assertAlmostEqual(
                float(row["makespan_us"]), plan["makespan"]["us"], delta=1e-6 * plan["makespan"]["us"]
            )
        for row in rows:
            if row["layer"] == "other" and row["ranks"] == "2" and row["m"] != "8":
                self.assertIn("transferred from n=64 k=64", row["source"])
                self.assertEqual(row["provenance"], "extrapolated")
            elif row not in kept:
                self.assertEqual(row["status"], "refused")
        many = [row for row in rows if row["ranks"] == "1000"]
        self.assertTrue(many[0]["reason"], many[0])

    def test_tuned_plans_come_before_models(self):
        self.tuned(*program.SHAPE, *MACHINE, *program.QUICK, "--store", self.store)
        kept = json.loads(self.succeed("plan", *program.SHAPE, *MACHINE, "--json", "--store", self.store))
        file = self.shapes("model,layer,parallel,n,k,dtype\nToy,kept,row,64,128,f32\n")
        asked = [
            "sweep",
            "--shapes",
            file,
            "--ranks",
            2,
            "--m",
            "80,96,128,8192",
            *MACHINE,
            "--kinds",
            "matmul_all_reduce",
            "--store",
            self.store,
        ]
        sources = {row["m"]: row["source"].split(" ")[0] for row in self.rows(*asked)}
        self.assertEqual(sources["96"], "tuned")
        self.assertNotIn("tuned", (sources["80"], sources["128"]))
        tuned = next(row for row in self.rows(*asked) if row["m"] == "96")
        self.assertAlmostEqual(float(tuned["makespan_us"]), kept["makespan"]["us"], delta=1e-6 * kept["makespan"]["us"])
        raced = kept["validation"]["fused_us"]
        self.assertAlmostEqual(float(tuned["measured_us"]), raced, delta=1e-6 * raced)
        page = program.unwrapped(self.succeed(*asked))
        self.assertRegex(page, r"kept 2 [^=~]+ =[^=~]+ ~[^=~]+ percent:")
        self.assertIn("=: measured in a race, the others are predicted; ~: EXTRAPOLATED", page)
        other = next(row for row in self.rows(*asked, "--align", 32) if row["m"] == "96")  # tuned for the default only
        self.assertNotIn("tuned", other["source"].split(" ")[0])
        self.tuned(*program.SHAPE, *MACHINE, *program.QUICK, "--align", 32, "--store", self.store)
        own = next(row for row in self.rows(*asked, "--align", 32) if row["m"] == "96")
        self.assertEqual(own["source"].split(" ")[0], "tuned")

    def test_a_document_answers_for_another_n_and_k_as_plan_lets_it(self):
        file = self.shapes(HEADING + DOWN + "Toy,wide,row,16384,24576,,f16\n")
        asked = [
            "sweep",
            "--shapes",
            file,
            "--model",
            EXAMPLE_MODEL,
            "--ranks",
            8,
            "--m",
            4096,
            "--kinds",
            "matmul_all_reduce",
        ]
        own, wide = self.rows(*asked)
        self.assertEqual(own["provenance"], "analytic")
        self.assertIn("transferred from n=8192 k=3072", wide["source"])
        plan = json.loads(
            self.succeed("plan", "--model", EXAMPLE_MODEL, *operator(4096, 16384, 3072, "f16", 8), "--json")
        )
        self.assertAlmostEqual(float(wide["makespan_us"]), plan["makespan"]["us"], delta=1e-6 * plan["makespan"]["us"])
        refused = self.rows(*asked, "--no-transfer")[1]
        self.assertEqual(refused["refusal"], "not_found")
        self.assertIn("transfer is ruled out", refused["reason"])

    def test_the_nearest_document_answers_in_whatever_order(self):
        near, far = (
            program.SOURCE_DIRECTORY / "data" / "h200_x4" / "models" / f"matmul_reduce_scatter_m{m}_n8192_k7168.json"
            for m in (8192, 1024)
        )
        asked = ["--models", "Llama-3-70B", "--kinds", "matmul_reduce_scatter", "--ranks", 4, "--m", "1024,8192"]
        rows = self.rows("sweep", *asked, "--model", near, "--model", far)
        self.assertEqual(self.rows("sweep", *asked, "--model", far, "--model", near), rows)
        sources = {row["m"]: row["source"] for row in rows if row["layer"] == "mlp_down"}
        self.assertIn(far.name, sources["1024"])
        self.assertIn(near.name, sources["8192"])

    def test_documents_leave_the_store_alone_unless_it_is_named(self):
        self.succeed(*self.example("--m", 4096))
        self.assertFalse((self.directory / "mc2").exists())
        self.make_empty_store()
        done = self.mc2(*self.example("--m", 4096, "--kinds", "all_gather_matmul", "--store", self.store, ranks=4))
        self.assertEqual(done.returncode, NO_ANSWER)
        self.assertIn("--model: no model of", done.stderr)
        self.assertIn("has no cost model", program.unwrapped(done.stderr))

    def test_topologies_answer_for_every_layer_after_the_documents(self):
        rows = self.rows(*self.example("--m", "1024,4096", "--topology", TOPOLOGY))
        self.assertEqual(len(rows), 6)
        for row in rows:
            if row["layer"] == "up":
                self.assertEqual(row["refusal"], "infeasible")
                continue
            document = "worked_example_model.json" if row["kind"] == "matmul_all_reduce" else "topology"
            self.assertIn(document, row["source"])
            self.assertEqual(row["provenance"], "analytic")
        row = next(row for row in rows if (row["kind"], row["m"]) == ("matmul_reduce_scatter", "4096"))
        plan = json.loads(
            self.succeed(
                "plan",
                "--topology",
                TOPOLOGY,
                "--op",
                row["kind"],
                *operator(row["m"], row["n"], row["k"], row["dtype"], row["ranks"]),
                "--json",
            )
        )
        self.assertAlmostEqual(float(row["makespan_us"]), plan["makespan"]["us"], delta=1e-6 * plan["makespan"]["us"])
        settings = ",".join(f"{key}={value}" for key, value in sorted(plan["variant"]["fields"].items()))
        self.assertEqual(row["variant"], f'{plan["variant"]["name"]}({settings})')

    def test_ranks_that_a_topology_does_not_have(self):
        done = self.mc2(
            "sweep", "--topology", TOPOLOGY, "--shapes", self.shapes(HEADING + DOWN), "--ranks", 1024, "--m", 1024
        )
        self.assertEqual(done.returncode, SUCCESS, done.stderr)
        done = self.mc2(
            "sweep",
            "--topology",
            TOPOLOGY,
            "--shapes",
            self.shapes(HEADING + DOWN),
            "--ranks",
            12,
            "--m",
            1024,
            "--csv",
        )
        self.assertEqual(done.returncode, NO_ANSWER, done.stderr)
        self.assertIn("--topology: ", done.stdout)

    def test_documents_that_are_none(self):
        file = self.directory / "model.json"
        self.refuse(USAGE, self.example("--model", file), "model.json", "no such file")
        file.write_text("{}")
        self.refuse(USAGE, self.example("--model", file), "model.json: ")


class BadInputTest(SweepTest):
    def refuse_shapes(self, text, *expected):
        file = self.directory / "layers.csv"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        self.refuse(USAGE, ["sweep", "--shapes", file, "--model", EXAMPLE_MODEL], *expected)

    def test_shapes_files(self):
        good = HEADING + DOWN
        cases = [
            ("", "layers.csv: holds no layers"),
            (HEADING, "layers.csv: holds no layers"),
            (good + DOWN, "layers.csv:3:5: layer: Toy down is named a second time; the first is in line 2"),
            ("model,layer,n,k\na,b,1,1\n", "layers.csv:1:1: ", "no column parallel"),
            ("model,layer,parallel,n,k,n\n", "layers.csv:1:26: 'n' is a column twice"),
            ("model,layer,parallel,n,k,q\n", "layers.csv:1:26: 'q' is no column"),
            ("m,n,k\n1,1,1\n", "layers.csv: lists operators, as mc2 tune --shapes takes them", "model,layer"),
            (good + "Toy,x,row,8192\n", "layers.csv:3:11: ", "4 cells", "7"),
            (good + "Toy,x,row,8192,1,,f16,9\n", "layers.csv:3:23: ", "8 cells"),
            (good + "Toy,x,row,81.92,1,,f16\n", "layers.csv:3:11: n: '81.92' is no whole number", "1 to 1000000000"),
            (good + "Toy,x,row,1,,,f16\n", "layers.csv:3:13: k: '' is no whole number"),
            (good + "Toy,x,row,nan,1,,f16\n", "layers.csv:3:11: n: 'nan'"),
            (good + "Toy,x,row,0,1,,f16\n", "layers.csv:3:11: n: is 0; legal: 1 to 1000000000"),
            (good + "Toy,x,row,9" + "9" * 40 + ",1,,f16\n", "layers.csv:3:11: n: is 999", "legal"),
            (good + "Toy,x,row,8,6,4,f16\n", "layers.csv:3:15: units: 4 do not divide the axis of 6"),
            (good + "Toy,x,row,8,6,7,f16\n", "layers.csv:3:15: units: is 7; legal: 1 to 6"),
            (
                good + "Toy,x,both,8,6,,f16\n",
                "layers.csv:3:7: parallel: unknown name 'both'; legal: row, column, dispatch, combine",
            ),
            (good + "Toy,x,combine,8,6,2,f16\n", "layers.csv:3:19: units: is given, but every rank has whole experts"),
            (good + "Toy,x,row,8,6,,f99\n", "layers.csv:3:16: ", "f99", "bf16"),
            (good + ",x,row,8,6,,f16\n", "layers.csv:3:1: model: is empty"),
            (good + "Toy," + "x" * 65 + ",row,8,6,,f16\n", "layers.csv:3:5: layer: has 65 bytes"),
            (good + 'Toy,"x,row,8,6,,f16\n', "layers.csv:3:5: opens a quote"),
            (good + 'Toy,"x"y,row,8,6,,f16\n', "layers.csv:3:8: holds text after a closing quote"),
            (good.encode() + b"Toy,x\0y,row,8,6,,f16\n", "layers.csv:3:6: holds the control character 0"),
            (good + "x" * 70_000, "layers.csv:3:65537: the line is longer than 65536 bytes"),
            (b"\xff\xfe" + "model,layer\n".encode("utf-16-le"), "layers.csv:1:4: holds the control character 0"),
            (bytes(range(256)) * 50, "layers.csv:1:1: "),
        ]
        for text, *expected in cases:
            with self.subTest(text=text[-60:]):
                self.refuse_shapes(text, *expected)

    def test_too_many_layers(self):
        lines = "".join(f"Toy,x{i},row,8,8\n" for i in range(10_001))
        self.refuse_shapes(
            "model,layer,parallel,n,k\n" + lines, "layers.csv:10002:1: is beyond the limit of 10000 layers"
        )

    def test_byte_order_mark_and_carriage_returns(self):
        file = self.shapes("\ufeff" + (HEADING + "\n# comment\n" + DOWN).replace("\n", "\r\n"))
        self.succeed("sweep", "--shapes", file, "--model", EXAMPLE_MODEL, "--ranks", 8, "--m", 4096)

    def test_grids_beyond_the_limit_are_refused_at_once(self):
        self.refuse(USAGE, ["sweep", "--m", "1:1000000000:1"], "--m: lists more than 1000000 numbers")
        self.refuse(
            USAGE,
            ["sweep", "--m", "1:1000:1", "--ranks", "2:1024:1"],
            "--m, --ranks: make 243474000 rows",
            "at most 1000000",
        )

    def test_lists(self):
        for text in (
            "",
            ",",
            "0",
            "-1",
            "1,",
            "1:2",
            "1:2:3:4",
            "5:4:1",
            "1:2:0",
            "1:1000000001:1",
            "x",
            "1e3",
            "9" * 30,
        ):
            with self.subTest(text=text):
                self.refuse(USAGE, ["sweep", "--m", text], "--m: '", "first:last:step within 1 to 1000000000")
        self.refuse(USAGE, ["sweep", "--ranks", "1"], "--ranks: '1'", "within 2 to 65536")

    def test_names_and_numbers(self):
        for option, value, *expected in (
            ("--kinds", "nope", "matmul_reduce_scatter"),
            ("--models", "nope", "Llama-3-8B"),
            ("--dtype", "f99", "bf16"),
            ("--threads", "0", "1 to 1024"),
            ("--threads", "x", "1 to 1024"),
            ("--strategy", "nope", "search"),
        ):
            self.refuse(USAGE, ["sweep", option, value], f"{option}: ", value, *expected)
        self.refuse(
            USAGE,
            ["sweep", "--shapes", self.shapes(HEADING + DOWN), "--kinds", "all_gather_matmul"],
            "--kinds",
            "leaves no row",
        )

    def test_transfer_is_not_ruled_out_where_there_is_none(self):
        asked = ["sweep", "--shapes", self.shapes(HEADING + DOWN), "--topology", TOPOLOGY, "--ranks", 8, "--m", 1024]
        self.refuse(USAGE, [*asked, "--no-transfer"], "--topology: plans without kept models", "--no-transfer")
        self.succeed(*asked, "--no-transfer", "--model", EXAMPLE_MODEL)

    def test_largest_sizes_take_bounded_time(self):
        rows = self.rows(*self.example("--m", "65,66,127,999999999,1000000000", "--kinds", "matmul_all_reduce"))
        # m k = 1e9 * 3072 elements of 2 bytes fit in 64 TiB; the product's 1e9 * 8192 * 2 = 16 TB do too.
        self.assertEqual([row["status"] for row in rows[:3]], ["uncut"] * 3)
        self.assertNotIn("refused", [row["status"] for row in rows])


class InterruptTest(SweepTest):
    # The free lists of long axes are minutes of work in many rows.
    LONG = ["--strategy", "free", "--m", "1000001:1100000:1", "--kinds", "matmul_all_reduce", "--align", "1024"]

    def wait_until_it_can_be_interrupted(self, process):
        mask = 1 << (signal.SIGINT - 1)
        while process.poll() is None:
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
            if int(status.split("SigCgt:")[1].split()[0], 16) & mask:
                return
            time.sleep(0.01)

    def test_nothing_is_written(self):
        file = self.directory / "plans.csv"
        for target in (["--out", file], []):
            command = [program.MC2, *map(str, self.example(*self.LONG, *target))]
            with subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=program.environment(self.directory),
            ) as process:
                self.wait_until_it_can_be_interrupted(process)
                process.send_signal(signal.SIGINT)
                printed, said = process.communicate(timeout=60)
            self.assertEqual(process.returncode, INTERRUPTED, said)
            self.assertEqual(printed, "")
            self.assertRegex(said, r"interrupted after \d+ of 100000 rows; nothing was written")
        self.assertEqual([path.name for path in self.directory.glob("plans.csv*")], [])

    def test_progress_shows_on_a_terminal_only(self):
        command = [program.MC2, *map(str, self.example(*self.LONG))]
        controller, terminal = pty.openpty()
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=terminal,
            env={**program.environment(self.directory), "TERM": "xterm"},
        ) as process:
            os.close(terminal)
            said = b""
            while b"left" not in said:
                said += os.read(controller, 1024)
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)
        os.close(controller)
        self.assertIn(b"sweep [", said)
        self.assertEqual(process.returncode, INTERRUPTED)


if __name__ == "__main__":
    program.main()
