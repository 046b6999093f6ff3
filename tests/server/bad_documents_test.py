"""Documents that contradict themselves. Every route that takes documents refuses them and names the field. They end
neither the service nor anybody else's answers.

bad_documents_test.py PATH_OF_MC2
"""

import copy
import json

from serving import SHAPE_QUERY, ServiceTest, program


def changed(document, *changes):
    """A copy of the document with other values at paths such as "variants/0/compute/fixed_us"."""
    result = copy.deepcopy(document)
    for path, value in changes:
        at = result
        *way, last = [int(key) if key.isdigit() else key for key in path.split("/")]
        for key in way:
            at = at[key]
        at[last] = value
    return result


class BadDocumentsTest(ServiceTest):
    def setUp(self):
        super().setUp()
        self.service = self.start()

    def kept(self, kind):
        digest = self.service.json("GET", f"/v1/{kind}")["items"][0]["digest"]
        return self.service.json("GET", f"/v1/{kind}/{digest}")

    def refuse(self, target, document, field, status=400):
        """Posts a document that must be refused, naming `field` as JSON does. The service must live on."""
        found, _, body = self.service.request("POST", target, json.dumps(document))
        problem = json.loads(body)
        self.assertEqual((found, problem.get("field")), (status, field), body)
        self.assertTrue(self.service.is_alive())
        return problem["detail"]

    def tearDown(self):
        self.assertEqual(self.service.request("GET", f"/v1/plan?{SHAPE_QUERY}")[0], 200)
        super().tearDown()

    def test_documents_of_no_machine(self):
        kinds = ("plans", "models", "samples", "measurements")
        for kind in kinds:
            nobodys = changed(self.kept(kind), ("fingerprint", {}))
            self.assertIn(
                "give the fields that tell the machine", self.refuse(f"/v1/{kind}", nobodys, "fingerprint", 422)
            )
        exported = json.loads(self.succeed("db", "export", "--store", self.store))
        for kind in kinds:  # as an earlier release may have kept them
            for kept in exported[kind]:
                kept["document"]["fingerprint"] = {}
        file, other = self.directory / "nobodys.json", self.directory / "other.db"
        file.write_text(json.dumps(exported))
        self.succeed("db", "import", file, "--store", other)
        self.assertEqual(self.succeed("db", "check", "--store", other).count("healthy"), 1)

    def test_whole_numbers_may_be_written_with_a_point(self):
        plan = self.kept("plans")
        same = changed(plan, ("op/m", 96.0), ("cut/block_rows", [float(rows) for rows in plan["cut"]["block_rows"]]))
        digest = self.service.json("POST", "/v1/plans", same, status=201)["digest"]
        self.assertEqual(digest, self.service.json("GET", "/v1/plans")["items"][0]["digest"])
        self.assertEqual(self.service.json("GET", f"/v1/plans/{digest}"), plan)
        for wrong in (96.5, "96", 0.0, 1e300, -96.0):
            self.refuse("/v1/plan", {"op": changed(plan["op"], ("n", wrong)), "schema": "mc2.request/1"}, "op.n")

    def test_models(self):
        model = self.kept("models")
        request = {"op": model["op"], "schema": "mc2.request/1"}
        curve = "variants[0].communication.curve"
        shape = {"alpha_us": 1e17, "beta_us_per_x": 0, "family": "affine"}
        for field, path, value in (
            (f"{curve}.relative_interval", "variants/0/communication/curve/relative_interval", 1e300),
            (f"{curve}.relative_interval", "variants/0/communication/curve/relative_interval", 1e155),
            (f"{curve}.quality.relative_rms", "variants/0/communication/curve/quality/relative_rms", -1e308),
            (curve, "variants/0/communication/curve/shape", shape),
            ("variants[0].compute.fixed_us", "variants/0/compute/fixed_us", 1e16),
            ("variants[0].compute.slowdown", "variants/0/compute/slowdown", 1e300),
            ("serial.compute_us", "serial", {"compute_us": 1e300, "variant": model["variants"][0]["variant"]}),
            ("anchored_interval", "anchored_interval", 1e300),
            (f"variants[{len(model['variants'])}].variant", "variants", [*model["variants"], model["variants"][0]]),
        ):
            with self.subTest(path=path, value=value):
                bad = changed(model, (path, value))
                self.refuse("/v1/models", bad, field)
                self.refuse("/v1/what-if", {"model": bad, "request": request}, f"model.{field}")

    def test_measurements(self):
        race = self.kept("measurements")
        predicted = {"predicted_compute_us": 2700, "predicted_communication_us": 2700}
        for changes in (
            {**predicted, "predicted_us": 1e-320},
            {"predicted_us": 1e-200},
            {"fused_us": 0},
            {"benefit": 7, "benefit_high": 8},
            {"benefit": -1e300, "benefit_low": -1e300},
            {"benefit_high": 8},
            {"pair_count": 0},
        ):
            with self.subTest(changes):
                field = [key for key in changes if key not in predicted][0]
                self.refuse("/v1/measurements", {**race, **changes}, field)
        self.assertEqual(self.service.request("GET", "/v1/plan?m=192&n=64&k=64")[0], 200)

    def test_plans(self):
        plan = self.kept("plans")
        validation = plan["validation"]
        first = plan["timeline"]["first"][0]
        for field, *changes in (
            ("serial_us", ("serial_us", 0)),
            ("serial_us", ("serial_us", 0), ("compute_us", 0), ("communication_us", 0), ("ideal_us", 0)),
            ("ideal_us", ("ideal_us", plan["ideal_us"] / 2)),
            ("block_overhead_us", ("block_overhead_us", -1)),
            ("runners_up[0].cut", ("runners_up/0/cut/block_rows", [48, 47])),
            ("timeline", ("timeline", {"first": [], "second": [], "makespan_us": 0, "overlap_us": 0})),
            ("timeline.second[0]", ("timeline/second/0/start_us", first["end_us"] / 2)),
            ("validation.fused_us", ("validation/fused_us", 0)),
            ("validation.serial_us", ("validation/serial_us", 0)),
            ("validation.pair_count", ("validation/pair_count", 0)),
            ("validation.benefit", ("validation/benefit", 7), ("validation/benefit_high", 8)),
            ("validation.benefit", ("validation/benefit", (validation["benefit_high"] + 1) / 2)),
            ("validation.benefit_high", ("validation/benefit_high", 8)),
            ("validation.measured_at", ("validation/measured_at", "2999-13-45 yesterday")),
        ):
            with self.subTest(changes=changes):
                self.refuse("/v1/plans", changed(plan, *changes), field)
        searched = self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}&max_block_count=2")["plan"]
        few = changed(searched, ("certificate/candidate_count", searched["certificate"]["candidate_count"] - 1))
        self.refuse("/v1/plans?purpose=tuned%20max_block_count%3D2", few, "certificate.candidate_count")

    def test_samples(self):
        profile = self.kept("samples")
        place = [sample["component"] for sample in profile["samples"]].index("collective")
        sample = profile["samples"][place]
        for field, *changes in (
            ("message_bytes", (f"samples/{place}/message_bytes", sample["message_bytes"] // 4)),
            ("slowest_rank", (f"samples/{place}/slowest_rank", 99)),
            ("message_bytes", (f"samples/{place}/component", "matmul")),
        ):
            with self.subTest(changes=changes):
                self.refuse("/v1/samples", changed(profile, *changes), f"samples[{place}].{field}")
        self.refuse("/v1/samples", changed(profile, ("fingerprint/ranks", "8")), "fingerprint.ranks")


if __name__ == "__main__":
    program.main()
