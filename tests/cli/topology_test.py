"""Collectives and plans of described clusters: tables, calibration and refusals."""

import json

import program
from program import EXAMPLE_MODEL, NO_ANSWER, SOURCE_DIRECTORY, USAGE, ProgramTest, operator

TOPOLOGIES = SOURCE_DIRECTORY / "data" / "topologies"
H100 = TOPOLOGIES / "dgx_h100.json"
P3DN = TOPOLOGIES / "aws_p3dn_efa.json"
POINTS = SOURCE_DIRECTORY / "data" / "published" / "p3dn_efa_all_reduce.csv"
OPERATOR = ["--m", 8192, "--n", 8192, "--k", 8192, "--dtype", "bf16"]


class ClusterTest(ProgramTest):
    """Makes files of clusters and of measured points."""

    def changed(self, **changes):
        """A file with the H100 document, in which some keys are replaced."""
        file = self.directory / "topology.json"
        file.write_text(json.dumps({**json.loads(H100.read_text()), **changes}))
        return file

    def points(self, *lines):
        file = self.directory / "points.csv"
        file.write_text("\n".join(lines) + "\n")
        return file


class TopologyTest(ClusterTest):
    def test_every_shipped_topology_has_a_table(self):
        for file in sorted(TOPOLOGIES.glob("*.json")):
            document = json.loads(file.read_text())
            self.assertTrue(document["source"] and document["sources"], file)
            for collective in document["algorithms"]:
                page = self.succeed("topology", file, "--collective", collective)
                for text in (document["name"], collective, "ANALYTIC", "published constants", "busbw", "4 GiB"):
                    self.assertIn(text, page)

    def test_all_ranks_by_default(self):
        self.assertIn("over 1024 ranks, 128 nodes", self.succeed("topology", H100))

    def test_plans_at_scale(self):
        for ranks in (2, 8, 128, 1024):
            plan = json.loads(self.succeed("plan", "--topology", H100, *OPERATOR, "--ranks", ranks, "--json"))
            self.assertEqual(plan["makespan"]["provenance"], "analytic")
            for text in ("dgx_h100", plan["variant"]["name"], "published constants"):
                self.assertIn(text, plan["makespan"]["reason"])
            self.assertLessEqual(plan["makespan"]["us"], plan["serial_us"])
            self.assertGreaterEqual(plan["makespan"]["us"], plan["ideal_us"])

    def test_tables_call_variants_by_what_tells_them_apart(self):
        asked = ["plan", "--topology", H100, *OPERATOR, "--ranks", 256, "--verbose"]
        page = self.succeed(*asked)
        facts, losers = page.split("\n  runner-up ")
        self.assertIn(",topology=dgx_h100)", facts)
        self.assertNotIn("topology=", losers)
        self.assertNotIn("algorithm=", losers)
        ranges = self.succeed("plan", "--topology", H100, "--m", "1:9000", *OPERATOR[2:], "--ranks", 8)
        self.assertIn("  every variant has topology=dgx_h100\n", ranges)
        self.assertEqual(ranges.count("topology="), 1)
        for line in (page + ranges).split("\n"):
            self.assertLessEqual(len(line), 80)

    def test_a_variant_is_named_by_its_algorithm(self):
        asked = ["plan", "--topology", "dgx_h100", *OPERATOR, "--ranks", 8, "--variant"]
        by_name = self.succeed(*asked, "ring", "--json")
        self.assertEqual(self.succeed(*asked, "ring(algorithm=ring,topology=dgx_h100)", "--json"), by_name)
        asked[asked.index("--m") + 1] = "1024:8192"
        self.assertIn('"name": "ring"', self.succeed(*asked, "ring", "--json"))
        refused = self.refuse(NO_ANSWER, [*asked, "nope"], "variant: ", "only of: ring(algorithm=ring,")
        self.assertNotIn("mc2 profile", refused.stderr)

    def test_faster_rails_give_faster_plans(self):
        def makespan(rate):
            protocols = json.loads(H100.read_text())["protocols"]
            for protocol in protocols:
                protocol["inter"]["gb_per_s"] = rate
            file = self.changed(protocols=protocols)
            return json.loads(self.succeed("plan", "--topology", file, *OPERATOR, "--ranks", 256, "--json"))[
                "makespan"
            ]["us"]

        times = [makespan(rate) for rate in (5, 10, 25, 50, 100)]
        self.assertEqual(times, sorted(times, reverse=True))
        self.assertGreater(times[0], 1.5 * times[-1])

    def test_calibrated_topology_is_kept_and_says_so(self):
        out = self.directory / "calibrated.json"
        page = self.succeed("topology", P3DN, "--calibrate", POINTS, "--out", out, "--ranks", 64)
        for text in ("inter.alpha_us", "not determined by these points: ", "median error", "calibrated with 39 points"):
            self.assertIn(text, page)
        document = json.loads(out.read_text())
        self.assertIn("39 points of all_reduce on 16, 32, 64 ranks", document["calibration"])
        plan = json.loads(self.succeed("plan", "--topology", out, *OPERATOR, "--ranks", 64, "--json"))
        self.assertIn("constants calibrated: 39 points", plan["makespan"]["reason"])

    def test_measured_matmul(self):
        model = EXAMPLE_MODEL
        file = TOPOLOGIES / "ascend_910b.json"
        shape = ["--n", 8192, "--k", 3072, "--dtype", "f16", "--ranks", 64]
        plan = json.loads(self.succeed("plan", "--topology", file, "--model", model, "--m", 4096, *shape, "--json"))
        self.assertAlmostEqual(plan["compute_us"], 803, delta=1)  # as in the worked example
        self.refuse(
            NO_ANSWER,
            ["plan", "--topology", file, "--model", model, *OPERATOR, "--ranks", 64],
            "--model: ",
            "its matmul answers for other m and ranks only",
        )

    def test_measured_matmul_is_the_fastest_variant_s(self):
        document = json.loads(EXAMPLE_MODEL.read_text())
        slow = json.loads(json.dumps(document["variants"][0]))
        slow["variant"]["name"] = "slow"
        shape = slow["compute"]["curve"]["shape"]
        for name in ("alpha_us", "beta_us_per_x"):
            shape[name] = 2 * shape[name]
        document["variants"].insert(0, slow)
        model = self.directory / "model.json"
        model.write_text(json.dumps(document))
        plan = json.loads(
            self.succeed(
                "plan",
                "--topology",
                TOPOLOGIES / "ascend_910b.json",
                "--model",
                model,
                *operator(4096, 8192, 3072, "f16", 64),
                "--json",
            )
        )
        self.assertAlmostEqual(plan["compute_us"], 803, delta=1)  # as in the worked example


