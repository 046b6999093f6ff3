"""embedding_all_to_all from the profile to the trace, and what is refused about its tables."""

import json

import program
from program import MACHINE, NO_ANSWER, QUICK, UNSUPPORTED, USAGE, ProgramTest, validators

BAGS = ["--op", "embedding_all_to_all", "--m", 192, "--n", 32, "--k", 12]
TABLES = ["--tables", 4, "--table-rows", 50]
FEW_PAIRS = ["--pairs", "6", "--budget", "1"]


class EmbeddingTest(ProgramTest):
    def test_profile_fit_plan_run_explain_and_trace(self):
        profile = self.profile_and_fit(*BAGS, *TABLES, "--pooling", "mean", *MACHINE)
        self.assertIn("pooling 16 rows", profile)
        asked = [*BAGS, *TABLES, "--pooling", "mean", *MACHINE, "--store", self.store]
        plan = json.loads(self.succeed("plan", *asked, "--align", 16, "--json"))
        validators()["mc2.plan/1"].validate(plan)
        self.assertEqual(plan["op"]["tables"], {"count": 4, "pooling": "mean", "row_count": 50})
        self.assertEqual(sum(plan["cut"]["block_rows"]), 96)
        trace = self.directory / "run.trace.json"
        page = self.succeed("run", *asked, "--blocks", "32,64", *FEW_PAIRS, "--trace", trace)
        self.assertIn("correct: ", page)
        self.assertIn("pooling alone", page)
        names = {event["name"] for event in json.loads(trace.read_text())["traceEvents"]}
        self.assertIn("pooling 1", names)
        explanation = self.succeed("explain", *asked)
        for text in (profile, page, explanation, *names):
            self.assertNotIn("matmul", text)

    def test_tune_and_run_on_real_lanes(self):
        for options in (
            ["--link", "shm"],
            ["--link", "tcp:1Gbit", "--ranks", 3],
            ["--dtype", "f16"],
            ["--dtype", "bf16"],
        ):
            asked = [*BAGS, *TABLES, *options, "--store", self.store]
            with self.subTest(options=options):
                self.tuned(*asked, *QUICK)
                self.assertIn("correct: ", self.succeed("run", *asked, *FEW_PAIRS))

    def test_shapes_of_a_file(self):
        shapes = self.directory / "shapes.csv"
        shapes.write_text(
            "op,m,n,k,tables,table_rows,pooling\n"
            "embedding_all_to_all,64,32,4,2,10,mean\nmatmul_all_to_all,64,32,4,,,\n"
        )
        self.tuned("--shapes", shapes, *MACHINE, *QUICK, "--store", self.store)
        listed = self.succeed("db", "list", "--store", self.store)
        self.assertIn("tables=2x10 mean", listed)
        shapes.write_text("op,m,n,k,tables\nembedding_all_to_all,64,32,4,2\n")
        self.refuse(USAGE, ["tune", "--shapes", shapes, *MACHINE, "--store", self.store], "table_rows")

    def test_tables_that_cannot_be(self):
        def refuse(arguments, *texts):
            self.refuse(USAGE, ["profile", *arguments, *MACHINE, "--store", self.store], *texts)

        refuse(BAGS, "tables: embedding_all_to_all needs the number of a rank's tables")
        refuse([*BAGS, "--tables", 4], "--table-rows: is missing")
        refuse([*BAGS, "--table-rows", 4], "tables: is missing")
        refuse([*BAGS, "--tables", 5, "--table-rows", 4], "n: is 32", "multiple of 5, e.g. 35")
        refuse([*BAGS, "--tables", 0, "--table-rows", 4], "--tables")
        refuse([*BAGS, *TABLES, "--pooling", "max"], "pooling: unknown name 'max'; legal: sum, mean")
        other = ["--m", 64, "--n", 32, "--k", 4]
        for option, value in (("--tables", 4), ("--table-rows", 4), ("--pooling", "mean")):
            told = f"{option}: belongs to embedding_all_to_all, not to matmul_all_reduce"
            refuse([*other, option, value], told)
        for option in ("--experts", "--top-k"):
            refuse([*other, option, 2], f"{option}: belongs to all_gather_grouped_matmul, ", "not to matmul_all_reduce")

    def test_what_a_topology_cannot_tell(self):
        topology = program.SOURCE_DIRECTORY / "data" / "topologies" / "dgx_h100.json"
        self.refuse(NO_ANSWER, ["plan", *BAGS, *TABLES, "--topology", topology], "not their pooling")

    def test_larger_than_memory(self):
        self.refuse(
            UNSUPPORTED,
            [
                "profile",
                "--op",
                "embedding_all_to_all",
                "--m",
                1 << 19,
                "--n",
                1 << 18,
                "--k",
                1 << 10,
                *TABLES,
                "--store",
                self.store,
            ],
            "available",
        )


if __name__ == "__main__":
    program.main()
