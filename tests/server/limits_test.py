"""Limits, deadlines and settings of `mc2 serve`, and how it ends."""

import json
import re
import resource
import signal
import socket
import time

import stall
from serving import SHAPE_QUERY, ServiceTest, program, read_all

SHORT = ["--header-timeout", "0.3", "--body-timeout", "0.3", "--idle-timeout", "0.6"]


class LimitsTest(ServiceTest):
    def test_connections_that_say_nothing_are_closed(self):
        service = self.start(*SHORT)
        silent = [service.connect() for _ in range(20)]
        for connection in silent:
            self.assertEqual(read_all(connection), b"")
            connection.close()
        for _ in range(100):  # the service counts them a moment after the clients have noticed
            metrics = service.request("GET", "/metrics")[2].decode()
            if "mc2_connections 1\n" in metrics:
                break
            time.sleep(0.02)
        self.assertIn("mc2_connections 1\n", metrics, "only this one is left")
        self.assertIn('mc2_connections_refused_total{reason="timeout"} 20\n', metrics)

    def test_headers_and_bodies_that_trickle_are_ended(self):
        service = self.start(*SHORT)
        for start in (b"GET /livez HTTP/1.1\r\n", b"POST /v1/plan HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"):
            with service.connect() as connection:
                connection.sendall(start)
                self.assertEqual(read_all(connection), b"")
        self.assertTrue(service.is_alive())

    def test_idle_connections_are_closed_later(self):
        service = self.start(*SHORT)
        with service.connect() as connection:
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertIn(b"200 OK", read_all(connection))

    def test_many_stalled_connections_are_closed_and_hold_nobody_up(self):
        service = self.start("--header-timeout", "0.3", "--body-timeout", "0.3")
        closed_s, took_ms, mib = stall.measure(service, f"/v1/plan?{SHAPE_QUERY}", 150)
        self.assertLess(closed_s, 30)  # a busy host is slow; stall.py has the figures
        self.assertTrue(took_ms)
        self.assertLess(mib, stall.LIMIT_MIB)

    def served_connections(self, service, count):
        """Opens this many connections that were answered once and stay open."""
        connections = [service.connect() for _ in range(count)]
        for connection in connections:
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            connection.recv(65536)
        return connections

    def test_connections_above_the_limit_are_told_to_come_back(self):
        service = self.start("--connections", 2)
        held = self.served_connections(service, 2)
        for request in (b"", b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"):
            with service.connect() as refused:
                refused.sendall(request)
                time.sleep(0.05)  # the request lies unread when the answer comes: it must not take the answer away
                answer = read_all(refused)
            self.assertIn(b"503 Service Unavailable", answer)
            self.assertIn(b"Retry-After: ", answer)
            self.assertEqual(json.loads(answer.partition(b"\r\n\r\n")[2])["status"], 503)
        for connection in held:
            connection.close()
        for _ in range(100):  # the service notices the closed ones a moment later
            try:
                if service.request("GET", "/livez")[0] == 200:
                    return
            except ConnectionError:
                pass
            time.sleep(0.02)
        self.fail("no connection is let in again")

    def test_one_address_does_not_take_all_connections(self):
        service = self.start("--connections-of-address", 2)
        held = self.served_connections(service, 2)
        self.assertIn(b"503 Service Unavailable", service.raw(b""))
        with socket.socket() as other:
            other.bind(("127.0.0.2", 0))
            other.connect(("127.0.0.1", service.port))
            other.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            self.assertIn(b'mc2_connections_refused_total{reason="address"} 1\n', read_all(other))
        for connection in held:
            connection.close()

    def test_a_client_that_asks_too_often_is_told_so(self):
        service = self.start("--requests-per-s", 5)
        statuses = [service.request("GET", "/livez")[0] for _ in range(20)]
        self.assertEqual(statuses[:5], [200] * 5)
        self.assertIn(429, statuses)

    def test_bodies_up_to_the_limit_are_taken(self):
        service = self.start("--body-bytes", 2000)
        self.assertEqual(service.request("POST", "/v1/plan", b" " * 2000)[0], 400)
        self.assertEqual(service.request("POST", "/v1/plan", b" " * 2001)[0], 413)
        self.assertEqual(service.request("POST", "/v1/models", b" " * 2001)[0], 400, "models may be larger")

    def refused(self, service, request):
        """(status, X-Request-Id, problem) of the answer to these bytes."""
        head, _, body = service.raw(request, keeps_sending_open=True).partition(b"\r\n\r\n")
        return int(head.split()[1]), re.search(r"X-Request-Id: (\S+)", head.decode()).group(1), json.loads(body)

    def test_what_is_too_large_is_told_the_limit_under_its_own_name(self):
        service = self.start("--body-bytes", 2000, "--upload-bytes", 3000, "--header-bytes", 1000, *SHORT)
        for path, length, parts in (
            ("/v1/plan", 2001, ("2000 bytes", "--body-bytes")),
            ("/v1/models", 3001, ("3000 bytes", "--upload-bytes")),
        ):
            for framing, body in (
                (f"Content-Length: {length}", b""),
                ("Transfer-Encoding: chunked", b"%x\r\n" % length),
            ):
                request = f"POST {path} HTTP/1.1\r\nHost: x\r\nX-Request-Id: mine\r\n{framing}\r\n\r\n".encode() + body
                status, name, problem = self.refused(service, request)
                self.assertEqual((status, name, problem["request_id"]), (413, "mine", "mine"), (path, framing))
                for part in parts:
                    self.assertIn(part, problem["detail"])
        head = b"GET /livez HTTP/1.1\r\nHost: x\r\n"
        status, name, problem = self.refused(service, head + b"X: " + b"a" * 1000)
        self.assertRegex(name, "^mc2-[0-9a-f]+$")
        self.assertEqual((status, problem["request_id"]), (431, name))
        status, name, _ = self.refused(service, head + b"X-Request-Id: unread\r\nX: " + b"a" * 1000)
        self.assertEqual((status, name), (431, "unread"))
        self.assertIn("1000 bytes", problem["detail"])
        self.assertIn("--header-bytes", problem["detail"])
        service.raw(
            b"POST /v1/plan HTTP/1.1\r\nHost: x\r\nX-Request-Id: slow\r\nContent-Length: 9\r\n\r\n{",
            keeps_sending_open=True,
        )
        self.assertEqual(service.stop(), 0)  # all lines are written by then
        records = [json.loads(line) for line in service.log.read_text().splitlines() if line.startswith("{")]
        self.assertEqual(
            [record["target"] for record in records if record["request_id"] == "mine"],
            ["/v1/plan"] * 2 + ["/v1/models"] * 2,
        )
        (slow,) = [record for record in records if record["request_id"] == "slow"]
        self.assertEqual((slow["status"], slow["bytes"]), (408, 0))
        self.assertGreaterEqual(slow["took_us"], 300_000)  # --body-timeout

    def test_every_refusal_is_counted(self):
        service = self.start("--requests-per-s", 7, "--body-bytes", 2000, *SHORT)
        question = b"POST /v1/plan HTTP/1.1\r\nHost: x\r\n"
        for status, request, method, route in (
            (400, b"nonsense\r\n\r\n", "other", "none"),
            (431, b"GET /livez HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 9000, "GET", "/livez"),
            (431, b"GET /" + b"a" * 20000, "other", "none"),
            (404, b"GET /nope HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "GET", "none"),
            (400, b"GET /livez HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", "GET", "/livez"),
            (413, question + b"Content-Length: 9999\r\n\r\n{", "POST", "/v1/plan"),
            (415, question + b"Content-Encoding: gzip\r\nConnection: close\r\n\r\n", "POST", "/v1/plan"),
        ):
            service.raw(request, keeps_sending_open=True)
            counted = f'mc2_requests_total{{method="{method}",route="{route}",status="{status}"}} 1\n'
            time.sleep(0.2)  # the rate limit counts requests of one address
            self.assertIn(counted, service.request("GET", "/metrics")[2].decode(), request[:60])
        service.raw(question + b"Content-Length: 9\r\n\r\n{", keeps_sending_open=True)  # gets no answer: counted once
        time.sleep(0.2)
        metrics = service.request("GET", "/metrics")[2].decode()
        self.assertIn('mc2_connections_refused_total{reason="timeout"} 1\n', metrics)
        self.assertNotIn('status="408"', metrics)
        statuses = [service.request("GET", "/livez")[0] for _ in range(20)]
        time.sleep(1)
        refused = f'mc2_requests_total{{method="GET",route="/livez",status="429"}} {statuses.count(429)}\n'
        self.assertIn(refused, service.request("GET", "/metrics")[2].decode())

    def test_headers_up_to_the_most_that_can_be_allowed_are_taken(self):
        service = self.start("--header-bytes", 65536)
        for length, status in ((65000, 200), (66000, 431), (100_000, 431)):
            self.assertEqual(service.request("GET", "/livez", headers={"X": "a" * length})[0], status, length)
        self.refuse(
            program.USAGE, ["serve", "--header-bytes", 65537, "--store", self.store], "--header-bytes", "256 to 65536"
        )

    def test_a_connection_for_which_there_is_no_memory_ends_alone(self):
        service = self.start("--body-bytes", 1 << 30)
        status = f"/proc/{service.process.pid}/status"
        with open(status) as file:
            taken = int(re.search(r"VmSize:\s+(\d+) kB", file.read()).group(1)) << 10
        if taken > 1 << 40:
            self.skipTest("a sanitizer takes terabytes of addresses itself")
        resource.prlimit(service.process.pid, resource.RLIMIT_AS, (taken + (512 << 20), resource.RLIM_INFINITY))
        for _ in range(3):
            answer = service.raw(b"POST /v1/plan HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n{" % (1 << 30))
            self.assertEqual(answer, b"")
        self.assertIn("a connection was given up: ", service.log.read_text())
        self.assertIn(b"mc2_connections 1\n", service.request("GET", "/metrics")[2], "only this one is left")

    def test_sigterm_answers_what_is_in_flight_and_ends(self):
        service = self.start()
        with service.connect() as idle, service.connect() as busy:
            idle.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            idle.recv(65536)
            busy.sendall(b"POST /v1/plan HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{")
            time.sleep(0.2)
            service.process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            busy.sendall(b"}")
            self.assertIn(b"400 Bad Request", read_all(busy))
            self.assertEqual(read_all(idle), b"")
        self.assertEqual(service.process.wait(timeout=10), 0)
        self.assertIn("mc2: stopped", service.log.read_text())

    def test_sigterm_ends_also_when_a_client_never_finishes(self):
        service = self.start("--drain-timeout", "0.5")
        with service.connect() as busy:
            busy.sendall(b"POST /v1/plan HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{")
            time.sleep(0.2)
            self.assertEqual(service.stop(), 0)

    def test_settings_come_from_options_then_environment_then_file(self):
        config = self.directory / "serve.json"
        config.write_text(json.dumps({"body-bytes": 3000, "header-bytes": 3000, "idle-timeout": 7}))
        environment = {**program.environment(self.directory), "MC2_SERVE_HEADER_BYTES": "2000"}
        done = self.mc2("serve", "--config", config, "--body-bytes", "100", "--store", self.store, env=environment)
        self.assert_refused(done, program.USAGE, "--body-bytes", "1024 to")  # names the option, not the file
        environment["MC2_SERVE_HEADER_BYTES"] = "100"
        done = self.mc2("serve", "--config", config, "--store", self.store, env=environment)
        self.assert_refused(done, program.USAGE, "--header-bytes", "256 to")  # names the environment, not the file

    def test_variables_that_no_setting_has_are_told(self):
        service = self.start(MC2_SERVE_REQUIRE_TOKEN="true")
        self.assertEqual(service.stop(), 0)
        self.assertIn("note: MC2_SERVE_REQUIRE_TOKEN is set, but mc2 serve has no such", service.log.read_text())

    def test_settings_that_are_none(self):
        config = self.directory / "serve.json"
        for text, *parts in (
            ("[]", "JSON object"),
            ('{"prot": 1}', '"prot" is no option'),
            ('{"port": "x"}', "port"),
            ('{"store": null}', '"store" is null; needs a string, a number'),
            ('{"port": [0]}', '"port" is array'),
            ('{"help-all": true}', '"help-all" is no option'),
            ('{"cached-answers": -5}', "cached-answers"),
            ("{", "line 1, column 2: is no JSON"),
            ('{\n "port": 1,\n "body-bytes" 5}', "line 3, column 15: ", "expected ':'"),
            ('{"port": 1, "body-bytes": 2000, "port": 1}', "key 'port' appears twice"),
            ('{"body-bytes": 1e6}', "--body-bytes", "'1000000.0' is no whole number", "1024 to 1073741824"),
            ('{"body-bytes": 1}', "--body-bytes", "is 1; legal: 1024 to 1073741824"),
            ('{"watchers": "x"}', "--watchers", "'x' is no whole number; legal: 0 to 65536"),
            ('{"threads": 1.5}', "--threads", "'1.5' is no whole number; legal: 0 to 256"),
            ('{"requests-per-s": "x"}', "--requests-per-s", "'x' is no number; legal: 0 to "),
            ('{"access-log": "maybe"}', "--access-log", "'maybe'", "true or false (or on, yes, 1, off, no, 0)"),
        ):
            config.write_text(text)
            self.refuse(program.USAGE, ["serve", "--config", config, "--store", self.store], "serve.json", *parts)
        for option in (
            "--cached-answers",
            "--cached-answer-bytes",
            "--least-free-bytes",
            "--requests-per-s",
            "--threads",
        ):
            self.refuse(program.USAGE, ["serve", f"{option}=-1", "--store", self.store], option)
        self.refuse(program.USAGE, ["serve", "--address", "nowhere", "--store", self.store], "IP address")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            fresh = self.directory / "fresh.db"
            for store in (self.store, fresh):
                self.refuse(
                    program.UNSUPPORTED,
                    ["serve", "--port", taken.getsockname()[1], "--store", store],
                    "cannot listen on 127.0.0.1 port",
                    "in use",
                )
        self.assertFalse(fresh.exists())

    def test_switches_are_true_or_false(self):
        config = self.directory / "serve.json"
        for name in ("require-tokens", "public-read", "insecure-network"):
            variable = "MC2_SERVE_" + name.upper().replace("-", "_")
            for wrong in ("maybe", "x", "2", "99999999999999999999"):
                command = ["serve", "--port", 0, "--store", self.store]
                self.refuse(program.USAGE, [*command, f"--{name}={wrong}"], f"--{name}", f"'{wrong}'", "true or false")
                done = self.mc2(*command, env={**program.environment(self.directory), variable: wrong})
                self.assert_refused(done, program.USAGE, f"--{name}", f"'{wrong}'", "true or false")
                config.write_text(json.dumps({name: wrong}))
                self.refuse(
                    program.USAGE,
                    [*command, "--config", config],
                    "serve.json",
                    f"--{name}",
                    f"'{wrong}'",
                    "true or false",
                )
        self.start("--public-read=Yes", "--require-tokens=off", "--insecure-network", MC2_SERVE_PUBLIC_READ="on")

    def test_a_unix_socket_is_private_and_removed(self):
        path = self.directory / "mc2.sock"
        service = self.start("--unix-socket", path)
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            connection.sendall(f"GET /v1/plan?{SHAPE_QUERY} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            self.assertIn(b"mc2.answer/1", read_all(connection))
        self.assertEqual(service.stop(), 0)
        self.assertFalse(path.exists())

    def test_a_file_in_place_of_the_socket_stays(self):
        path = self.directory / "precious"
        path.write_text("x")
        self.refuse(program.USAGE, ["serve", "--unix-socket", path, "--port", 0, "--store", self.store], "no socket")
        self.assertEqual(path.read_text(), "x")


if __name__ == "__main__":
    program.main()
