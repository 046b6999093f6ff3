"""Watching `mc2 serve`: whoever waits for changes of documents is told them at once and without a gap."""

import concurrent.futures
import copy
import http.client
import json
import os
import pathlib
import re
import subprocess
import threading
import time

from serving import SHAPE_QUERY, ServiceTest, program

MOST_KNOWN = 16384
EVENTS = {"Accept": "text/event-stream"}


class Stream:
    """A stream of events, read as it comes."""

    def __init__(self, service, target="/v1/changes", **headers):
        self.connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)
        self.connection.request(
            "GET", target, headers={**EVENTS, **{k.replace("_", "-"): v for k, v in headers.items()}}
        )
        self.answer = self.connection.getresponse()
        self.status = self.answer.status

    def next_event(self):
        """The next event as (id, type, data); None at the end of the stream."""
        fields = {}
        while line := self.answer.readline():
            line = line.decode().rstrip("\n")
            if line == "" and fields:
                return int(fields["id"]), fields["event"], json.loads(fields["data"])
            name, _, value = line.partition(": ")
            if name and not line.startswith(":"):
                fields[name] = value
        return None

    def close(self):
        self.answer.close()  # the answer holds the socket once the service has said that it will close
        self.connection.close()


class ChangesTest(ServiceTest):
    def setUp(self):
        super().setUp()
        self.pool = concurrent.futures.ThreadPoolExecutor(8)
        self.addCleanup(self.pool.shutdown)

    def plan(self, service, k=None):
        digest = service.json("GET", "/v1/plans?limit=1")["items"][0]["digest"]
        plan = service.json("GET", f"/v1/plans/{digest}")
        if k is not None:
            plan["op"]["k"] = k
        return plan

    def stream(self, service, target="/v1/changes", **headers):
        stream = Stream(service, target, **headers)
        self.addCleanup(stream.close)
        return stream

    def metric(self, service, name):
        return float(
            re.search(rf"^{re.escape(name)} (\S+)$", service.request("GET", "/metrics")[2].decode(), re.M).group(1)
        )

    def wait_for_watchers(self, service, count):
        for _ in range(400):
            if self.metric(service, "mc2_watchers") == count:
                return
            time.sleep(0.02)
        self.fail(f"there were never {count} watchers")

    def test_changes_since_an_epoch(self):
        service = self.start()
        start = service.json("GET", "/v1/changes")
        self.assertEqual(start["changes"], [])
        plan = self.plan(service, k=80)
        kept = service.json("POST", "/v1/plans", plan, status=201)["digest"]
        self.assertEqual(service.request("DELETE", f"/v1/plans/{kept}")[0], 204)
        told = service.json("GET", f"/v1/changes?since={start['epoch']}")
        self.assertEqual(
            [(c["document"], c["is_removal"], c["digest"], c["purpose"]) for c in told["changes"]],
            [("plan", False, kept, "tuned"), ("plan", True, kept, "tuned")],
        )
        self.assertEqual(told["changes"][0]["op"], plan["op"])
        self.assertEqual(told["epoch"], told["changes"][-1]["epoch"])
        self.assertEqual(service.json("GET", f"/v1/changes?since={told['epoch']}")["changes"], [])

    def test_who_waits_is_told_of_the_first_change(self):
        service = self.start()
        epoch = service.json("GET", "/v1/changes")["epoch"]
        waiting = self.pool.submit(service.json, "GET", f"/v1/changes?since={epoch}&wait_ms=30000")
        self.wait_for_watchers(service, 1)
        kept = service.json("POST", "/v1/plans", self.plan(service, k=80), status=201)["digest"]
        told = waiting.result(timeout=20)
        self.assertEqual([c["digest"] for c in told["changes"]], [kept])
        self.wait_for_watchers(service, 0)
        quiet = service.json("GET", f"/v1/changes?since={told['epoch']}&wait_ms=50")
        self.assertEqual((quiet["changes"], quiet["epoch"]), ([], told["epoch"]))

    def test_what_another_program_keeps_is_told(self):
        service = self.start()
        stream = self.stream(service)
        self.assertEqual(stream.next_event()[1], "start")
        exported = json.loads(self.succeed("db", "export", "--store", self.store))
        exported["plans"][0]["document"]["op"]["k"] = 96
        changed = self.directory / "changed.json"
        changed.write_text(json.dumps(exported))
        self.succeed("db", "import", changed, "--store", self.store)
        _, kind, change = stream.next_event()
        self.assertEqual((kind, change["document"], change["op"]["k"]), ("change", "plan", 96))

    def test_a_stream_goes_on_where_it_was_cut(self):
        service = self.start()
        stream = self.stream(service)
        begin, kind, _ = stream.next_event()
        self.assertEqual(kind, "start")
        digests = [
            service.json("POST", "/v1/plans", self.plan(service, k=k), status=201)["digest"] for k in (80, 96, 112)
        ]
        first = stream.next_event()
        self.assertEqual(first[2]["digest"], digests[0])
        stream.close()
        again = self.stream(service, Last_Event_ID=str(first[0]))
        self.assertEqual(again.next_event()[:2], (first[0], "start"))
        self.assertEqual([again.next_event()[2]["digest"] for _ in range(2)], digests[1:])
        by_query = self.stream(service, f"/v1/changes?since={begin}")
        by_query.next_event()
        self.assertEqual([by_query.next_event()[2]["digest"] for _ in range(3)], digests)

    def test_many_changes_come_complete_and_in_order(self):
        service = self.start()
        streams = [self.stream(service) for _ in range(4)]
        for stream in streams:
            stream.next_event()
        readers = [self.pool.submit(lambda s=s: [s.next_event() for _ in range(2500)]) for s in streams]
        exported = json.loads(self.succeed("db", "export", "--store", self.store))
        plan = exported["plans"][0]
        exported["plans"] = []
        for k in range(2500):
            exported["plans"].append(
                {**plan, "document": {**plan["document"], "op": {**plan["document"]["op"], "k": 1000 + k}}}
            )
        many = self.directory / "many.json"
        many.write_text(json.dumps(exported))
        self.succeed("db", "import", many, "--store", self.store)
        for reader in readers:
            events = reader.result(timeout=60)
            self.assertEqual([event[2]["op"]["k"] for event in events], [1000 + k for k in range(2500)])
            self.assertEqual([event[0] for event in events], [event[2]["epoch"] for event in events])

    def test_what_is_too_long_ago_or_never_was_is_refused(self):
        service = self.start()
        epoch = service.json("GET", "/v1/changes")["epoch"]
        ahead = service.json("GET", f"/v1/changes?since={epoch + 1}", status=409)
        self.assertEqual((ahead["code"], ahead["field"]), ("stale", "since"))
        self.assertIn(f"the store is at {epoch}", ahead["detail"])
        before = service.json("GET", "/v1/changes?since=0", status=409)
        self.assertIn("known since", before["detail"])
        for query, field in (
            ("since=-1", "since"),
            ("since=x", "since"),
            ("wait_ms=60001", "wait_ms"),
            ("wait_ms=-1", "wait_ms"),
            ("epoch=1", "epoch"),
        ):
            self.assertEqual(service.json("GET", f"/v1/changes?{query}", status=400)["field"], field)
        status, _, body = service.request("GET", "/v1/changes", headers={**EVENTS, "Last-Event-ID": "7; drop"})
        self.assertEqual((status, json.loads(body)["field"]), (400, "Last-Event-ID"))
        self.assertEqual(service.request("GET", "/v1/changes", headers={"Accept": "text/html"})[0], 406)

    def test_only_so_many_wait_at_a_time(self):
        service = self.start("--watchers", 2)
        streams = [self.stream(service) for _ in range(2)]
        self.wait_for_watchers(service, 2)
        refused = self.stream(service)
        self.assertEqual(refused.status, 503)
        self.assertIn("--watchers", json.loads(refused.answer.read())["detail"])
        epoch = service.json("GET", "/v1/changes")["epoch"]  # a question that does not wait is answered
        self.assertEqual(service.request("GET", f"/v1/changes?since={epoch}&wait_ms=1000")[0], 503)
        streams[0].close()
        self.wait_for_watchers(service, 1)  # a client that has gone makes room
        self.assertEqual(self.stream(service).status, 200)

    def test_those_who_wait_do_not_keep_a_service_from_ending(self):
        service = self.start()
        stream = self.stream(service)
        stream.next_event()
        epoch = service.json("GET", "/v1/changes")["epoch"]
        waiting = self.pool.submit(service.json, "GET", f"/v1/changes?since={epoch}&wait_ms=60000")
        self.wait_for_watchers(service, 2)
        begin = time.monotonic()
        self.assertEqual(service.stop(), 0)
        self.assertLess(time.monotonic() - begin, 4, "SIGTERM ends it before --drain-timeout")
        self.assertIsNone(stream.next_event(), "the stream has an end, as chunks say it")
        self.assertEqual(waiting.result(timeout=5)["changes"], [])

    def test_a_token_that_is_revoked_hears_no_more(self):
        token = self.succeed("token", "create", "--role", "read", "--store", self.store).strip()
        admin = self.succeed("token", "create", "--role", "admin", "--store", self.store).strip()
        service = self.start()
        self.assertEqual(self.stream(service).status, 401)
        stream = self.stream(service, Authorization=f"Bearer {token}")
        self.assertEqual(stream.next_event()[1], "start")
        begin = time.monotonic()
        self.succeed("token", "revoke", token[4:12], "--store", self.store)
        self.assertIsNone(stream.next_event())
        self.assertLess(time.monotonic() - begin, 10, "it is not waited for the next comment")
        answer = service.request("GET", "/v1/changes", headers={"Authorization": f"Bearer {admin}"})
        self.assertEqual(answer[0], 200)

    def test_an_earlier_copy_in_the_stores_place_is_told_and_besieges_nobody(self):
        service = self.start()
        earlier = self.store.read_bytes()
        service.json("POST", "/v1/plans", self.plan(service, k=80), status=201)
        stream = self.stream(service)
        stream.next_event()
        with open(self.store, "r+b") as file:  # rewrites the same file, as restoring a backup does
            file.write(earlier)
            file.truncate()
        for _ in range(400):
            status, _, body = service.request("GET", "/readyz")
            if status == 503:
                break
            time.sleep(0.02)
        self.assertIn("earlier copy", json.loads(body)["detail"])
        used = lambda: sum(
            map(int, pathlib.Path(f"/proc/{service.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13])
        )
        before = used()
        time.sleep(1)
        self.assertLess((used() - before) / os.sysconf("SC_CLK_TCK"), 0.5, "of a second, for one client that waits")

    def test_another_course_of_the_store_in_its_place_takes_no_writes(self):
        start = self.store.read_bytes()
        service = self.start()
        service.json("POST", "/v1/plans", self.plan(service, k=80), status=201)
        service.stop()
        other_course = self.store.read_bytes()
        self.store.write_bytes(start)
        service = self.start()
        service.json("POST", "/v1/plans", self.plan(service, k=96), status=201)
        with open(self.store, "r+b") as file:  # as many changes as the service knows, but not the same
            file.write(other_course)
            file.truncate()
        plan = json.dumps(self.plan(service, k=64))
        status, _, body = service.request("POST", "/v1/plans", plan)
        self.assertEqual(status, 503)
        self.assertIn("another store", json.loads(body)["detail"])
        service.stop()
        self.succeed("db", "check", "--store", self.store)

    def test_requests_that_wait_are_counted_once_with_what_they_end_with(self):
        service = self.start("--watchers", 1)
        epoch = service.json("GET", "/v1/changes")["epoch"]
        counted = lambda status: self.metric(  # noqa: E731
            service, f'mc2_requests_total{{method="GET",route="/v1/changes",status="{status}"}}'
        )
        self.assertEqual(service.json("GET", f"/v1/changes?since={epoch}&wait_ms=10")["changes"], [])
        self.assertEqual(counted(200), 2)
        stream = self.stream(service)
        self.wait_for_watchers(service, 1)
        self.assertEqual(counted(200), 3)
        service.json("POST", "/v1/plans", self.plan(service, k=80), status=201)
        self.assertEqual(stream.next_event()[1], "start")
        self.assertEqual(stream.next_event()[1], "change")
        self.assertEqual(service.request("GET", "/v1/changes?wait_ms=50")[0], 503)
        self.assertEqual(self.stream(service).status, 503)
        self.assertEqual((counted(200), counted(503)), (3, 2))

    def test_clients_of_http_1_0_get_a_stream_that_ends_with_the_connection(self):
        service = self.start()
        with service.connect() as connection:
            connection.sendall(b"GET /v1/changes HTTP/1.0\r\nAccept: text/event-stream\r\n\r\n")
            received = b""
            while b"event: start" not in received:
                received += connection.recv(4096)
            self.assertNotIn(b"chunked", received)
            service.json("POST", "/v1/plans", self.plan(service, k=80), status=201)
            while b"event: change" not in received:
                received += connection.recv(4096)

    def test_the_program_watches_a_store(self):
        service = self.start()
        epoch = service.json("GET", "/v1/changes")["epoch"]
        watching = subprocess.Popen(
            [program.MC2, "db", "watch", "--since", str(epoch), "--store", str(self.store)],
            stdout=subprocess.PIPE,
            text=True,
            env=program.environment(self.directory),
        )
        self.addCleanup(watching.stdout.close)
        self.addCleanup(watching.wait)
        self.addCleanup(watching.terminate)
        kept = service.json("POST", "/v1/plans", self.plan(service, k=80), status=201)["digest"]
        line = watching.stdout.readline()
        self.assertRegex(line, rf"^{epoch + 1}  plan         kept     {kept[:12]}  .*tuned$")
        service.request("DELETE", f"/v1/plans/{kept}")
        self.assertIn("removed", watching.stdout.readline())
        self.store.rename(self.store.with_name("away.db"))
        self.assertEqual(watching.wait(timeout=20), 3, "a store that has gone ends it")

    def test_the_answer_to_a_question_is_new_once_a_change_was_told(self):
        service = self.start()
        before = service.json("GET", f"/v1/plan?{SHAPE_QUERY}")
        stream = self.stream(service)
        stream.next_event()
        plan = copy.deepcopy(before["plan"])
        plan["reason"] = "another"
        threading.Thread(target=service.json, args=("POST", "/v1/plans", plan, 201)).start()
        told, _, change = stream.next_event()
        after = service.json("GET", f"/v1/plan?{SHAPE_QUERY}")
        self.assertEqual((after["digest"], after["epoch"]), (change["digest"], told))


if __name__ == "__main__":
    program.main()
