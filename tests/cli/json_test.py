"""With `--json`, standard output is one document that its schema describes, and nothing else."""

import json
import sqlite3

import program
from program import EXAMPLE_MODEL, MACHINE, NEGATIVE, QUICK, SHAPE, SUCCESS, UNSUPPORTED, USAGE, ProgramTest

TOPOLOGY = program.SOURCE_DIRECTORY / "data" / "topologies" / "dgx_h100.json"


class JsonTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.validators = program.validators()

    def document(self, kind, *arguments, code=SUCCESS):
        done = self.mc2(*arguments, "--json")
        self.assertEqual(done.returncode, code, done.stderr)
        document = json.loads(done.stdout)
        self.assertEqual(document["schema"], kind)
        self.validators[kind].validate(document)
        program.keep_document(document)
        return document

    def test_what_is_measured_and_kept(self):
        store = ["--store", self.store]
        self.profile_and_fit(*SHAPE, *MACHINE)
        self.tuned(*SHAPE, *MACHINE, *QUICK, *store)
        profile = self.document("mc2.profile/1", "profile", *SHAPE, *MACHINE, *QUICK, *store)
        self.assertTrue(profile["samples"])
        self.document("mc2.cost_model/1", "fit", *SHAPE, *MACHINE, *store)
        plan = self.document("mc2.plan/1", "tune", *SHAPE, *MACHINE, *QUICK, *store)
        self.assertEqual(self.document("mc2.plan/1", "plan", *SHAPE, *MACHINE, *store), plan)
        ran = self.document("mc2.run/1", "run", *SHAPE, *MACHINE, "--pairs", 6, *store)
        self.assertEqual(ran["plan"], plan)
        self.document("mc2.explanation/1", "explain", *SHAPE, *MACHINE, *store)
        kept = self.document("mc2.kept_plans/1", "db", "list", *store)
        self.assertEqual([item["plan"] for item in kept["items"]], [plan])
        self.assertEqual(self.document("mc2.store_stats/1", "db", "stats", *store)["plans"], 1)
        self.assertTrue(self.document("mc2.store_check/1", "db", "check", *store)["healthy"])
        self.assertEqual(self.document("mc2.doctor/1", "doctor", *store)["store"]["plans"], 1)
        copy = self.directory / "copy.db"
        self.document("mc2.store_check/1", "db", "backup", copy, *store)
        self.assertEqual(self.document("mc2.merge/1", "db", "merge", copy, *store)["added_count"], 0)
        pruned = self.document("mc2.pruned/1", "db", "prune", "--samples", "52w", "--models", "1s", "--store", copy)
        self.assertEqual(pruned["samples"]["removed_count"], 0)
        self.assertNotIn("measurements", pruned)
        exported = self.directory / "exported.json"
        self.succeed("db", "export", exported, *store)
        self.assertGreater(
            self.document("mc2.merge/1", "db", "import", exported, "--store", self.directory / "new.db")["added_count"],
            0,
        )

    def test_what_needs_no_store(self):
        rows = self.document("mc2.comparison/1", "compare", EXAMPLE_MODEL, EXAMPLE_MODEL)["rows"]
        self.assertEqual({row["ratio"] for row in rows}, {1})
        sizes = self.document("mc2.collective_times/1", "topology", TOPOLOGY)["sizes"]
        for size in sizes:
            self.assertEqual(min(size["algorithms"].values()), size["us"])
        self.document("mc2.sweep/1", "sweep", "--topology", TOPOLOGY, "--m", 4096, "--ranks", 8)

    def test_tokens(self):
        self.make_empty_store()
        secret = self.succeed("token", "create", "--role", "read", "--name", "a b", "--store", self.store).strip()
        listed = self.document("mc2.token_list/1", "token", "list", "--store", self.store)
        self.assertEqual(
            [(each["role"], each["name"], each["is_valid"]) for each in listed["tokens"]], [("read", "a b", True)]
        )
        self.assertNotIn(secret, json.dumps(listed))
        self.refuse(USAGE, ["token", "create", "--role", "read", "--expires", "", "--store", self.store], "is empty")

    def test_a_damaged_store_is_a_document_too(self):
        self.make_empty_store()
        self.succeed("token", "create", "--role", "read", "--store", self.store)
        with sqlite3.connect(self.store) as database:
            database.execute("UPDATE token SET name = 'changed'")
        database.close()
        found = self.document("mc2.store_check/1", "db", "check", "--store", self.store, code=NEGATIVE)
        self.assertEqual([damage["table"] for damage in found["damages"]], ["token"])

    def test_several_shapes_are_one_array(self):
        shapes = self.directory / "shapes.csv"
        shapes.write_text("m,n,k\n96,64,64\n64,64,64\n")
        asked = ["tune", "--shapes", shapes, *MACHINE, *QUICK, "--store", self.store, "--json"]
        for _ in range(2):  # measured the first time, kept the second time
            plans = json.loads(self.succeed(*asked))
            self.assertEqual([plan["op"]["m"] for plan in plans], [96, 64])
        shapes.write_text("m,n,k\n96,64,64\n")
        self.assertEqual(len(json.loads(self.succeed(*asked))), 1)

    def test_an_array_is_whole_where_a_shape_is_refused(self):
        shapes = self.directory / "shapes.csv"
        shapes.write_text("m,n,k,op\n96,64,64,matmul_all_reduce\n96,64,64,all_gather_matmul\n")
        asked = ["tune", "--shapes", shapes, *QUICK, "--store", self.store, "--json"]
        done = self.mc2(*asked, "--variant", "two_shot")  # which gathers do not have
        self.assertNotEqual(done.returncode, SUCCESS)
        self.assertEqual(len(json.loads(done.stdout)), 1)

    def test_what_the_machine_cannot_run_is_refused_before_the_first_shape(self):
        shapes = self.directory / "shapes.csv"
        shapes.write_text("m,n,k,dtype\n96,64,64,f32\n96,64,64,f8e4m3\n")
        asked = ["tune", "--shapes", shapes, *MACHINE, *QUICK, "--store", self.store, "--json"]
        self.refuse(UNSUPPORTED, asked, "shapes.csv: shape 2 (", "dtype: CPUs do not multiply f8e4m3")

    def test_a_table_is_csv_or_json(self):
        self.refuse(USAGE, ["sweep", "--topology", TOPOLOGY, "--csv", "--json"], "--csv", "--json")


if __name__ == "__main__":
    program.main()
