"""mc2 plan --device: plans from published constants, overridden by imported samples; mc2 compare judges two
documents."""

import json

import program
from program import EXAMPLE_MODEL, NO_ANSWER, SOURCE_DIRECTORY, USAGE, ProgramTest

SHAPE = ["--m", 4096, "--n", 8192, "--dtype", "f16", "--ranks", 8]
LOG = (
    "Op Name,OP Type,Task Duration(us),Input Shapes,Input Data Types,Output Shapes\n"
    'x,MatMulV3,{us},"""4096,{k};{k},8192""",FLOAT16;FLOAT16,"""4096,8192"""\n'
)
HCCL = (
    "mpirun -n 8 ./bin/all_reduce_test -d fp16\n"
    "data_size(Bytes): | aveg_time(us): | alg_bandwidth(GB/s): | check_result:\n"
    "67108864 | {us} | 1 | success\n"
)


class DeviceTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.make_empty_store()

    def plan(self, k, *more):
        file = self.directory / "plan.json"
        said = self.succeed(
            "plan", "--device", "ascend-910b", *SHAPE, "--k", k, *more, "--store", self.store, "--out", file
        )
        return said, json.loads(file.read_text())

    def bring(self, k, matmul_us, all_reduce_us):
        matmul, all_reduce = self.directory / "op_summary.csv", self.directory / "all_reduce.txt"
        matmul.write_text(LOG.format(us=matmul_us, k=k))
        all_reduce.write_text(HCCL.format(us=all_reduce_us))
        self.succeed(
            "import", matmul, all_reduce, "--op", "matmul_all_reduce", "--device", "ascend-910b", "--store", self.store
        )

    def test_without_any_measurement(self):
        said, plan = self.plan(3072)
        self.assertIn("ANALYTIC", said)
        self.assertIn("confidence", said)
        self.assertIn("published recipe: 512 + 4 x 896", said)
        self.assertEqual(plan["makespan"]["provenance"], "analytic")
        _, recipe = self.plan(3072, "--strategy", "formula")
        self.assertEqual(recipe["cut"]["block_rows"], [512] + 4 * [896])

    def test_the_seed_case(self):
        self.bring(3072, 803, 1071)
        said, plan = self.plan(3072, "--strategy", "formula")
        self.assertEqual(plan["cut"]["block_rows"], [512] + 4 * [896])
        self.assertAlmostEqual(plan["serial_us"], 803 + 1071, delta=1)
        self.assertAlmostEqual(plan["makespan"]["us"], 1262, delta=0.05 * 1262)
        self.assertIn("1 imported size", said)

    def test_the_second_published_case(self):
        self.bring(4096, 888, 1025)
        for more in ([], ["--blocks", "512,4x896"]):
            _, plan = self.plan(4096, *more)
            self.assertAlmostEqual(plan["serial_us"], 888 + 1025, delta=1)
            self.assertAlmostEqual(plan["makespan"]["us"], 1263, delta=0.05 * 1263)

    def test_devices_and_operators_that_nothing_is_known_of(self):
        self.refuse(
            USAGE,
            ["plan", "--device", "tpu", *SHAPE, "--k", 64, "--store", self.store],
            "--device: unknown device 'tpu'",
            "legal: ascend-910b",
        )
        self.refuse(
            NO_ANSWER,
            ["plan", "--device", "ascend-910b", *SHAPE[:-1], 16, "--k", 64, "--store", self.store],
            "--ranks: costs on ascend-910b",
        )
        self.refuse(
            USAGE,
            ["plan", "--device", "ascend-910b", "--model", EXAMPLE_MODEL, *SHAPE, "--k", 64],
            "--device: cannot be combined with --model",
        )

    def test_published_constants_answer_who_has_no_store_yet(self):
        ask = ["plan", "--device", "ascend-910b", *SHAPE, "--k", 3072, "--json"]
        with_store = json.loads(self.succeed(*ask, "--store", self.store))
        self.assertEqual(json.loads(self.succeed(*ask)), with_store)
        self.assertFalse((self.directory / "mc2").exists())
        self.refuse(
            USAGE,
            ["plan", "--device", "tpu", *SHAPE, "--k", 64],
            "--device: unknown device 'tpu'",
            "legal: ascend-910b",
        )

    def test_a_store_that_is_not_there_is_refused_and_not_made(self):
        missing = self.directory / "typo.db"
        for asked in (
            ["plan", "--device", "ascend-910b", *SHAPE, "--k", 3072],
            ["sweep", "--m", 1024],
            ["fit", "--device", "ascend-910b", *SHAPE, "--k", 3072],
            ["fit", *SHAPE, "--k", 3072],
        ):
            with self.subTest(asked=asked):
                self.refuse(
                    NO_ANSWER,
                    [*asked, "--store", missing],
                    "typo.db: there is no such store",
                    "mc2 tune, profile, import",
                )
                self.assertFalse(missing.exists())

    def test_a_published_device_is_planned_before_there_is_a_store(self):
        missing = self.directory / "later.db"
        environment = {**program.environment(self.directory), "MC2_STORE": str(missing)}
        said = self.succeed("plan", "--device", "ascend-910b", *SHAPE, "--k", 3072, env=environment)
        self.assertIn("ascend-910b", said)
        self.assertFalse(missing.exists())

    def test_compare(self):
        self.plan(3072)
        plan, fast = self.directory / "plan.json", self.directory / "fast.json"
        document = json.loads(plan.read_text())
        document["makespan"].update(us=1, low_us=0.9, high_us=1.1)
        fast.write_text(json.dumps(document))
        self.assertIn(" better", self.succeed("compare", plan, fast).splitlines()[-1])
        self.assertIn("0 better, 0 worse", self.succeed("compare", plan, plan))
        self.assertIn("0 better, 0 worse", self.succeed("compare", EXAMPLE_MODEL, EXAMPLE_MODEL))
        self.refuse(USAGE, ["compare", plan, EXAMPLE_MODEL], "B: is of another kind than A")
        self.refuse(
            USAGE,
            ["compare", SOURCE_DIRECTORY / "README.md", SOURCE_DIRECTORY / "README.md"],
            "is no profile, model or plan",
        )
        newer = self.directory / "newer.json"
        newer.write_text(EXAMPLE_MODEL.read_text().replace("mc2.cost_model/1", "mc2.cost_model/2"))
        self.refuse(USAGE, ["compare", newer, newer], "newer.json: schema: ", "written by a newer mc2")


if __name__ == "__main__":
    program.main()
