"""Results that others measured are pushed to a service, served by it, and compared with the prediction."""

import concurrent.futures
import copy
import hashlib
import json
import sqlite3
import time

from serving import SHAPE_QUERY, Service, ServiceTest, program


class ResultsTest(ServiceTest):
    def setUp(self):
        super().setUp()
        self.service = self.start()

    def exported(self, store=None):
        return json.loads(self.succeed("db", "export", "--store", store or self.store))

    def gauge(self, name):
        text = self.service.request("GET", "/metrics")[2].decode()
        (line,) = [line for line in text.splitlines() if line.startswith(name + " ")]
        return float(line.split()[-1])

    def samples(self, factor):
        """A profile with twenty samples of a matmul, each `factor` times as long as a kept one."""
        profile = copy.deepcopy(self.exported()["samples"][0]["document"])
        models = [entry["document"] for entry in self.exported()["models"]]
        alone = [s for s in profile["samples"] if s["component"] == "matmul" and s["context"] == "alone"]
        self.assertTrue(models and alone)
        sample = alone[0]
        profile["samples"] = [
            {**sample, "is_outlier": False, "time_ns": round(sample["time_ns"] * factor) + i} for i in range(20)
        ]
        return profile

    def test_what_a_worker_tuned_is_served_by_another_service(self):
        """The other service gets samples, model, races and plan from the worker's store."""
        other = Service(self.directory / "other.db", self.directory)
        self.addCleanup(other.stop)
        worker = self.exported()
        for path, name in (
            ("/v1/samples", "samples"),
            ("/v1/models", "models"),
            ("/v1/measurements", "measurements"),
            ("/v1/plans", "plans"),
        ):
            for entry in worker[name]:
                other.json("POST", path, entry["document"], status=201)
        answer = other.json("GET", f"/v1/plan?{SHAPE_QUERY}")
        self.assertEqual(answer["source"], "stored")
        self.assertEqual(answer["plan"], worker["plans"][0]["document"])
        self.assertEqual(answer["plan"]["validation"], worker["plans"][0]["document"]["validation"])
        self.assertEqual(answer["digest"], self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}")["digest"])
        pushed = self.exported(self.directory / "other.db")
        for name in ("samples", "models", "measurements", "plans"):
            self.assertEqual(
                [entry["document"] for entry in pushed[name]], [entry["document"] for entry in worker[name]], name
            )
            listed = other.json("GET", f"/v1/{name}?m=96&dtype=f32")["items"]
            self.assertEqual(len(listed), len(worker[name]), name)

    def test_a_device_is_planned_for_as_the_program_does(self):
        shape = "op=matmul_all_reduce&m=4096&n=8192&k=3072&dtype=f16&ranks=8"
        answer = self.service.json("GET", f"/v1/plan?device=ascend-910b&strategy=formula&{shape}")
        self.assertEqual((answer["source"], answer["provenance"], answer["epoch"]), ("model", "analytic", 0))
        self.assertEqual(answer["plan"]["cut"]["block_rows"], [512] + 4 * [896])
        printed = self.directory / "printed.json"
        self.succeed("plan", "--device", "ascend-910b", *program.EXAMPLE, "--store", self.store, "--out", printed)
        self.assertEqual(
            self.service.json("GET", f"/v1/plan?device=ascend-910b&{shape}")["plan"]["cut"],
            json.loads(printed.read_text())["cut"],
        )
        self.assertGreater(
            len(self.service.json("GET", f"/v1/plan/ranges?device=ascend-910b&first_m=128&{shape}")["ranges"]), 1
        )
        problem = self.service.json("GET", f"/v1/plan?device=ascend-910-93&{shape}", status=422)
        self.assertIn("nothing is published for all_reduce", json.dumps(problem))
        problem = self.service.json(
            "GET", f"/v1/plan?device=ascend-910b&{shape}&ranks=16".replace("ranks=8&", ""), status=422
        )
        self.assertEqual(problem["field"], "ranks")
        self.service.json("GET", f"/v1/plan?device=ascend-910b&backend=host&{shape}", status=404)
        # Whatever is imported for the device changes the answer, also for those who name the fingerprint of one of its
        # logs.
        log = (
            "Op Name,OP Type,Task Duration(us),Input Shapes,Input Data Types,Output Shapes\n"
            'x,MatMulV3,803,"""4096,3072;3072,8192""",FLOAT16;FLOAT16,"""4096,8192"""\n'
        )
        self.assertEqual(
            self.service.request("POST", "/v1/imports?op=matmul_all_reduce&ranks=8&device=ascend-910b", log)[0], 201
        )
        first = self.service.json("GET", f"/v1/plan?device=ascend-910b&{shape}")
        self.assertGreater(first["epoch"], 0)
        machine = next(
            item["digest"]
            for item in self.service.json("GET", "/v1/fingerprints")["items"]
            if item["fields"].get("device") == "ascend-910b"
        )
        self.assertEqual(self.service.json("GET", f"/v1/plan?machine={machine}&{shape}")["digest"], first["digest"])
        cuts = "blocks,fused_us,serial_us\n512+4x896,1262,1874\n"
        self.assertEqual(self.service.request("POST", f"/v1/imports?device=ascend-910b&{shape}", cuts)[0], 201)
        second = self.service.json("GET", f"/v1/plan?machine={machine}&{shape}")
        self.assertGreater(second["epoch"], first["epoch"])
        self.assertEqual(second["plan"]["cut"]["block_rows"], [512] + 4 * [896])
        whole = self.service.json(
            "GET", "/v1/llms/Llama-3-70B/plan?device=ascend-910b&dtype=f16&ranks=8&first_m=512&m=4096&deadline_ms=30000"
        )
        self.assertIn("ascend-910b", json.dumps(whole["fingerprint"]))

    def test_a_published_cluster_is_planned_for_by_its_name(self):
        shape = "op=matmul_all_reduce&m=4096&n=8192&k=8192&dtype=bf16&ranks=64"
        answer = self.service.json("GET", f"/v1/plan?topology=dgx_h100&{shape}")
        self.assertEqual((answer["source"], answer["provenance"], answer["epoch"]), ("model", "analytic", 0))
        file = program.SOURCE_DIRECTORY / "data/topologies/dgx_h100.json"
        printed = json.loads(
            self.succeed("plan", "--topology", file, *program.operator(4096, 8192, 8192, "bf16", 64), "--json")
        )
        self.assertEqual(answer["plan"], printed)
        request = {"schema": "mc2.request/1", "op": printed["op"], "options": {}}
        described = {"topology": json.loads(file.read_text()), "request": request}
        self.assertEqual(self.service.json("POST", "/v1/what-if", described)["plan"], printed)
        self.assertEqual(self.service.json("POST", "/v1/plan?topology=dgx_h100", request)["plan"], printed)
        self.assertIn(
            "legal: ascend_910b", json.dumps(self.service.json("GET", f"/v1/plan?topology=x&{shape}", status=400))
        )
        self.assertEqual(
            self.service.json("GET", f"/v1/plan?topology=dgx_h100&device=x&{shape}", status=400)["field"], "topology"
        )
        self.assertGreater(
            len(self.service.json("GET", f"/v1/plan/ranges?topology=dgx_h100&first_m=128&{shape}")["ranges"]), 1
        )

    def test_who_only_asks_does_not_wait_for_those_who_wait_for_the_store(self):
        """Another process locks the store for a while, and more writes wait for it than the service has threads."""
        plan = json.dumps(self.exported()["plans"][0]["document"])
        with sqlite3.connect(self.store, isolation_level=None) as other, concurrent.futures.ThreadPoolExecutor(
            16
        ) as clients:
            other.execute("BEGIN IMMEDIATE")
            kept = [
                clients.submit(self.service.request, "POST", f"/v1/plans?purpose=tuned%20max_block_count%3D{i}", plan)
                for i in range(20, 32)
            ]
            time.sleep(0.3)
            asked = [
                clients.submit(self.service.request, "GET", path)
                for path in ("/livez", "/metrics", f"/v1/plan?{SHAPE_QUERY}", "/v1/plans")
            ]
            try:
                for answer in asked:
                    self.assertEqual(answer.result(timeout=10)[0], 200)
                self.assertFalse(any(answer.done() for answer in kept))
            finally:
                other.execute("ROLLBACK")
            for answer in kept:
                self.assertEqual(answer.result()[0], 201)
        other.close()

    def test_a_plan_of_one_variant_does_not_take_the_tuned_ones_place(self):
        plan = self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}")["plan"]
        plan["reason"] = "alone"
        self.service.json("POST", "/v1/plans?purpose=tuned%20direct", plan, status=201)
        self.assertNotEqual(self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}")["plan"]["reason"], "alone")
        self.assertEqual(
            {item["purpose"] for item in self.service.json("GET", "/v1/plans")["items"]}, {"tuned", "tuned direct"}
        )
        few = self.service.json("POST", "/v1/plans?purpose=tuned%20max_block_count%3D1", plan, status=400)
        self.assertIn("this plan has", few["detail"])
        for purpose in (
            "",
            "other",
            "tuned%20max_blocks%3D9",
            "tuned%20strategy%3Dfastest",
            "tuned%20",
            "tuned%20%0a",
            "tuned%20" + "x" * 300,
        ):
            self.service.json("POST", f"/v1/plans?purpose={purpose}", plan, status=400)

    def test_a_purpose_of_an_older_store_that_is_no_text_does_not_take_the_list(self):
        with sqlite3.connect(self.store) as database:
            database.text_factory = bytes
            row = database.execute(
                "SELECT fingerprint_digest, kind, m, n, k, dtype, world_size, x'74ff0a', created_at, digest FROM plan"
            ).fetchone()
            parts = [b"plan", *(str(value).encode() if isinstance(value, int) else value for value in row)]
            checksum = hashlib.sha256(b"".join(b"%d:%b" % (len(part), part) for part in parts)).hexdigest()
            database.execute("UPDATE plan SET purpose = CAST(x'74ff0a' AS TEXT), checksum = ?", (checksum,))
        database.close()
        (item,) = self.service.json("GET", "/v1/plans")["items"]
        self.assertEqual(item["purpose"], "t\ufffd\n")

    def test_measurements_without_a_time_are_refused(self):
        race = self.exported()["measurements"][0]["document"]
        problem = self.service.json("POST", "/v1/measurements", {**race, "fused_us": 0}, status=400)
        self.assertEqual(problem["field"], "fused_us")

    def test_a_measurement_may_be_of_the_cut_alone(self):
        race = self.exported()["measurements"][0]["document"]
        alone = {**race, "serial_us": 0, "predicted_us": 0, "benefit": 0, "benefit_low": 0, "benefit_high": 0}
        kept = self.service.json("POST", "/v1/measurements", alone, status=201)
        self.assertEqual(self.service.json("GET", f"/v1/measurements/{kept['digest']}"), alone)

    def test_a_measurement_that_is_sent_again_is_kept_once(self):
        race = {**self.exported()["measurements"][0]["document"], "fused_us": 77}
        before = len(self.exported()["measurements"])
        kept = [self.service.json("POST", "/v1/measurements", race, status=201) for _ in range(3)]
        self.assertEqual(len({one["digest"] for one in kept}), 1)
        self.assertEqual(len(self.exported()["measurements"]), before + 1)

    def test_a_plan_whose_operator_runs_at_another_speed_is_worth_tuning_again(self):
        before = self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}")
        self.assertNotIn("stale", before)
        plan, race = before["plan"], self.exported()["measurements"][0]["document"]
        predicted = {f"predicted_{name}": plan[name] for name in ("compute_us", "communication_us", "serial_us")}
        slow = 30 * plan["communication_us"]
        for i in range(4):  # the link has become slow
            run = {
                "compute_us": plan["compute_us"],
                "communication_us": slow,
                "serial_us": plan["compute_us"] + slow,
                "fused_us": slow + i,
            }
            self.service.json(
                "POST",
                "/v1/measurements",
                {**race, **predicted, "predicted_us": plan["makespan"]["us"], **run},
                status=201,
            )
        after = self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}")
        self.assertEqual((after["source"], after["digest"]), ("stored", before["digest"]))
        self.assertGreater(after["epoch"], before["epoch"])
        stale = after["stale"]
        self.assertGreater(stale["loss"], 0.02)
        self.assertEqual((stale["best_blocks"], stale["best_variant"]), ("uncut", "direct"))
        self.assertRegex(stale["why"], "^by its last 4 runs: compute 1.00x, communication [0-9.]+x the profiled time$")

    def test_prediction_error_is_of_measured_to_predicted(self):
        plan = self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}")["plan"]
        plan["makespan"].update({"us": 100.0, "low_us": 90.0, "high_us": 110.0})
        plan["validation"] = {
            "benefit": 0.1,
            "benefit_high": 0.2,
            "benefit_low": 0.05,
            "fused_us": 125.0,
            "pair_count": 9,
            "serial_us": 150.0,
        }
        self.service.json("POST", "/v1/plans", plan, status=201)  # replaces the only plan
        self.assertEqual(self.gauge("mc2_plans_raced"), 1)
        self.assertEqual(self.gauge("mc2_plans_covered"), 0)
        for quantile in ("0.5", "0.9", "1"):  # 125 / 100 - 1
            self.assertAlmostEqual(self.gauge(f'mc2_plan_prediction_error_ratio{{quantile="{quantile}"}}'), 0.25)
        plan["op"]["m"] = 96  # a second plan, predicted exactly: the median lies half way
        plan["validation"]["fused_us"] = 100.0
        self.service.json("POST", "/v1/plans?purpose=tuned%20direct", plan, status=201)
        self.assertEqual(self.gauge("mc2_plans_raced"), 2)
        self.assertEqual(self.gauge("mc2_plans_covered"), 1)
        self.assertAlmostEqual(self.gauge('mc2_plan_prediction_error_ratio{quantile="0.5"}'), 0.125)

    def test_an_answer_counts_whether_it_was_made_or_known(self):
        request = {"op": self.exported()["plans"][0]["document"]["op"], "schema": "mc2.request/1"}
        plans = [self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}") for _ in range(5)]
        self.service.json("POST", "/v1/plan/batch", {"requests": [request, request]})
        labels = f'provenance="{plans[0]["provenance"]}",source="stored"'
        self.assertEqual(self.gauge(f"mc2_plan_answers_total{{{labels}}}"), 5 + 2)
        ranges = "/v1/plan/ranges?first_m=90&" + SHAPE_QUERY
        for _ in range(3):
            self.service.json("GET", ranges)
        self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}&epoch={plans[0]['epoch'] + 1}", status=409)  # does not count
        lines = self.service.request("GET", "/metrics")[2].decode().splitlines()
        made = [line for line in lines if line.startswith("mc2_plan_answers_total{") and 'source="model"' in line]
        self.assertEqual([float(line.split()[-1]) for line in made], [3])

    def test_samples_that_agree_raise_no_alarm(self):
        drift = self.service.json("POST", "/v1/samples", self.samples(1.0), status=201)["drift"]
        self.assertFalse(drift["has_drifted"], drift)
        self.assertEqual(drift["lanes"][0]["sample_count"], 20)
        self.assertEqual(self.gauge("mc2_models_drifted"), 0)

    def test_samples_that_drifted_raise_an_alarm_until_a_new_model_comes(self):
        kept = self.service.json("GET", "/v1/models")["items"][0]["digest"]
        drift = self.service.json("POST", "/v1/samples", self.samples(3.0), status=201)["drift"]
        self.assertTrue(drift["has_drifted"], drift)
        (lane,) = [lane for lane in drift["lanes"] if lane["has_drifted"]]
        self.assertEqual(lane["component"], "matmul")
        self.assertGreater(lane["median_residual"], 1)
        self.assertEqual(self.gauge("mc2_models_drifted"), 1)
        self.assertEqual(self.gauge('mc2_model_drift_alarms_total{component="matmul"}'), 1)
        self.assertIn("disagree with the kept model: matmul of ", self.service.log.read_text())
        since = self.service.json("GET", f"/v1/models/{kept}/drift")
        self.assertTrue(since["has_drifted"])
        self.assertEqual(since["sample_count"], 20)
        self.service.stop()
        self.service = self.start()  # what was kept still disagrees
        self.assertEqual(self.gauge("mc2_models_drifted"), 1)
        self.service.json("POST", "/v1/models", self.service.json("GET", f"/v1/models/{kept}"), status=201)
        self.assertEqual(self.gauge("mc2_models_drifted"), 0)
        self.service.stop()
        self.service = self.start()
        self.assertEqual(self.gauge("mc2_models_drifted"), 0)

    def test_too_few_samples_do_not_end_an_alarm(self):
        kept = self.service.json("GET", "/v1/models")["items"][0]["digest"]
        self.service.json("POST", "/v1/samples", self.samples(3.0), status=201)
        agreeing = self.samples(1.0)
        few = {**agreeing, "samples": agreeing["samples"][:3]}
        for profile, has_drifted in ((few, True), ({**agreeing, "samples": agreeing["samples"][3:]}, False)):
            drift = self.service.json("POST", "/v1/samples", profile, status=201)["drift"]
            since = self.service.json("GET", f"/v1/models/{kept}/drift")
            self.assertEqual([drift["has_drifted"], since["has_drifted"]], [has_drifted] * 2)
            self.assertEqual(since["lanes"], drift["lanes"])
            self.assertEqual(self.gauge("mc2_models_drifted"), int(has_drifted))
            self.service.stop()
            self.service = self.start()
            self.assertEqual(self.gauge("mc2_models_drifted"), int(has_drifted))

    def test_samples_sent_twice_are_kept_once(self):
        first, again = (
            self.service.json("POST", "/v1/samples", self.samples(3.0), status=status) for status in (201, 200)
        )
        self.assertEqual(first["digests"], again["digests"])
        self.assertTrue(first["drift"]["has_drifted"])
        self.assertIsNone(again["drift"])
        self.assertEqual(self.gauge('mc2_model_drift_alarms_total{component="matmul"}'), 1)
        listed = [item["digest"] for item in self.service.json("GET", "/v1/samples")["items"]]
        self.assertEqual(listed.count(first["digests"][0]), 1)

    def test_samples_without_a_model_have_nothing_to_disagree_with(self):
        profile = self.samples(3.0)
        profile["op"]["n"] = 128
        self.assertIsNone(self.service.json("POST", "/v1/samples", profile, status=201)["drift"])


if __name__ == "__main__":
    program.main()