class RefusalTest(ClusterTest):
    def test_ranks(self):
        self.refuse(USAGE, ["topology", H100, "--ranks", 1], "--ranks: ", "2 or more")
        self.refuse(USAGE, ["topology", H100, "--ranks", 12], "--ranks: is 12", "multiple of 8")
        self.refuse(USAGE, ["plan", "--topology", H100, *OPERATOR, "--ranks", 12], "--ranks: is 12", "multiple of 8")
        self.refuse(USAGE, ["topology", self.changed(node_count=2), "--ranks", 24], "--ranks: is 24", "2 to 16")

    def test_the_rule_of_gains_has_nothing_to_lift_for_formulas(self):
        layers = ["--models", "Llama-3-8B", "--m", 1024]
        for asked in (
            ["plan", "--topology", "dgx_h100", *OPERATOR, "--ranks", 8],
            ["plan", "--device", "ascend-910b", *OPERATOR, "--ranks", 8],
            ["model", "Llama-3-8B", "--topology", "dgx_h100"],
            ["model", "Llama-3-8B", "--device", "ascend-910b"],
            ["sweep", "--topology", "dgx_h100", *layers],
        ):
            self.refuse(
                USAGE,
                [*asked, "--allow-small-gain"],
                "--allow-small-gain: has no effect: costs that come from a formula are compared by their mean anyway",
            )

    def test_nothing_is_timed_of_a_machine_that_is_not_here(self):
        for option, name in (("--topology", "dgx_h100"), ("--device", "ascend-910b")):
            self.refuse(
                USAGE,
                ["plan", option, name, *OPERATOR, "--ranks", 8, "--anchor"],
                f"--anchor: times this machine, and nothing of what {option} names can be measured here; leave it out",
            )

    def test_documents(self):
        for changes, text in (
            ({"node_count": 0}, "node_count: is 0"),
            ({"node_count": 10**9}, "1 to 65536"),
            ({"protocols": []}, "protocols"),
            ({"transport": "pigeon"}, "host_proxy"),
            ({"chunk_bytes": -1}, "chunk_bytes"),
            ({"extra": 1}, "unknown key"),
            ({"schema": "mc2.plan/1"}, "mc2.topology/1"),
        ):
            for command in (["topology"], ["plan", *OPERATOR, "--topology"]):
                self.refuse(USAGE, [*command, self.changed(**changes)], "topology.json", text)
        self.refuse(USAGE, ["topology", self.directory / "none.json"], "none.json")
        self.refuse(USAGE, ["topology"], "FILE: is missing")

    def test_collectives(self):
        self.refuse(USAGE, ["topology", H100, "--collective", "broadcast"], "collective: unknown name", "all_to_all")
        algorithms = {"all_reduce": ["ring"]}
        self.refuse(
            NO_ANSWER,
            ["topology", self.changed(algorithms=algorithms), "--collective", "all_to_all"],
            "name none for all_to_all",
        )

    def test_points(self):
        head = "collective,ranks,bytes,us"
        for lines, text in (
            ([head], "holds no points"),
            (["ranks,bytes,us", "8,8,8"], "no column collective"),
            ([head + ",us", "a,8,8,8,8"], "points.csv:1:27: 'us' is a column twice"),
            ([head + ",x", "all_reduce,8,8,8,8"], "points.csv:1:27: 'x' is no column"),
            ([head, "all_reduce,8,8"], "points.csv:2:14: the line has 3 cells"),
            ([head, "all_reduce,8,8,x"], "points.csv:2:16: us: 'x'"),
            ([head, "all_reduce,8.5,8,1"], "points.csv:2:12: ranks: '8.5'"),
            ([head, "broadcast,8,8,1"], "points.csv:2:1: collective: "),
            ([head, "all_reduce,8,8,nan"], "points.csv:2:16: us: 'nan' is no finite number"),
            ([head, "all_reduce,8,nan,1"], "points.csv:2:14: bytes: 'nan'"),
            ([head, "all_reduce,8,8,0"], "points.csv:2:16: us: '0' is no time above 0"),
            ([head, "all_reduce,8,8,1", "all_reduce,8,8,-3"], "points.csv:3:16: us: '-3' is no time above 0"),
            ([head, "all_reduce,8,-1,1"], "points.csv:2:14: bytes: is -1"),
            ([head, "all_reduce,12,8,1"], "points.csv:2:12: ranks: is 12"),
        ):
            self.refuse(USAGE, ["topology", H100, "--calibrate", self.points(*lines)], text)


if __name__ == "__main__":
    program.main()
