"""Questions that take long are given up at their deadline, when nobody waits any more, and when the service ends."""

import http.client
import json
import threading
import time
from urllib.parse import urlencode

from serving import HOSTILE, SHAPE_QUERY, ServiceTest, hostile_model, program


class DeadlinesTest(ServiceTest):
    def model(self, service):
        row, *_ = service.json("GET", "/v1/models")["items"]
        return service.json("GET", f"/v1/models/{row['digest']}")

    def start_with_hostile_model(self, variant_count=1024):
        service = self.start()
        model = hostile_model(self.model(service), variant_count)
        status, _, body = service.request("POST", "/v1/models", json.dumps(model))
        self.assertEqual(status, 201, body)
        op = model["op"]
        self.slow = f"/v1/plan?m={10**6}&n={op['n']}&k={op['k']}&" + urlencode(HOSTILE)
        return service

    def ask(self, service, target):
        start = time.monotonic()
        status, _, body = service.request("GET", target)
        return status, json.loads(body), time.monotonic() - start

    def test_a_question_is_given_up_at_its_deadline(self):
        service = self.start_with_hostile_model()
        status, problem, took_s = self.ask(service, self.slow + "&deadline_ms=300")
        self.assertEqual((status, problem["code"], problem["field"]), (503, "cancelled", "deadline_ms"))
        self.assertIn("give up to 60000", problem["detail"])
        self.assertGreaterEqual(took_s, 0.3)
        for bad in (0, 60001, -1):
            status, problem, _ = self.ask(service, f"{self.slow}&deadline_ms={bad}")
            self.assertEqual((status, problem["field"]), (400, "deadline_ms"))

    def test_a_batch_has_one_for_all_its_questions(self):
        service = self.start_with_hostile_model()
        op = {**self.model(service)["op"], "m": 10**6}
        requests = [
            {"op": op, "options": {**HOSTILE, "runner_up_count": i}, "schema": "mc2.request/1"} for i in range(20)
        ]
        start = time.monotonic()
        status, _, body = service.request(
            "POST", "/v1/plan/batch", json.dumps({"requests": requests, "schema": "mc2.batch/1"})
        )
        self.assertEqual((status, json.loads(body).get("field")), (503, "deadline_ms"))
        self.assertGreaterEqual(time.monotonic() - start, 2)

    def test_every_question_that_plans_has_one(self):
        service = self.start_with_hostile_model()
        model = self.model(service)
        op = {**model["op"], "m": 10**6}
        request = {"op": op, "options": HOSTILE, "schema": "mc2.request/1"}
        posts = [
            ("/v1/plan", request),
            ("/v1/plan/batch", {"requests": [request] * 3, "schema": "mc2.batch/1"}),
            ("/v1/what-if", {"model": hostile_model(model, 300), "request": request, "schema": "mc2.what_if/1"}),
        ]
        for target, body in posts:
            status, _, answer = service.request("POST", target + "?deadline_ms=50", json.dumps(body))
            self.assertEqual((status, json.loads(answer).get("field")), (503, "deadline_ms"), (target, answer[:300]))
        kept = service.json("GET", "/v1/models")["items"][0]["digest"]
        plan = service.json("GET", "/v1/plans")["items"][0]["digest"]
        ranges = f"/v1/plan/ranges?first_m=1&m=16384&n={op['n']}&k={op['k']}&alignment=1&deadline_ms=50"
        for target in (
            ranges,
            f"/v1/models/{kept}/exploration?m={10**6}&alignment=1&deadline_ms=50",
            f"/v1/plans/{plan}/explanation?deadline_ms=1",
        ):  # each plans a small operator hundreds of times
            status, problem, _ = self.ask(service, target)
            self.assertEqual((status, problem.get("field")), (503, "deadline_ms"), target)

    def test_others_are_answered_meanwhile(self):
        service = self.start_with_hostile_model()
        plan = f"/v1/plan?{SHAPE_QUERY}"
        self.assertEqual(service.request("GET", plan)[0], 200)
        planners = [threading.Thread(target=self.ask, args=(service, self.slow)) for _ in range(6)]
        for planner in planners:
            planner.start()
        time.sleep(0.2)
        answered = {
            target: [service.request("GET", target)[0] for _ in range(5)]
            for target in ("/livez", plan, "/v1/models", "/metrics")
        }
        is_planning = any(planner.is_alive() for planner in planners)
        for planner in planners:
            planner.join()
        self.assertEqual(answered, {target: [200] * 5 for target in answered})
        self.assertTrue(is_planning)

    def test_nobody_plans_for_a_client_that_has_gone(self):
        service = self.start_with_hostile_model()
        connections = [http.client.HTTPConnection("127.0.0.1", service.port, timeout=30) for _ in range(2)]
        for connection in connections:
            connection.request("GET", self.slow + "&deadline_ms=60000")
        time.sleep(0.3)
        for connection in connections:
            connection.close()
        start = time.monotonic()
        self.assertEqual(self.ask(service, f"/v1/plan?{SHAPE_QUERY}&alignment=32&deadline_ms=60000")[0], 200)
        self.assertLess(time.monotonic() - start, 20)

    def test_the_service_ends_though_somebody_plans(self):
        service = self.start_with_hostile_model()
        connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)
        connection.request("GET", self.slow + "&deadline_ms=60000")
        time.sleep(0.3)
        start = time.monotonic()
        self.assertEqual(service.stop(), 0)
        self.assertLess(time.monotonic() - start, 20)
        self.assertEqual(connection.getresponse().status, 503)
        connection.close()

    def test_a_model_of_too_many_variants_is_refused(self):
        service = self.start()
        status, _, body = service.request("POST", "/v1/models", json.dumps(hostile_model(self.model(service), 1025)))
        self.assertEqual(status, 400)
        self.assertIn("at most 1024", json.loads(body)["detail"])


if __name__ == "__main__":
    program.main()
