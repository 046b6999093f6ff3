"""A store and its export as mc2 wrote them at aec009b (2026-11-23), before there was one tuner, one finder and one
prepare(). Nothing that was kept is lost, and every document is read as it was.

    earlier_test.py PATH_OF_MC2

earlier/ has a store with two tuned operators and a run, and the store's export. These commands made both:

    export MC2_STORE=store.db; link="--link 2.5Gbit,20us"
    mc2 tune --m 256 --n 128 --k 128 $link --budget 1.5
    mc2 tune --op all_gather_matmul --m 256 --n 128 --k 64 $link --budget 1.5
    mc2 run --m 256 --n 128 --k 128 $link
    mc2 db export export.json
"""

import json
import lzma
import pathlib
import sqlite3

import program
from program import ProgramTest

EARLIER = pathlib.Path(__file__).parent / "earlier"


class EarlierTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.store.write_bytes(lzma.decompress((EARLIER / "aec009b_store.db.xz").read_bytes()))
        self.exported = self.directory / "export.json"
        self.exported.write_bytes(lzma.decompress((EARLIER / "aec009b_export.json.xz").read_bytes()))
        self.content = json.loads(self.exported.read_text())

    def digests(self, store):
        with sqlite3.connect(store) as database:
            return {
                table: sorted(database.execute(f"SELECT digest, document FROM {table}").fetchall())
                for table in ("sample_batch", "model", "plan", "measurement")
            }

    def test_the_store_is_brought_up_to_date_and_keeps_everything(self):
        before = self.digests(self.store)
        self.assertEqual([len(before[table]) for table in before], [2, 2, 2, 4])
        self.assertIn("healthy", self.succeed("db", "check", "--store", self.store))
        listed = json.loads(self.succeed("db", "list", "--json", "--store", self.store))
        self.assertEqual(sorted(plan["digest"] for plan in listed["items"]), [digest for digest, _ in before["plan"]])
        self.succeed("profile", *program.SHAPE, *program.MACHINE, *program.QUICK, "--store", self.store)  # writes, too
        after = self.digests(self.store)
        for table, rows in before.items():
            self.assertLessEqual(set(rows), set(after[table]), table)

    def test_its_export_gives_the_same_documents(self):
        other = self.directory / "other.db"
        self.assertIn("healthy", self.succeed("db", "check", "--store", self.store))
        self.succeed("db", "import", self.exported, "--store", other)
        self.assertEqual(self.digests(other), self.digests(self.store))
        again = self.directory / "again.json"
        self.succeed("db", "export", again, "--store", other)
        for kind in ("plans", "models", "samples", "measurements"):
            with self.subTest(kind):
                written = [entry["document"] for entry in json.loads(again.read_text())[kind]]
                self.assertEqual(written, [entry["document"] for entry in self.content[kind]])

    def test_plans_and_models_answer(self):
        for entry in self.content["plans"]:
            plan = self.directory / "plan.json"
            plan.write_text(json.dumps(entry["document"]))
            with self.subTest(entry["document"]["op"]["kind"]):
                self.succeed("explain", plan, "--store", self.store)
                self.succeed("export", "--format", "markdown", plan, "--store", self.store)
        for entry in self.content["models"]:
            model, op = self.directory / "model.json", entry["document"]["op"]
            model.write_text(json.dumps(entry["document"]))
            shape = ["--op", op["kind"], "--n", op["n"], "--k", op["k"], "--ranks", op["world_size"]]
            for m in (op["m"], 4 * op["m"]):
                planned = json.loads(
                    self.succeed("plan", "--model", model, *shape, "--m", m, "--json", "--store", self.store)
                )
                self.assertEqual(planned["op"]["m"], m)
                self.assertGreater(planned["makespan"]["us"], 0)


if __name__ == "__main__":
    program.main()
