"""Every route of `mc2 serve`. Each answer is compared with the description that the service gives."""

import contextlib
import copy
import gzip
import http.client
import json
import os
import re
import shutil
import sqlite3
import time

import jsonschema
import yaml

from serving import SHAPE_QUERY, ServiceTest, program

OPENAPI = {}  # the description, as served


def resolved(node):
    """A node of the description; a reference within the description is replaced by what it names."""
    while "$ref" in node and node["$ref"].startswith("#/"):
        target = OPENAPI
        for part in node["$ref"][2:].split("/"):
            target = target[part]
        node = target
    return node


def validator(schema):
    return jsonschema.Draft202012Validator({**schema, "components": OPENAPI["components"]})


def references(node):
    """All references in a description, at any depth."""
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        if key == "$ref":
            yield value
        else:
            yield from references(value)


def pattern_of(path):
    for pattern in OPENAPI["paths"]:
        parts, given = pattern.split("/"), path.split("/")
        if len(parts) == len(given) and all(p == g or p == "{id}" for p, g in zip(parts, given)):
            return pattern
    raise AssertionError(f"no path of the description is {path}")


class RoutesTest(ServiceTest):
    def setUp(self):
        super().setUp()
        self.service = self.start()
        OPENAPI.update(yaml.safe_load(self.service.request("GET", "/openapi.yaml")[2]))
        self.seen = set()

    def wait_for_ready(self, status):
        for _ in range(200):
            found, _, body = self.service.request("GET", "/readyz")
            if found == status:
                return json.loads(body)
            time.sleep(0.05)
        raise AssertionError(f"/readyz never said {status}: {found} {body}")

    def test_a_store_that_is_gone_is_not_ready(self):
        away = self.store.with_name("away.db")
        plan = self.service.request("GET", f"/v1/plan?{SHAPE_QUERY}")[2]
        self.store.rename(away)
        self.assertIn("was deleted, moved or replaced", self.wait_for_ready(503)["detail"])
        for method, target in (("GET", "/readyz"), ("GET", "/v1/backup"), ("POST", "/v1/plans")):
            answer = self.ask(method, target, 503, json.loads(plan)["plan"] if method == "POST" else None)
            self.assertIn("was deleted, moved or replaced", answer["detail"])
            self.assertEqual(answer["code"], "unreadable", target)
        shutil.copy(away, self.store)  # another file: the service still has the moved one open
        self.assertIn("was deleted, moved or replaced", self.wait_for_ready(503)["detail"])
        away.rename(self.store)
        self.assertEqual(self.wait_for_ready(200)["status"], "ready")
        log = self.service.log.read_text()
        for event in ("was deleted, moved or replaced", "the store is well again"):
            self.assertEqual(log.count(event), 1, log)

    def test_a_store_that_is_restored_in_place_is_read_again(self):
        kept = self.store.read_bytes()
        os.truncate(self.store, 0)
        self.wait_for_ready(503)
        for target in ("/v1/plans", "/v1/models"):
            self.service.request("GET", target)
        self.store.write_bytes(kept)
        self.assertEqual(self.wait_for_ready(200)["status"], "ready")
        self.assertTrue(self.service.json("GET", "/v1/plans")["items"])

    def test_a_disk_that_is_full_is_not_ready(self):
        self.service = self.start("--least-free-bytes", 10**18)
        detail = self.wait_for_ready(503)["detail"]
        self.assertRegex(detail, r"^less than \S+ PiB free on the store's disk \(\S+ \w+ left\); make room")
        self.assertEqual(self.service.request("GET", f"/v1/plan?{SHAPE_QUERY}")[0], 200)
        self.assertIn("free on the store's disk", self.service.log.read_text())

    def varies_on(self, target, accept):
        """Every Vary header of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.service.port, timeout=30)
        self.addCleanup(connection.close)
        connection.request("GET", target, headers={"Accept": accept})
        return connection.getresponse().headers.get_all("Vary")

    def ask(self, method, target, status, body=None, headers=None):
        """Asks, and returns the answer. The description must have it for this route and status."""
        text = body if body is None or isinstance(body, (str, bytes)) else json.dumps(body)
        found, got, answer = self.service.request(method, target, text, headers)
        self.assertEqual(found, status, f"{method} {target}: {answer[:500]}")
        self.assertIn("X-Request-Id", got)
        pattern = pattern_of(target.split("?")[0])
        operation = OPENAPI["paths"][pattern][method.lower()]
        self.assertIn(str(status), operation["responses"], f"{method} {pattern} does not describe {status}")
        self.seen.add((method, pattern, str(status)))
        described = resolved(operation["responses"][str(status)])
        if "content" not in described:
            self.assertEqual(answer, b"")
            return None
        media = got["Content-Type"].split(";")[0]
        self.assertIn(media, described["content"])
        if not media.endswith("json"):
            return answer.decode()
        document = json.loads(answer)
        validator(described["content"][media]["schema"]).validate(document)
        return document

    def exercise_ranges(self):
        query = SHAPE_QUERY.replace("m=", "first_m=1&m=", 1)
        ranges = self.ask("GET", f"/v1/plan/ranges?{query}", 200)
        self.assertEqual(ranges["first_m"], 1)
        self.assertGreater(ranges["planned_count"], 0)
        epoch = self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}")["epoch"]
        self.assertEqual(self.ask("GET", f"/v1/plan/ranges?{query}&epoch={epoch}", 200), ranges)
        self.ask("GET", f"/v1/plan/ranges?{query}&epoch={epoch - 1}", 409)
        self.ask("GET", f"/v1/plan/ranges?{query}", 304, headers={"If-None-Match": "*"})
        self.ask("GET", f"/v1/plan/ranges?{SHAPE_QUERY}", 400)
        self.ask("GET", f"/v1/plan?{query}", 400)
        self.ask("GET", "/v1/plan/ranges?first_m=66&m=96&n=65&k=64&transfer=no", 404)

    def test_a_parameter_that_is_not_described_is_refused(self):
        kinds = ("plans", "models", "samples", "measurements")
        kept = {f"/v1/{kind}": self.service.json("GET", f"/v1/{kind}")["items"][0]["digest"] for kind in kinds}
        given = {"first_m": 70, "m": 96, "n": 64, "k": 64, "version": self.service.json("GET", "/version")["version"]}
        # Programs that look after services add parameters of their own to these, and browsers to the page.
        takes_any = ("/", "/assets/{id}", "/livez", "/readyz", "/metrics")
        for pattern, operations in OPENAPI["paths"].items():
            if "get" not in operations or pattern in takes_any:
                continue
            described = {one["name"] for one in map(resolved, operations["get"].get("parameters", []))}
            query = "".join(f"{name}={value}&" for name, value in given.items() if name in described)
            for name in ("colour", "imbalance", "runner_up_count"):
                if name in described:
                    continue
                path = pattern.replace("{id}", kept.get(pattern.partition("/{id}")[0], "Llama-3-8B"))
                status, _, body = self.service.request("GET", f"{path}?{query}{name}=2")
                self.assertEqual((status, json.loads(body).get("field")), (400, name), f"{pattern}: {body[:200]}")

    def exercise_llms(self):
        """Plans a model whose layers are the kept operator, and one that is built in."""
        self.assertIn("Llama-3-8B", [llm["name"] for llm in self.ask("GET", "/v1/llms", 200)["items"]])
        self.ask("GET", "/v1/llms?page=1", 400)
        config = {
            "architectures": ["LlamaForCausalLM"],
            "torch_dtype": "float32",
            "hidden_size": 64,
            "head_dim": 64,
            "num_hidden_layers": 3,
            "num_attention_heads": 2,
            "intermediate_size": 128,
        }
        query = "ranks=2&first_m=70&m=96"
        posted = self.ask("POST", f"/v1/llms/plan?{query}&name=Toy", 200, config)
        self.assertEqual(posted["name"], "Toy")
        planned = [
            site["layer"] for site in posted["sites"] if site["kind"] == "matmul_all_reduce" and "ranges" in site
        ]
        self.assertEqual(planned, ["attention_output", "mlp_down"])
        self.ask("POST", f"/v1/llms/plan?{query}", 400, {**config, "hidden_size": 0})
        self.ask("POST", f"/v1/llms/plan?{query}&transfer=no", 404, {**config, "hidden_size": 96})
        self.ask("POST", "/v1/llms/plan?ranks=3", 422, config)
        self.ask("POST", f"/v1/llms/plan?{query}", 412, config, {"If-None-Match": "*"})
        model = self.service.json("GET", "/v1/models")["items"][0]["digest"]
        document = self.service.json("GET", f"/v1/models/{model}")
        document["op"].update(n=4096, k=2048)  # attention_output of Llama-3-8B on two ranks
        kept = self.ask("POST", "/v1/models", 201, document)["digest"]
        epoch = self.service.json("GET", "/readyz")["revision"]
        self.ask("POST", f"/v1/llms/plan?{query}&epoch={epoch - 2}", 409, config)
        plan = f"/v1/llms/Llama-3-8B/plan?{query}&dtype=f32&transfer=no"
        answer = self.ask("GET", plan, 200)
        self.assertEqual([site["layer"] for site in answer["sites"] if "ranges" in site], ["attention_output"])
        self.assertEqual({step["tokens"] for step in answer["steps"]}, {70, 96})
        self.assertEqual(self.ask("GET", f"{plan}&epoch={epoch}", 200), answer)
        self.ask("GET", f"{plan}&epoch={epoch - 2}", 409)
        self.ask("GET", plan, 304, headers={"If-None-Match": "*"})
        self.ask("GET", "/v1/llms/Llama-3-8B/plan?ranks=1", 400)
        self.ask("GET", "/v1/llms/Llama-9/plan", 404)
        self.ask("GET", "/v1/llms/Llama-3-8B/plan?ranks=3", 422)
        self.service.request("DELETE", f"/v1/models/{kept}")

    def exercise_reading(self):
        """Asks everything that changes nothing."""
        for path in ("/livez", "/readyz", "/version", "/metrics", "/openapi.yaml", "/v1/fingerprints"):
            self.ask("GET", path, 200)
        self.ask("GET", f"/v1/plan?{SHAPE_QUERY}", 200)
        self.ask("GET", "/v1/plan?m=96&n=64", 400)
        self.ask("GET", "/v1/plan?m=96&n=65&k=64&transfer=no", 404)
        transferred = self.ask("GET", "/v1/plan?m=96&n=65&k=64", 200)
        self.assertEqual((transferred["source"], transferred["provenance"]), ("model", "extrapolated"))
        self.ask("GET", "/v1/plan?m=96&n=64&k=64&transfer=maybe", 400)
        self.exercise_ranges()
        self.ask("GET", f"/v1/plan?{SHAPE_QUERY}&epoch=1234567", 409)
        self.ask("GET", f"/v1/plan?{SHAPE_QUERY}&strategy=formula&max_block_count=1", 422)
        self.ask("POST", "/v1/plan", 400, "{}")
        for path in ("/v1/plans", "/v1/models", "/v1/samples", "/v1/measurements"):
            self.ask("GET", path, 200)
            self.ask("GET", f"{path}?limit=0", 400)
            self.assertEqual(self.ask("GET", f"{path}/xyz", 400)["field"], "id")
            self.ask("GET", f"{path}/ffffffff", 404)
        self.assertEqual(self.ask("GET", "/v1/plans/xyz/explanation", 400)["field"], "id")
        for name in ("device", "backend", "link", "machine"):
            value = "fff" if name == "machine" else "xyz"
            self.assertEqual(self.ask("GET", f"/v1/plan?{SHAPE_QUERY}&{name}={value}", 404)["field"], name)
        self.ask("GET", f"/v1/plan?{SHAPE_QUERY}&device=Ascend-910B&ranks=8", 404)  # as published: ascend-910b
        self.ask("GET", f"/v1/plan?{SHAPE_QUERY}", 403, headers={"Host": "evil.example"})
        self.ask("GET", "/v1/plans/ffffffff/explanation", 404)

    def exercise_dashboard(self):
        """Asks for the page and its files. Where the page was not built, the service must say so."""
        has_page = self.service.request("GET", "/")[0] == 200
        self.ask("GET", "/assets/nothing.js", 404)
        self.ask("GET", "/assets/index.html", 404)
        if not has_page:
            self.assertIn("without the dashboard", self.ask("GET", "/", 404)["detail"])
            return {
                ("GET", "/", "200"),
                ("GET", "/", "304"),
                ("GET", "/assets/{id}", "200"),
                ("GET", "/assets/{id}", "304"),
            }
        page = self.ask("GET", "/", 200)
        self.ask("GET", "/", 304, headers={"If-None-Match": self.service.request("GET", "/")[1]["ETag"]})
        files = re.findall(r'"(/assets/[^"]+)"', page)
        self.assertEqual({name.rsplit(".")[-1] for name in files}, {"js", "css", "svg"})
        for name in files:
            self.ask("GET", name, 200)
        self.ask("GET", files[0], 304, headers={"If-None-Match": "*"})
        return {("GET", "/", "404")}

    def exercise_changes(self):
        start = self.ask("GET", "/v1/changes", 200)
        self.assertEqual(self.ask("GET", f"/v1/changes?since={start['epoch']}&wait_ms=1", 200), start)
        self.ask("GET", "/v1/changes?since=x", 400)
        self.ask("GET", "/v1/changes", 406, headers={"Accept": "text/html"})
        self.ask("GET", f"/v1/changes?since={start['epoch'] + 1}", 409)
        self.ask("POST", "/v1/plans", 201, {**self.stored_plan(), "reason": "another"})
        told = self.ask("GET", f"/v1/changes?since={start['epoch']}", 200)
        self.assertEqual([change["document"] for change in told["changes"]], ["plan"])
        version = self.service.json("GET", "/version")["version"]
        replica = f"/v1/changes?since={start['epoch']}&rows=true&version={version}"
        self.ask("GET", f"{replica}&nonce=1", 409)
        with contextlib.closing(sqlite3.connect(self.store)) as store:
            nonce = store.execute("SELECT nonce FROM change WHERE revision = ?", (start["epoch"],)).fetchone()[0]
        rows = self.ask("GET", f"{replica}&nonce={nonce}", 200)
        self.assertEqual([change["row"]["document"][:1] for change in rows["changes"]], ["{"])

    def exercise_keeping(self):
        self.assertEqual(self.ask("GET", "/v1/history?after=2026-01-01", 200)["points"], [])
        self.ask("GET", "/v1/history?after=yesterday", 400)
        self.assertEqual(self.ask("GET", "/v1/tokens", 200)["tokens"], [])
        self.ask("POST", "/v1/tokens", 400, {"role": "owner"})
        self.ask("POST", "/v1/tokens", 409, {"role": "admin"})
        self.ask("DELETE", "/v1/tokens/ffffffff", 404)
        for method, target in (
            ("GET", "/v1/tokens"),
            ("DELETE", "/v1/tokens/ffffffff"),
            ("GET", "/v1/backup"),
            ("GET", "/v1/snapshot"),
        ):
            self.ask(method, f"{target}?colour=red", 400)
        for copy_of in ("/v1/backup", "/v1/snapshot"):  # bytes; tokens_test.py and replica_test.py check them
            version = "?version=" + self.service.json("GET", "/version")["version"] if "snapshot" in copy_of else ""
            self.assertEqual(self.service.request("GET", copy_of + version)[0], 200)
            self.seen.add(("GET", copy_of, "200"))
        self.seen |= {("POST", "/v1/tokens", "201"), ("DELETE", "/v1/tokens/{id}", "204")}

    def exercise_exploring(self):
        model = self.service.json("GET", "/v1/models")["items"][0]["digest"]
        plan = self.service.json("GET", "/v1/plans")["items"][0]["digest"]
        self.ask("GET", f"/v1/models/{model}/exploration", 200)
        self.ask("GET", f"/v1/models/{model}/exploration?link_speed=0", 400)
        self.ask("GET", f"/v1/models/{model}/exploration?n=65", 422)
        self.ask("GET", "/v1/models/ffffffff/exploration", 404)
        self.ask("GET", f"/v1/models/{model}/curves?variant=direct", 200)
        self.ask("GET", f"/v1/models/{model}/curves?variant=nope", 404)
        self.ask("GET", "/v1/models/xyz/curves", 400)
        self.ask("GET", f"/v1/plans/{plan}/races", 200)
        self.ask("GET", "/v1/plans/xyz/races", 400)
        self.ask("GET", "/v1/plans/ffffffff/races", 404)

    def exercise_documents(self):
        request = {"schema": "mc2.request/1", "op": self.stored_plan()["op"]}
        model = self.service.json("GET", "/v1/models/" + self.service.json("GET", "/v1/models")["items"][0]["digest"])
        self.ask("POST", "/v1/plan", 200, request)
        other = copy.deepcopy(request)
        other["op"]["n"] = 64 * 64  # too far from all kept operators
        self.ask("POST", "/v1/plan", 404, other)
        self.ask("POST", "/v1/plan?epoch=1234567", 409, request)
        self.ask("POST", "/v1/plan", 412, request, {"If-None-Match": "*"})
        self.ask("POST", "/v1/plan", 403, request, {"Host": "evil.example"})
        self.ask("POST", "/v1/plan", 413, b"", {"Content-Length": str((1 << 20) + 1)})
        self.ask("POST", "/v1/plan", 415, request, {"Content-Type": "text/plain"})
        batch = self.ask("POST", "/v1/plan/batch", 200, {"requests": [request, other, {}]})
        self.assertEqual([entry["status"] for entry in batch["answers"]], [200, 404, 400])
        self.ask("POST", "/v1/plan/batch", 400, {"requests": 7})
        self.ask("POST", "/v1/what-if", 200, {"model": model, "request": request})
        self.ask("POST", "/v1/what-if", 422, {"model": model, "request": other})
        self.ask("POST", "/v1/what-if", 400, {"model": model})
        for path in ("/v1/plans", "/v1/models", "/v1/samples", "/v1/measurements"):
            self.ask("POST", path, 400, "{")
        self.ask("POST", "/v1/models", 201, model)
        self.ask("POST", "/v1/models", 422, {**model, "fingerprint": {}})
        self.ask("POST", "/v1/plans", 422, {**self.stored_plan(), "fingerprint": {}})
        for path, name in (("/v1/samples", "samples"), ("/v1/measurements", "measurements")):
            document = self.exported()[name][0]["document"]
            self.ask("POST", path, 422, {**document, "fingerprint": {}})
            # Equal documents are kept once.
            answer = self.ask("POST", path, 200 if name == "samples" else 201, document)
            kept = answer["digest"] if name == "measurements" else self.service.json("GET", path)["items"][0]["digest"]
            self.assertEqual(self.ask("GET", f"{path}/{kept}", 200), document)
            self.ask("GET", f"{path}/{kept}", 304, headers={"If-None-Match": f'"{kept}"'})
            self.exercise_removing(path, kept)
            self.ask("POST", path, 201, document)

    def exercise_removing(self, path, kept):
        self.ask("DELETE", f"{path}/{kept}", 412, headers={"If-Match": '"other"'})
        self.ask("DELETE", f"{path}/{kept[:12]}", 204, headers={"If-Match": f'"{kept}"'})
        self.ask("DELETE", f"{path}/{kept}", 404)
        self.ask("DELETE", f"{path}/xyz", 400)

    def exercise_imports(self):
        """Asks each kind of import once; imports_test.py has their answers in detail."""
        log = (program.SOURCE_DIRECTORY / "data/logs/nccl_tests.log").read_bytes()
        said = "?op=matmul_all_reduce&m=4096&n=8192&k=3072&dtype=bf16&device=npu"
        self.ask("POST", f"/v1/imports{said}&dry_run=true&every_line=true", 200, log)
        self.ask("POST", f"/v1/imports{said}", 201, log)
        self.ask("POST", f"/v1/imports{said}", 200, log)
        self.ask("POST", "/v1/imports", 400, log)
        self.ask("POST", "/v1/imports", 400, "no log")
        other = log.replace(b"nccl-tests version 2", b"nccl-tests version 9")
        self.ask("POST", f"/v1/imports{said}", 409, other)
        self.ask("POST", f"/v1/imports{said.replace('all_reduce', 'all_to_all')}", 422, log)
        self.ask("POST", "/v1/imports", 413, b"", {"Content-Length": str((64 << 20) + 1)})

    def stored_plan(self):
        return self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}")["plan"]

    def exported(self):
        return json.loads(self.succeed("db", "export", "--store", self.store))

    def test_a_plan_that_was_raced_before_there_was_a_model_is_explained_by_the_one_of_now(self):
        plan = self.stored_plan()
        nothing = {"high_us": 0, "low_us": 0, "provenance": plan["makespan"]["provenance"], "reason": "", "us": 0}
        blind = {
            **plan,
            "makespan": nothing,
            "compute_us": 0,
            "communication_us": 0,
            "serial_us": 0,
            "ideal_us": 0,
            "timeline": {"first": [], "second": [], "makespan_us": 0, "overlap_us": 0},
        }
        kept = self.ask("POST", "/v1/plans", 201, blind)["digest"]
        explained = self.ask("GET", f"/v1/plans/{kept}/explanation", 200)
        self.assertEqual(explained["plan"]["cut"], plan["cut"])
        self.assertGreater(explained["plan"]["makespan"]["us"], 0)

    def test_every_described_answer_is_given_as_described(self):
        self.exercise_reading()
        self.exercise_documents()
        self.exercise_exploring()
        self.exercise_llms()
        self.exercise_changes()
        self.exercise_keeping()
        elsewhere = self.exercise_dashboard()
        plan = self.stored_plan()
        kept = self.ask("POST", "/v1/plans", 201, plan)["digest"]
        self.ask("GET", f"/v1/plans/{kept}", 200)
        self.ask("GET", f"/v1/plans/{kept}/explanation", 200)
        self.ask("GET", f"/v1/plans/{kept}", 406, headers={"Accept": "text/html"})
        self.ask("GET", f"/v1/plans/{kept}?format=png", 400)
        other = copy.deepcopy(plan)
        other["timeline"]["first"] = []
        self.ask("POST", "/v1/plans", 400, other)
        other["timeline"]["second"] = []
        self.ask("POST", "/v1/plans", 400, other)  # a plan with predictions has a timeline
        for times, keys in (
            (other, ("serial_us", "compute_us", "communication_us", "ideal_us")),
            (other["makespan"], ("us", "low_us", "high_us")),
            (other["timeline"], ("makespan_us", "overlap_us")),
        ):
            times.update(dict.fromkeys(keys, 0))
        other.pop("benefit_interval", None)  # a plan without predictions, which cannot be drawn
        undrawn = self.ask("POST", "/v1/plans", 201, other)["digest"]
        self.ask("GET", f"/v1/plans/{undrawn}?format=svg", 422)
        self.assertIn("predicted", self.ask("GET", f"/v1/plans/{undrawn}?format=text", 200))
        self.ask("POST", "/v1/plans", 201, plan)
        self.ask("GET", f"/v1/plans/{kept}", 304, headers={"If-None-Match": f'"{kept}"'})
        model = self.service.json("GET", "/v1/models")["items"][0]["digest"]
        self.ask("GET", f"/v1/models/{model}", 200)
        self.ask("GET", f"/v1/models/{model}/drift", 200)
        self.ask("GET", "/v1/models/xyz/drift", 400)
        self.ask("GET", "/v1/models/ffffffff/drift", 404)
        self.ask("GET", f"/v1/models/{model}", 304, headers={"If-None-Match": "*"})
        tag = self.service.request("GET", f"/v1/plan?{SHAPE_QUERY}")[1]["ETag"]
        self.ask("GET", f"/v1/plan?{SHAPE_QUERY}", 304, headers={"If-None-Match": f'"x", W/{tag}'})
        self.ask("POST", "/v1/plans", 412, plan, {"If-Match": '"other"'})
        self.exercise_removing("/v1/plans", kept)
        document = self.ask("GET", f"/v1/models/{model}", 200)
        self.ask("POST", "/v1/models", 412, document, {"If-None-Match": "*"})
        self.exercise_removing("/v1/models", model)
        self.exercise_imports()
        described = {
            (method.upper(), pattern, status)
            for pattern, operations in OPENAPI["paths"].items()
            for method, operation in operations.items()
            if method != "parameters"
            for status in operation["responses"]
        }
        elsewhere |= {row for row in described if row[2] == "503"}  # the store is gone; deadlines_test.py
        unseen = described - self.seen - elsewhere - {("POST", "/v1/plan", "422")}
        self.assertEqual(unseen, set(), "described, but not seen here")

    def test_writes_compare_with_what_is_kept(self):
        plan = self.stored_plan()
        kept = self.service.json("GET", "/v1/plans")["items"][0]["digest"]
        other = copy.deepcopy(plan)
        other["reason"] = "another"

        def post(document, **headers):
            status, _, body = self.service.request(
                "POST",
                "/v1/plans",
                json.dumps(document),
                {name.replace("_", "-"): value for name, value in headers.items()},
            )
            return status, json.loads(body)

        for name in ("If_Match", "If_None_Match"):  # else the write would go ahead without its condition
            for wrong in (kept, f"{kept}, *", f'"{kept}', f'"{kept}" "x"', f'w/"{kept}"'):
                status, problem = post(other, **{name: wrong})
                self.assertEqual((status, problem["field"]), (400, name.replace("_", "-")), wrong)
                self.assertIn("double quotes", problem["detail"])
        self.ask("DELETE", f"/v1/plans/{kept}", 400, headers={"If-Match": kept})
        self.assertEqual(self.service.request("GET", f"/v1/plans/{kept}", headers={"If-None-Match": kept})[0], 200)
        for wrong in ('"0123"', '"a,b"', f'W/"{kept}"', f'"{kept[:12]}"'):
            status, problem = post(other, If_Match=wrong)
            self.assertEqual((status, problem["code"]), (412, "precondition_failed"), wrong)
            self.assertIn(kept, problem["detail"])
        self.assertEqual(post(other, If_None_Match="*")[0], 412)
        self.assertEqual(self.service.json("GET", "/v1/plans")["items"][0]["digest"], kept)  # the kept plan stays
        # The ETag of a plan as it was read, plain or compressed.
        status, headers, _ = self.service.request("GET", f"/v1/plans/{kept}", headers={"Accept-Encoding": "gzip"})
        self.assertNotEqual(headers["ETag"], f'"{kept}"')
        status, answer = post(other, If_Match=f'"x", {headers["ETag"]}')
        self.assertEqual(status, 201)
        self.assertEqual(post(plan, If_Match=f'"{kept}"')[0], 412)  # somebody else was first
        self.assertEqual(post(plan, If_Match=f'"{answer["digest"]}"')[0], 201)
        new = copy.deepcopy(plan)
        new["op"]["k"] = 128
        self.assertEqual(post(new, If_Match="*")[0], 412)
        self.assertEqual(post(new, If_None_Match="*")[0], 201)
        self.assertEqual(post(new, If_None_Match="*")[0], 412)

    def test_the_description_is_served_and_has_every_route(self):
        self.ask("GET", "/openapi.yaml", 200)
        kept = yaml.safe_load((program.SOURCE_DIRECTORY / "schemas/openapi.yaml").read_text())
        self.assertEqual(OPENAPI["paths"].keys(), kept["paths"].keys())
        for reference in references(OPENAPI):  # the description refers to itself only
            self.assertTrue(reference.startswith("#/components/"), reference)
            self.assertTrue(resolved({"$ref": reference}), reference)
        source = (program.SOURCE_DIRECTORY / "server/src/routes/router.cpp").read_text()
        for pattern, operations in OPENAPI["paths"].items():
            for method in operations:
                if method != "parameters":
                    self.assertIn(f'Route{{"{method.upper()}", "{pattern}"', source)
        self.assertEqual(
            source.count("    Route{"), sum(len(o) - ("parameters" in o) for o in OPENAPI["paths"].values())
        )

    def test_a_plan_comes_in_several_forms(self):
        digest = self.service.json("GET", "/v1/plans")["items"][0]["digest"]
        drawn, trace = self.directory / "plan.svg", self.directory / "trace.json"
        self.succeed("export", digest, "--format", "trace", "--out", trace, "--store", self.store)
        self.succeed("export", digest, "--format", "svg", "--out", drawn, "--store", self.store)
        kept = json.loads(self.succeed("db", "export", "--store", self.store))["plans"][0]["document"]
        tags = set()
        for form, media in (
            ("json", "application/json"),
            ("svg", "image/svg+xml"),
            ("text", "text/plain"),
            ("trace", "application/vnd.mc2.trace+json"),
        ):
            answer = self.ask("GET", f"/v1/plans/{digest}?format={form}", 200)
            self.assertEqual(
                self.ask("GET", f"/v1/plans/{digest}", 200, headers={"Accept": media + ", */*;q=0.1"}), answer
            )
            tags.add(self.service.request("GET", f"/v1/plans/{digest}?format={form}")[1]["ETag"])
            self.assertIn("Accept", self.varies_on(f"/v1/plans/{digest}", media))
            if form == "json":
                self.assertEqual(answer, kept)
            elif form == "text":
                self.assertIn(kept["reason"], answer)
                self.assertIn(kept["variant"]["name"], answer)
            elif form == "trace":
                self.assertEqual(answer, json.loads(trace.read_text()))
            else:
                bars = [
                    line for line in answer.splitlines() if 'class="compute' in line or 'class="communication' in line
                ]
                self.assertGreaterEqual(len(bars), 2)
                for bar in bars:  # the program's drawing has the cost curves below
                    self.assertIn(bar, drawn.read_text())
        self.assertEqual(len(tags), 4)

    def test_a_stored_plan_goes_before_the_model(self):
        answer = self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}")
        self.assertEqual(answer["source"], "stored")
        asked = self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}&alignment=16")
        self.assertEqual(asked["source"], "model")
        self.assertEqual(asked["plan"]["op"], answer["plan"]["op"])
        other = self.service.json("GET", "/v1/plan?m=160&n=64&k=64")
        self.assertEqual((other["source"], other["created_at"]), ("model", None))

    def test_what_is_not_said_is_the_machines(self):
        for alignment, source in ((64, "stored"), (128, "model")):  # the host's alignment, PlanOptions' default
            self.assertEqual(
                self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}&alignment={alignment}")["source"], source
            )
        cut = lambda answer: answer["plan"]["cut"]
        question = "/v1/plan?m=5000&n=64&k=64"
        usual = cut(self.service.json("GET", question))
        self.assertEqual(cut(self.service.json("GET", question + "&runner_up_count=3")), usual)
        op = self.service.json("GET", question)["plan"]["op"]
        request = lambda options: {"schema": "mc2.request/1", "op": op, "options": options}
        self.assertEqual(cut(self.service.json("POST", "/v1/plan", request({"runner_up_count": 3}))), usual)
        for options in ({"alignment": 128}, {"alignment": 128, "min_block_rows": 128}):
            posted = self.service.json("POST", "/v1/plan", request(options))
            self.assertEqual(cut(posted), cut(self.service.json("GET", question + "&alignment=128")))
            self.assertTrue(all(rows % 128 == 0 for rows in sorted(cut(posted)["block_rows"])[1:-1]), cut(posted))

    def test_a_plan_of_pytorchs_groups_answers_who_names_no_number_of_blocks(self):
        """Their plans have at most 16 blocks, other machines' 64. Clients write the 64 into every request."""
        plan = self.stored_plan()
        plan["fingerprint"]["backend"] = "torch/gloo"
        digest = self.service.json("POST", "/v1/plans", plan, status=201)["digest"]
        (machine,) = [
            item["digest"]
            for item in self.service.json("GET", "/v1/fingerprints")["items"]
            if item["fields"]["backend"] == "torch/gloo"
        ]
        request = {"schema": "mc2.request/1", "op": plan["op"]}
        for options in ({}, {"options": {"max_block_count": 64}}):
            answer = self.service.json("POST", f"/v1/plan?machine={machine}", {**request, **options})
            self.assertEqual((answer["source"], answer["digest"]), ("stored", digest), options)
        question = f"/v1/plan?{SHAPE_QUERY}&machine={machine}"
        answer = self.service.json("GET", question)
        self.assertEqual((answer["source"], answer["digest"]), ("stored", digest))
        # Only a query can say that 64 are meant. It is another question, also for the cache.
        status, _, body = self.service.request("GET", question + "&max_block_count=64")
        self.assertEqual((status, json.loads(body)["code"]), (404, "not_found"), body)
        self.assertEqual(self.service.json("GET", question)["digest"], digest)

    def test_equal_questions_get_equal_bytes_until_the_plan_is_replaced(self):
        first = self.service.request("GET", f"/v1/plan?{SHAPE_QUERY}")
        for _ in range(100):
            self.assertEqual(self.service.request("GET", f"/v1/plan?{SHAPE_QUERY}")[2], first[2])
        answer = json.loads(first[2])
        epoch = answer["epoch"]
        plan = answer["plan"]
        plan["reason"] = "another"
        self.service.json("POST", "/v1/plans", plan, status=201)
        second = self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}")
        self.assertGreater(second["epoch"], epoch)
        self.assertEqual(second["plan"]["reason"], "another")
        # A rank that asks for the first rank's epoch gets the first rank's plan.
        self.assertEqual(self.service.request("GET", f"/v1/plan?{SHAPE_QUERY}&epoch={epoch}")[2], first[2])
        for asked, text in (
            (second["epoch"] + 9, f"is {second['epoch'] + 9}, but the answer is of epoch {second['epoch']}: this is"),
            (0, f"is 0, of which the answer is no longer known; it is {second['epoch']} now"),
        ):
            problem = self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}&epoch={asked}", status=409)
            self.assertEqual(problem["field"], "epoch")
            self.assertIn(text, problem["detail"])

    def test_an_equal_plan_that_is_kept_is_another_answer(self):
        question = "/v1/plan?m=160&n=64&k=64"
        made = self.service.json("GET", question)
        self.assertEqual(made["source"], "model")
        self.service.json("POST", "/v1/plans", made["plan"], status=201)
        kept = self.service.json("GET", question)
        self.assertEqual((kept["source"], kept["digest"]), ("stored", made["digest"]))
        self.assertGreater(kept["epoch"], made["epoch"])
        self.assertEqual(self.service.request("DELETE", f"/v1/plans/{kept['digest']}")[0], 204)
        self.assertEqual(self.service.json("GET", question)["source"], "model")

    def test_restarts_give_the_same_plan(self):
        before = self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}")
        self.assertEqual(self.service.stop(), 0)
        again = self.start().json("GET", f"/v1/plan?{SHAPE_QUERY}")
        self.assertEqual(again["digest"], before["digest"])

    def test_a_plan_kept_by_another_process_is_seen(self):
        before = self.service.json("GET", "/v1/plan?m=160&n=64&k=64")
        self.assertEqual(before["source"], "model")
        other = json.loads(self.succeed("db", "export", "--store", self.store))
        batch = self.directory / "batch.json"
        batch.write_text(
            json.dumps(
                {
                    **other,
                    "samples": [],
                    "models": [],
                    "measurements": [],
                    "plans": [{**other["plans"][0], "document": before["plan"]}],
                }
            )
        )
        self.succeed("db", "import", batch, "--store", self.store)
        self.assertEqual(self.answer_after("/v1/plan?m=160&n=64&k=64", "stored")["source"], "stored")

    def test_lists_are_paged(self):
        for m in (112, 128, 144):
            plan = self.service.json("GET", f"/v1/plan?m={m}&n=64&k=64")["plan"]
            self.service.json("POST", "/v1/plans", plan, status=201)
        found, before = [], ""
        while True:
            page = self.service.json("GET", f"/v1/plans?limit=2{before}")
            found += [item["op"]["m"] for item in page["items"]]
            if page["next"] is None:
                break
            before = f"&before={page['next']}"
        self.assertEqual(found, [144, 128, 112, 96])
        (listed,) = self.service.json("GET", "/v1/plans?m=112")["items"]
        plan = self.service.json("GET", f"/v1/plans/{listed['digest']}")
        result = listed["result"]
        self.assertEqual(
            (result["is_measured"], result["fused_us"], result["serial_us"]),
            (False, plan["makespan"]["us"], plan["serial_us"]),
        )
        tuned = self.service.json("GET", "/v1/plans?m=96")["items"][0]
        validation = self.service.json("GET", f"/v1/plans/{tuned['digest']}")["validation"]
        self.assertEqual((tuned["result"]["is_measured"], tuned["result"]["benefit"]), (True, validation["benefit"]))
        self.assertEqual(self.service.json("GET", "/v1/plans?op=all_gather_matmul")["items"], [])

    def test_refusals_name_the_parameter_and_no_path(self):
        for query, field, text in (
            ("m=0&n=64&k=64", "m", "legal"),
            ("m=x&n=64&k=64", "m", "whole number"),
            ("m=96&n=64&k=64&op=nope", "op", "matmul_all_reduce"),
            (f"{SHAPE_QUERY}&dtype=f12", "dtype", "f32"),
            (f"{SHAPE_QUERY}&imbalance=2", "imbalance", "not matmul_all_reduce"),
            (f"{SHAPE_QUERY}&op=all_to_all_matmul&imbalance=3", "imbalance", "legal: 1 to 2"),
            (f"{SHAPE_QUERY}&experts_per_rank=2", "experts_per_rank", "not matmul_all_reduce"),
            (f"{SHAPE_QUERY}&ranks=99999999999", "ranks", "is 99999999999; legal: 2 to 65536"),
            ("m=99999999999999999999&n=64&k=64", "m", "is 99999999999999999999; legal: 1 to 1000000000"),
            (f"{SHAPE_QUERY}&epoch=99999999999999999999", "epoch", "legal: 0 to"),
            (f"{SHAPE_QUERY}&mm=1", "mm", "no parameter"),
            (f"{SHAPE_QUERY}&m=96", "m", "twice"),
            (f"{SHAPE_QUERY}&strategy=x", "strategy", "search"),
            (f"{SHAPE_QUERY}&machine=ffff", "machine", "no machine"),
            (f"{SHAPE_QUERY}&machine=host", "machine", "hexadecimal digits"),
            (f"{SHAPE_QUERY}&epoch=-1", "epoch", "legal: 0 to"),
            (f"{SHAPE_QUERY}&link=9Gbit", "link", 'no machine has link "9Gbit" and 2 ranks; there are '),
        ):
            status, _, body = self.service.request("GET", f"/v1/plan?{query}")
            problem = json.loads(body)
            self.assertIn(status, (400, 404), problem)
            self.assertEqual(problem.get("field"), field, problem)
            self.assertIn(text, problem["detail"])
            self.assertNotIn(str(self.directory), body.decode())
        for name, value, text in (
            ("machine", "zz", "hexadecimal digits"),
            ("m", 0, "legal: 1 to"),
            ("ranks", 65537, "legal: 1 to 65536"),
            ("before", -1, "legal: 1 to"),
            ("limit", 1001, "legal: 1 to 1000"),
        ):
            problem = self.service.json("GET", f"/v1/plans?{name}={value}", status=400)
            self.assertEqual(problem["field"], name)
            self.assertIn(text, problem["detail"])
        status, _, body = self.service.request("GET", "/v1/plan?m=96&n=65&k=64&transfer=no")
        self.assertNotIn(str(self.directory), body.decode())
        self.assertNotIn("field", json.loads(body))

    def test_a_plan_for_skew_has_room_for_it_and_costs_more(self):
        listed = self.service.json("GET", "/v1/models")["items"][0]["digest"]
        model = self.service.json("GET", f"/v1/models/{listed}")
        model["op"].update(kind="matmul_all_to_all", experts_per_rank=2)
        self.service.json("POST", "/v1/models", model, status=201)
        asked = f"/v1/plan?{SHAPE_QUERY}&op=matmul_all_to_all&experts_per_rank=2&alignment=4&allow_small_gain=true"
        even, skewed = (self.service.json("GET", f"{asked}{more}")["plan"] for more in ("", "&imbalance=1.5"))
        self.assertNotIn("counts", even)
        self.assertEqual(sum(skewed["counts"]), 2 * even["op"]["m"])
        self.assertEqual(skewed["op"]["m"], even["op"]["m"] * 3 // 2)
        self.assertGreater(skewed["makespan"]["us"], even["makespan"]["us"])
        self.assertIn("1.5 times the mean", skewed["reason"])
        request = {
            "schema": "mc2.request/1",
            "op": skewed["op"],
            "options": {"counts": skewed["counts"], "alignment": 4, "require_significant_gain": False},
        }
        again = self.service.json("POST", "/v1/plan", request)["plan"]
        self.assertEqual(again["cut"], skewed["cut"])
        request["options"]["counts"][1] = 10**6
        self.assertIn("legal: 0 to m / ranks", self.service.json("POST", "/v1/plan", request, status=400)["detail"])

    def test_a_machine_is_named_only_where_several_have_the_operator(self):
        (listed,) = self.service.json("GET", "/v1/models")["items"]
        model = self.service.json("GET", f"/v1/models/{listed['digest']}")
        link = model["fingerprint"]["link"]
        model["fingerprint"].update(memory="another machine's", link="9Gbit,1us")
        model["op"]["n"] *= 2
        self.service.json("POST", "/v1/models", model, status=201)
        machine = self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}")["plan"]["fingerprint"]
        other = self.service.json("GET", "/v1/plan?m=96&n=128&k=64")["plan"]["fingerprint"]
        self.assertNotEqual(machine, other)
        model["op"]["n"] //= 2
        self.service.json("POST", "/v1/models", model, status=201)
        problem = self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}", status=400)
        self.assertEqual(problem["field"], "machine")
        self.assertIn("there are", problem["detail"])
        for row in self.service.json("GET", "/v1/fingerprints")["items"]:
            for name in (row["digest"], row["digest"].upper()[:12]):
                answer = self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}&machine={name}")
                self.assertEqual(answer["plan"]["fingerprint"], row["fields"])
        for named, fields in ((link.upper(), machine), ("9Gbit,1us", other)):
            answer = self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}&backend=host&link={named}")
            self.assertEqual(answer["plan"]["fingerprint"], fields)
        problem = self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}&backend=host", status=400)
        self.assertIn('is not unique: with backend "host" there are', problem["detail"])
        self.assertIn("; name one by the first digits of its digest (machine), or by", problem["detail"])

    def answer_after(self, target, source):
        """The answer from this source, or the last one after 10 s. The service sees others' writes 50 ms later."""
        deadline = time.monotonic() + 10
        while (answer := self.service.json("GET", target))["source"] != source and time.monotonic() < deadline:
            time.sleep(0.01)
        return answer

    def test_a_damaged_plan_is_a_miss(self):
        digest = self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}")["digest"]
        with sqlite3.connect(self.store) as database:
            database.execute("UPDATE plan SET document = replace(document, 'search', 'saerch')")
        database.close()
        self.assertEqual(self.service.request("GET", f"/v1/plans/{digest}")[0], 500)
        self.assertIn("\nmc2_damaged_documents_total 0\n", self.service.request("GET", "/metrics")[2].decode())
        self.assertEqual(self.answer_after(f"/v1/plan?{SHAPE_QUERY}", "model")["source"], "model")
        # Asked in another way, the answer is not known: the plan is met again, but told once.
        self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}&backend=host")
        told = [line for line in self.service.log.read_text().splitlines() if "pass over a kept document" in line]
        self.assertEqual(len(told), 1, told)
        for part in ("mc2: warning: ", "plan in row 1 is damaged", "checksum", "mc2 db check"):
            self.assertIn(part, told[0])
        self.assertIn("\nmc2_damaged_documents_total 1\n", self.service.request("GET", "/metrics")[2].decode())
        self.assertEqual(self.service.request("GET", "/readyz")[0], 200)

    def test_the_log_says_why_the_store_could_not_be_written(self):
        plan = self.service.request("GET", "/v1/plans/" + self.service.json("GET", "/v1/plans")["items"][0]["digest"])[
            2
        ]
        with sqlite3.connect(self.store, isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")  # for longer than a writer waits: store/src/waiting.hpp
            status, headers, body = self.service.request("POST", "/v1/plans", plan, {"X-Request-Id": "mine"})
            other.execute("ROLLBACK")
        other.close()
        self.assertEqual((status, headers["X-Request-Id"]), (503, "mine"), body)
        self.assertIn("the log says why", json.loads(body)["detail"])
        self.assertNotIn("locked", body.decode())
        (told,) = [
            line for line in self.service.log.read_text().splitlines() if line.startswith("mc2: request mine failed: ")
        ]
        self.assertIn("locked", told)

    def test_the_dashboard_is_compressed_guarded_and_kept_by_caches(self):
        if self.service.request("GET", "/")[0] == 404:
            self.skipTest("this build has no dashboard")
        plain = self.service.request("GET", "/")
        self.assertIn("default-src 'none'", plain[1]["Content-Security-Policy"])
        self.assertNotIn("unsafe", plain[1]["Content-Security-Policy"])
        self.assertEqual(plain[1]["X-Content-Type-Options"], "nosniff")
        self.assertEqual(plain[1]["Cache-Control"], "no-cache")
        (script,) = re.findall(r'"(/assets/[^"]+\.js)"', plain[2].decode())
        whole = self.service.request("GET", script)
        packed = self.service.request("GET", script, headers={"Accept-Encoding": "br, gzip"})
        self.assertEqual(gzip.decompress(packed[2]), whole[2])
        self.assertLess(len(packed[2]), len(whole[2]) / 2)
        self.assertIn("immutable", self.service.request("GET", script)[1]["Cache-Control"])

    def test_what_if_follows_its_parameters(self):
        model = self.service.json("GET", "/v1/models")["items"][0]["digest"]

        def explore(query=""):
            return self.service.json("GET", f"/v1/models/{model}/exploration?alignment=16{query}")

        kept = explore()
        self.assertEqual([entry["block_length"] for entry in kept["lengths"]], [16, 32, 48, 64, 80, 96])
        self.assertEqual(kept["chosen"], kept["best"])
        faster = explore("&link_speed=2")
        self.assertAlmostEqual(faster["best"]["communication_us"], kept["best"]["communication_us"] / 2)
        self.assertEqual(faster["best"]["compute_us"], kept["best"]["compute_us"])
        self.assertAlmostEqual(explore("&compute_speed=0.5")["best"]["compute_us"], 2 * kept["best"]["compute_us"])
        given = explore("&block_length=33")  # 32 is nearest
        self.assertEqual((given["block_length"], given["chosen"]["cut"]["block_rows"]), (32, [32, 32, 32]))
        self.assertEqual(
            given["chosen"]["makespan"]["us"],
            [entry["makespan_us"] for entry in given["lengths"] if entry["block_length"] == 32][0],
        )
        self.assertEqual(explore("&m=192")["axis_length"], 192)
        self.assertLessEqual(len(explore("&m=1000000000")["lengths"]), 130)

    def test_a_model_is_explored_by_itself(self):
        (listed,) = self.service.json("GET", "/v1/models")["items"]
        wide = f"/v1/models/{listed['digest']}/exploration?n=128"
        self.service.json("GET", wide, status=422)
        other = self.service.json("GET", f"/v1/models/{listed['digest']}")
        other["op"]["n"] = 128
        self.service.json("POST", "/v1/models", other, status=201)
        self.service.json("GET", wide, status=422)

    def test_the_best_plan_is_one_of_the_lengths(self):
        model = self.service.json("GET", "/v1/models")["items"][0]["digest"]
        for change in (
            "alignment=16",
            "m=1000&alignment=8",
            "m=999&alignment=1&link_speed=4",
            "m=4096&compute_speed=0.1",
        ):
            answer = self.service.json("GET", f"/v1/models/{model}/exploration?{change}")
            best, rows = answer["best"], answer["best"]["cut"]["block_rows"]
            (entry,) = (one for one in answer["lengths"] if one["block_length"] == answer["best_length"])
            self.assertEqual(entry["makespan_us"], best["makespan"]["us"], change)
            self.assertEqual(entry["odd_blocks"], [length for length in rows if length != entry["block_length"]])
            again = self.service.json(
                "GET", f"/v1/models/{model}/exploration?{change}&block_length={answer['best_length']}"
            )
            self.assertEqual(again["chosen"], best)

    def test_curves_have_their_samples_and_residuals(self):
        model = self.service.json("GET", "/v1/models")["items"][0]["digest"]
        compute, communication = self.service.json("GET", f"/v1/models/{model}/curves")["curves"]
        self.assertEqual((compute["axis"], communication["axis"]), ("rows", "bytes"))
        kept = self.exported()["samples"][0]["document"]["samples"]
        for curve, component in ((compute, "matmul"), (communication, "collective")):
            self.assertEqual(curve["sample_count"], sum(sample["component"] == component for sample in kept))
            for point in curve["points"]:
                self.assertTrue(point["low_us"] <= point["us"] <= point["high_us"], point)

    def test_races_of_a_plan_name_its_own(self):
        answer = self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}")
        races = self.service.json("GET", f"/v1/plans/{answer['digest']}/races")
        own = [race for race in races["items"] if race["is_of_plan"]][-1]
        self.assertEqual(own["fused_us"], answer["plan"]["validation"]["fused_us"])
        # The anchored parts are the measured ones.
        self.assertAlmostEqual(races["anchored"]["compute_us"], own["compute_us"])
        self.assertAlmostEqual(races["anchored"]["communication_us"], own["communication_us"])

    def test_the_history_tells_how_the_service_did(self):
        self.service = self.start("--history-interval", 1)
        coded = self.service.raw(b"GET /livez HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n")
        self.assertIn(b" 501 ", coded.partition(b"\r\n")[0])  # no failure of the service
        for _ in range(3):
            self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}")
        points = []
        for _ in range(400):
            points = self.ask("GET", "/v1/history", 200)["points"]
            if sum(point["numbers"]["questions"] for point in points) >= 3 and len(points) > 1:
                break
            time.sleep(0.05)
        self.assertEqual(sum(point["numbers"]["questions"] for point in points), 3)
        self.assertEqual(sum(point["numbers"]["questions_from_memory"] for point in points), 2)
        last = points[-1]["numbers"]
        validation = self.stored_plan()["validation"]
        self.assertEqual((last["plans"], last["raced_plans"], last["failed_requests"]), (1, 1, 0))
        self.assertAlmostEqual(last["gain"], validation["benefit"])
        self.assertAlmostEqual(
            last["prediction_error"], validation["fused_us"] / self.stored_plan()["makespan"]["us"] - 1
        )
        later = self.ask("GET", f"/v1/history?after={points[-2]['moment']}", 200)["points"]
        self.assertEqual(later[0], points[-1])
        self.assertIn("mc2_plan_gain_ratio", self.service.request("GET", "/metrics")[2].decode())
        self.assertEqual(self.service.stop(), 0)
        self.service = self.start("--history-interval", 0)
        self.assertGreaterEqual(len(self.ask("GET", "/v1/history", 200)["points"]), len(points), "kept over a restart")

    def test_figures_of_raced_plans_are_left_out_without_such_plans(self):
        for name in ("mc2_plan_gain_ratio", "mc2_plan_prediction_error_ratio"):
            self.assertIn(name, self.ask("GET", "/metrics", 200))
        for plan in self.service.json("GET", "/v1/plans")["items"]:
            self.ask("DELETE", f"/v1/plans/{plan['digest']}", 204)
        text = self.ask("GET", "/metrics", 200)
        self.assertIn("\nmc2_plans_raced 0\n", text)
        for name in ("mc2_plan_gain_ratio", "mc2_plan_prediction_error_ratio"):
            self.assertNotIn(name, text)

    def test_metrics_count_requests_by_route(self):
        for _ in range(3):
            self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}")
        self.service.request("BREW", "/coffee/1234")
        text = self.ask("GET", "/metrics", 200)
        self.assertIn('mc2_requests_total{method="GET",route="/v1/plan",status="200"} 3', text)
        self.assertIn('route="none",status="404"} 1', text)
        self.assertIn('mc2_plan_cache_total{result="hit"} 2', text)
        self.assertNotIn("coffee", text)

    def test_counters_that_alerts_ask_for_begin_at_zero(self):
        text = self.ask("GET", "/metrics", 200)  # else a rate has nothing to compare the first count with
        for reason in ("limit", "address", "timeout", "tls"):
            self.assertIn(f'\nmc2_connections_refused_total{{reason="{reason}"}} 0\n', text)
        for component in ("matmul", "collective"):
            self.assertIn(f'\nmc2_model_drift_alarms_total{{component="{component}"}} 0\n', text)
        for status in (500, 503):
            self.assertIn(f'\nmc2_requests_total{{method="GET",route="/v1/plan",status="{status}"}} 0\n', text)

    def test_request_ids_are_the_clients_own_where_they_are_fit(self):
        ours = self.service.request("GET", "/livez")[1]["X-Request-Id"]
        self.assertTrue(ours.startswith("mc2-"))
        self.assertEqual(
            self.service.request("GET", "/livez", headers={"X-Request-Id": "job-7.a_b"})[1]["X-Request-Id"], "job-7.a_b"
        )
        self.assertTrue(
            self.service.request("GET", "/livez", headers={"X-Request-Id": 'a"b'})[1]["X-Request-Id"].startswith("mc2-")
        )

    def test_the_access_log_has_a_line_for_every_answer(self):
        self.service.request("GET", "/livez?x=%22", headers={"X-Request-Id": "abc"})
        self.assertEqual(self.service.stop(), 0)
        lines = [json.loads(line) for line in self.service.log.read_text().splitlines() if line.startswith("{")]
        (line,) = [line for line in lines if line["request_id"] == "abc"]
        self.assertEqual((line["method"], line["target"], line["status"]), ("GET", "/livez?x=%22", 200))


if __name__ == "__main__":
    program.main()
