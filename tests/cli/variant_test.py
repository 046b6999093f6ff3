"""--variant: one variant is profiled, planned with, tuned and run. Others are left alone; unknown ones are refused."""

import json

import program
from program import MACHINE, NO_ANSWER, QUICK, SHAPE, SOURCE_DIRECTORY, USAGE, ProgramTest, operator

FEW_PAIRS = ["--pairs", "6", "--budget", "1"]
BY_RANK = "direct(order=rank)"


class VariantTest(ProgramTest):
    def at_store(self, command, *arguments):
        return self.succeed(command, *SHAPE, *MACHINE, *arguments, "--store", self.store)

    def sampled_variants(self):
        exported = json.loads(self.succeed("db", "export", "--store", self.store))
        return {sample["variant"] for batch in exported["samples"] for sample in batch["document"]["samples"]}

    def test_profile_plan_and_run_keep_to_it(self):
        self.at_store("profile", *QUICK, "--align", 16, "--variant", BY_RANK)
        self.assertEqual(self.sampled_variants(), {BY_RANK})
        self.at_store("fit")
        plan = json.loads(self.at_store("plan", "--align", 16, "--variant", BY_RANK, "--json"))
        self.assertEqual(plan["variant"], {"fields": {"order": "rank"}, "name": "direct"})
        document = json.loads(self.at_store("run", "--blocks", "32,64", "--variant", BY_RANK, *FEW_PAIRS, "--json"))
        self.assertEqual(document["plan"]["variant"]["fields"], {"order": "rank"})
        self.refuse(
            NO_ANSWER,
            ["plan", *SHAPE, *MACHINE, "--variant", "direct", "--store", self.store],
            "variant: ",
            "only of: direct(order=rank)",
        )

    def test_blocks_go_with_the_fastest_unless_one_is_named(self):
        model = SOURCE_DIRECTORY / "data/h200_x4/models/matmul_all_reduce_m8192_n8192_k7168.json"
        asked = ["plan", "--model", model, *operator(6144, 8192, 7168, "bf16", 4), "--blocks", "12x512", "--json"]
        times = {}
        for variant in json.loads(model.read_text())["variants"]:
            fields = ",".join(f"{key}={value}" for key, value in sorted(variant["variant"]["fields"].items()))
            name = variant["variant"]["name"] + (f"({fields})" if fields else "")
            times[name] = json.loads(self.succeed(*asked, "--variant", name))["makespan"]["us"]
        self.assertGreater(len(times), 1)
        self.assertEqual(json.loads(self.succeed(*asked))["makespan"]["us"], min(times.values()))

    def test_a_plan_tuned_for_it_stands_beside_the_best_of_all(self):
        of_all = self.at_store("tune", *QUICK, "--align", 16, "--json")
        of_one = self.at_store("tune", *QUICK, "--align", 16, "--variant", BY_RANK, "--json")
        self.assertEqual(json.loads(of_one)["variant"]["fields"], {"order": "rank"})
        self.assertEqual(of_all, self.at_store("tune", "--align", 16, "--json"))
        self.assertEqual(of_one, self.at_store("tune", "--align", 16, "--variant", BY_RANK, "--json"))
        ran = json.loads(self.at_store("run", "--align", 16, "--variant", BY_RANK, *FEW_PAIRS, "--json"))
        self.assertEqual(ran["plan"], json.loads(of_one))

    def test_fresh_discards_only_its_samples(self):
        for variant in ("direct", BY_RANK):
            self.at_store("profile", *QUICK, "--align", 16, "--variant", variant)
        self.at_store("profile", *QUICK, "--align", 16, "--variant", BY_RANK, "--fresh")
        self.assertEqual(self.sampled_variants(), {"direct", BY_RANK})

    def test_unknown_variants_and_settings_are_refused_before_anything_is_kept(self):
        for command in ("profile", "plan", "tune", "run"):
            for variant, *texts in (
                ("nope", "no variant", "it has: direct"),
                ("direct(pace=1)", "pace", "order"),
                ("direct(order=x)", "staggered, rank"),
                ("", "NAME(field=value"),
                ("direct(", "NAME(field=value"),
                ("(order=rank)", "NAME(field=value"),
            ):
                with self.subTest(command=command, variant=variant):
                    self.refuse(
                        USAGE,
                        [command, *SHAPE, *MACHINE, "--variant", variant, "--store", self.store],
                        "--variant: ",
                        *texts,
                    )

    def test_a_plan_file_names_its_own(self):
        self.profiled_and_fitted()
        file = self.directory / "plan.json"
        self.at_store("plan", "--out", file)
        self.refuse(
            USAGE,
            ["run", "--plan", file, *MACHINE, "--variant", "direct", "--store", self.store],
            "--plan: ",
            "--variant",
        )


if __name__ == "__main__":
    program.main()
