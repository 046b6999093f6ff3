"""mc2 plan --m first:last makes plans as a function of m."""

import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "server"))
from program import EXAMPLE_MODEL, MACHINE, NO_ANSWER, SHAPE, USAGE, ProgramTest, keep_document, main  # noqa: E402
from serving import Service  # noqa: E402  (tests/server is no package)


class RangesTest(ProgramTest):
    def ranges(self, m, *arguments):
        return json.loads(self.succeed("plan", "--m", m, "--model", EXAMPLE_MODEL, "--json", *arguments))

    def makespan_us(self, m, *arguments):
        return json.loads(self.succeed("plan", "--m", m, "--model", EXAMPLE_MODEL, "--json", *arguments))["makespan"][
            "us"
        ]

    def test_each_m_is_nearly_as_fast_as_by_its_own_plan(self):
        ranges = self.ranges("65:4096")
        keep_document(ranges)
        self.assertEqual(ranges["planned_count"], 4032)
        for one in ranges["ranges"]:
            for m in (one["first_m"], one["last_m"]):
                rule = one["rule"]
                count = (m - rule["min_odd_length"]) // rule["block_length"] if rule["block_length"] else 0
                odd = m - count * rule["block_length"]
                blocks = (
                    f"{odd},{count}x{rule['block_length']}"
                    if rule["is_odd_first"]
                    else f"{count}x{rule['block_length']},{odd}"
                )
                us = self.makespan_us(m, "--blocks", blocks if count else m)
                self.assertLessEqual(us, self.makespan_us(m) * 1.01 * (1 + 1e-9), f"m={m}: {blocks}")

    def test_a_page_says_what_each_range_gains(self):
        page = self.succeed("plan", "--m", "1:4096", "--model", EXAMPLE_MODEL)
        self.assertIn("m=1:4096 n=8192", page)
        self.assertRegex(page, r"65:255 +do not cut +direct +0 %")
        self.assertIn("no plan for m of 1:64: blocks of so few rows are cut from n", page)
        self.assertIn("at each of the 4032 m", page)
        self.assertNotIn("m / ranks", page)
        self.assertLessEqual(max(map(len, page.splitlines())), 80)

    def test_a_document_is_written(self):
        out = self.directory / "ranges.json"
        self.succeed("plan", "--m", "1000:1100", "--model", EXAMPLE_MODEL, "--out", out)
        self.assertEqual(json.loads(out.read_text()), self.ranges("1000:1100"))

    def test_the_stores_models_answer_here(self):
        self.profiled_and_fitted()
        asked = ["--m", "16:512", *SHAPE[SHAPE.index("--n") :]]
        self.assertIn("90 %", self.succeed("plan", *asked, *MACHINE, "--align", 16, "--store", self.store))

    def test_the_document_is_that_of_the_service(self):
        asked = ["--n", "64", "--k", "64", *MACHINE]
        self.profile_and_fit("--m", "48", *asked)  # a model of blocks of columns, which answers for this m alone
        printed = json.loads(self.succeed("plan", "--m", "40:96", *asked, "--json", "--store", self.store))
        service = Service(self.store, self.directory)
        self.addCleanup(service.stop)
        self.assertEqual(service.json("GET", "/v1/plan/ranges?first_m=40&m=96&n=64&k=64"), printed)
        self.assertTrue(printed["gaps"][-1]["reason"].startswith("the store has no cost model for "), printed["gaps"])

    def test_ranks_that_hold_shards_divide_m(self):
        model = json.loads(EXAMPLE_MODEL.read_text())
        model["op"]["kind"] = "matmul_reduce_scatter"
        file = self.directory / "model.json"
        file.write_text(json.dumps(model))
        ranges = json.loads(self.succeed("plan", "--m", "1:1003", "--model", file, "--json"))
        self.assertEqual((ranges["op"]["m"], ranges["ranges"][0]["first_m"], ranges["planned_count"]), (1000, 8, 125))
        self.refuse(USAGE, ["plan", "--m", "1:7", "--model", file], "--m", "multiple of the 8 ranks")
        self.assertIn(
            "  blocks are rows of each rank's m / ranks\n", self.succeed("plan", "--m", "1:1003", "--model", file)
        )
        blocks = self.succeed("plan", "--m", "4096", "--blocks", "2x256", "--model", file)
        self.assertIn("2 x 256 rows of each rank's m / ranks, variant direct", blocks)

    def test_what_cannot_be_asked(self):
        plan = ["plan", "--model", EXAMPLE_MODEL]
        self.refuse(USAGE, [*plan, "--m", "9:8"], "--m: is 9:8; the first is above the last")
        self.refuse(USAGE, [*plan, "--m", "0:8"], "--m: is 0; legal: 1 to")
        self.refuse(USAGE, [*plan, "--m", "1:2:3"], "--m: '2:3' is no whole number")
        self.refuse(USAGE, [*plan, "--m", "1:70000"], "legal: a first and a last m of 1 to 65536")
        self.refuse(USAGE, [*plan, "--m", "1:99", "--blocks", "99"], "--blocks: holds for one m")
        self.refuse(USAGE, [*plan, "--m", "1:99", "--anchor"], "--anchor: holds for one m")
        self.refuse(USAGE, [*plan, "--m", "99:200", "--strategy", "formula"], "planned by strategy search")
        self.refuse(NO_ANSWER, [*plan, "--m", "1:64"], "n")
        self.refuse(USAGE, ["run", "--m", "1:64", "--n", "64", "--k", "64"], "--m: '1:64' is no whole number")


if __name__ == "__main__":
    main()
