"""Who may ask `mc2 serve`: tokens and their roles, and what a network may do without tokens."""

import json
import re
import sqlite3
import time

import yaml

import serving
from serving import SHAPE_QUERY, ServiceTest, program

OPENAPI = yaml.safe_load((program.SOURCE_DIRECTORY / "schemas" / "openapi.yaml").read_text())
PLAN = f"/v1/plan?{SHAPE_QUERY}"


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


class TokensTest(ServiceTest):
    def token(self, role, *options):
        text = self.succeed("token", "create", "--role", role, "--store", self.store, *options).strip()
        self.assertRegex(text, r"^mc2_[0-9a-f]{8}_[0-9a-f]{64}$")
        return text

    def status(self, service, method, target, token=None, body=None, **headers):
        return service.request(method, target, body, {**(bearer(token) if token else {}), **headers})[0]

    def eventually(self, expected, ask):
        """Asks until the answer is `expected`. The service sees another program's changes within 50 ms; a busy host
        may take longer."""
        deadline = time.monotonic() + 20
        while (found := ask()) != expected and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual(found, expected)

    def test_tokens_are_made_and_revoked_by_admins(self):
        admin = self.token("admin")
        service = self.start("--refused-tokens-per-s", 0)

        def ask(method, target, body=None, token=admin):
            status, headers, answer = service.request(method, target, body and json.dumps(body), bearer(token))
            return status, headers, json.loads(answer) if answer else None

        status, headers, made = ask("POST", "/v1/tokens", {"role": "write", "name": "ci", "expires": "30d"})
        self.assertEqual((status, made["role"]), (201, "write"))
        self.assertEqual((headers["Location"], headers["Cache-Control"]), (f"/v1/tokens/{made['token']}", "no-store"))
        self.assertEqual(self.status(service, "GET", PLAN, made["text"]), 200)
        self.assertEqual(self.status(service, "GET", "/v1/tokens", made["text"]), 403)
        listed = ask("GET", "/v1/tokens")[2]["tokens"]
        # Tokens are listed by date; those of one second by their random identifiers.
        self.assertCountEqual([(token["role"], token["name"]) for token in listed], [("admin", ""), ("write", "ci")])
        self.assertNotIn(made["text"][13:], json.dumps(listed))
        printed = json.loads(self.succeed("token", "list", "--json", "--store", self.store))
        self.assertEqual(printed["tokens"], listed)
        self.assertEqual(ask("DELETE", f"/v1/tokens/{made['token']}")[0], 204)
        self.assertEqual(self.status(service, "GET", PLAN, made["text"]), 401)
        for wrong, field in (
            ({"role": "owner"}, "role"),
            ({"name": "x"}, "role"),
            ({"role": "read", "expires": "-3d"}, "expires"),
            ({"role": "read", "expires": ""}, "expires"),
            ({"role": "read", "colour": "red"}, "colour"),
            ({"role": 7}, "role"),
            ({"role": "read", "name": "x" * 65}, "name"),
        ):
            status, _, problem = ask("POST", "/v1/tokens", wrong)
            self.assertEqual((status, problem["field"]), (400, field), wrong)
        self.assertNotIn(made["text"], service.log.read_text())

    def test_the_first_token_is_made_where_the_store_is(self):
        service = self.start()
        status, _, body = service.request("POST", "/v1/tokens", json.dumps({"role": "admin"}))
        self.assertEqual(status, 409)
        self.assertIn("mc2 token create", json.loads(body)["detail"])
        self.assertEqual(service.json("GET", "/v1/tokens")["tokens"], [])

    def test_a_backup_is_a_store_of_its_own(self):
        service = self.start()
        status, headers, answer = service.request("GET", "/v1/backup")
        self.assertEqual((status, headers["Content-Type"]), (200, "application/vnd.sqlite3"))
        self.assertRegex(headers["Content-Disposition"], r'^attachment; filename="mc2-\d{4}-\d\d-\d\d\.db"$')
        copy = self.directory / "copy.db"
        copy.write_bytes(answer)
        self.assertIn("healthy", self.succeed("db", "check", "--store", copy))
        self.assertEqual(
            self.succeed("db", "export", "--store", copy), self.succeed("db", "export", "--store", self.store)
        )
        self.assertEqual([path.name for path in self.store.parent.glob(".mc2-backup*")], [], "nothing is left behind")
        for header in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            self.assertEqual(service.request("GET", "/v1/backup", headers=header)[0], 403, "a page of another site")
        self.assertEqual(service.request("GET", "/v1/backup", headers={"Sec-Fetch-Site": "none"})[0], 200)
        full = self.start("--least-free-bytes", 10**18)
        status, headers, body = full.request("GET", "/v1/backup")
        self.assertEqual((status, headers["Retry-After"]), (503, "10"))
        self.assertIn("no room", json.loads(body)["detail"])
        self.assertEqual(int(service.request("HEAD", "/v1/backup")[1]["Content-Length"]), len(answer))

    def test_old_documents_are_removed_as_the_service_is_told(self):
        counts = lambda: json.loads(self.succeed("db", "stats", "--json", "--store", self.store))  # noqa: E731
        before = counts()
        self.assertGreater(min(before["samples"], before["models"], before["plans"], before["measurements"]), 0)
        service = self.start("--keep-samples", "1s", "--keep-measurements", "52w", "--keep-models", "5200w")
        self.eventually(0, lambda: counts()["samples"])
        after = counts()
        self.assertEqual((after["models"], after["plans"]), (before["models"], before["plans"]))
        self.assertRegex(service.log.read_text(), r"removed \d+ batches of samples of before 20")
        self.assertEqual(service.stop(), 0)
        for wrong in ("long", "0d"):
            self.assertIn("--keep-samples", self.mc2("serve", "--keep-samples", wrong, "--store", self.store).stderr)
        self.succeed("db", "prune", "--models", "15000000d", "--store", self.store)  # a time before the year 0
        self.assertEqual(counts()["models"], before["models"])
        self.succeed("db", "prune", "--measurements", "1s", "--models", "1s", "--store", self.store)
        self.assertEqual((counts()["models"], counts()["measurements"], counts()["plans"]), (0, 0, before["plans"]))

    def test_without_tokens_everybody_on_this_machine_may(self):
        service = self.start()
        self.assertEqual(self.status(service, "GET", PLAN), 200)
        self.assertEqual(self.status(service, "POST", "/v1/plans", body="{"), 400)

    def test_refusals_are_no_fast_answers(self):
        token = self.token("read")
        service = self.start("--refused-tokens-per-s", 0)
        for _ in range(20):
            self.assertEqual(self.status(service, "GET", PLAN), 401)
        self.assertEqual(self.status(service, "GET", PLAN, token), 200)
        text = service.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})[2].decode()
        self.assertIn('mc2_requests_total{method="GET",route="/v1/plan",status="401"} 20\n', text)
        self.assertIn('mc2_request_seconds_count{route="/v1/plan"} 1\n', text)

    def test_roles_may_what_they_may_and_no_more(self):
        tokens = {role: self.token(role) for role in ("read", "write", "admin")}
        service = self.start("--refused-tokens-per-s", 0)
        #        method    target            without  read  write  admin
        cases = (
            ("GET", "/livez", 200, 200, 200, 200),
            ("GET", "/readyz", 200, 200, 200, 200),
            ("GET", "/metrics", 401, 200, 200, 200),
            ("GET", "/openapi.yaml", 401, 200, 200, 200),
            ("GET", "/v1/changes", 401, 200, 200, 200),
            ("GET", "/v1/tokens", 401, 403, 403, 200),
            ("POST", "/v1/tokens", 401, 403, 403, 400),
            ("DELETE", "/v1/tokens/ffffffff", 401, 403, 403, 404),
            ("GET", "/v1/backup", 401, 403, 403, 200),
            ("GET", PLAN, 401, 200, 200, 200),
            ("HEAD", PLAN, 401, 200, 200, 200),
            ("POST", "/v1/plan", 401, 400, 400, 400),
            ("POST", "/v1/what-if", 401, 400, 400, 400),
            ("POST", "/v1/plans", 401, 403, 400, 400),
            ("POST", "/v1/models", 401, 403, 400, 400),
            ("POST", "/v1/samples", 401, 403, 400, 400),
            ("POST", "/v1/imports", 401, 403, 400, 400),
            ("POST", "/v1/measurements", 401, 403, 400, 400),
            ("DELETE", "/v1/plans/ffffffff", 401, 403, 403, 404),
            ("DELETE", "/v1/models/ffffffff", 401, 403, 403, 404),
            ("DELETE", "/v1/samples/ffffffff", 401, 403, 403, 404),
            ("DELETE", "/v1/measurements/ffffffff", 401, 403, 403, 404),
            ("GET", "/nothing", 401, 404, 404, 404),
            ("PUT", "/v1/plan", 401, 405, 405, 405),
            # These paths show only after decoding what they are.
            ("DELETE", "/v1/plans/%66fffffff", 401, 403, 403, 404),
            ("DELETE", "/v1/%70lans/ffffffff", 401, 403, 403, 404),
            ("GET", "/%76%31/plans", 401, 200, 200, 200),
            ("GET", "/livez%2f..%2fv1/plans", 401, 404, 404, 404),
        )
        for method, target, *statuses in cases:
            for token, status in zip((None, *tokens.values()), statuses):
                with self.subTest(method=method, target=target, token=token):
                    body = "{" if method == "POST" else None
                    self.assertEqual(self.status(service, method, target, token, body), status)

    def test_every_route_takes_the_role_that_is_described(self):
        tokens = {"read": self.token("read"), "write": self.token("write")}
        service = self.start("--refused-tokens-per-s", 0)
        roles = ["read", "write", "admin"]
        for pattern, operations in OPENAPI["paths"].items():
            target = re.sub(r"\{\w+\}", "ffffffff", pattern)
            for method, operation in operations.items():
                if method == "parameters":
                    continue
                security = operation.get("security", OPENAPI["security"])
                with self.subTest(method=method, pattern=pattern):
                    body = "{" if method in ("post", "put") else None
                    ask = lambda token=None: self.status(service, method.upper(), target, token, body)
                    if not security:
                        self.assertNotIn(ask(), (401, 403))
                        continue
                    (role,) = security[0]["bearer"]
                    self.assertEqual(ask(), 401)
                    for lower in roles[: roles.index(role)]:
                        self.assertEqual(ask(tokens[lower]), 403)
                    if role in tokens:
                        self.assertNotIn(ask(tokens[role]), (401, 403))

    def test_refusals_say_what_is_missing(self):
        read = self.token("read")
        service = self.start()
        for headers, challenge, status in (
            ({}, 'Bearer realm="mc2"', 401),
            (bearer("nonsense"), 'Bearer realm="mc2", error="invalid_token"', 401),
            (bearer(read), 'Bearer realm="mc2", error="insufficient_scope"', 403),
        ):
            found, got, body = service.request("DELETE", "/v1/plans/ffffffff", None, headers)
            self.assertEqual((found, got["WWW-Authenticate"]), (status, challenge))
            self.assertEqual(got["Content-Type"], "application/problem+json")
            self.assertIn("token", json.loads(body)["detail"])
            self.assertNotIn(read, body.decode())

    def test_forms_of_the_header(self):
        read = self.token("read")
        service = self.start("--refused-tokens-per-s", 0)
        last = read[:-1] + ("0" if read[-1] != "0" else "1")
        for value, status in (
            (f"Bearer {read}", 200),
            (f"bearer {read}", 200),
            (f"BEARER   {read}", 200),
            (f"Bearer {last}", 401),
            (f"Bearer {read}x", 401),
            (f"Bearer {read[:12]}", 401),
            (read, 401),
            (f"Basic {read}", 401),
            ("Bearer", 401),
            ("Bearer ", 401),
            ("x" * 4000, 401),
        ):
            with self.subTest(value):
                self.assertEqual(self.status(service, "GET", PLAN, Authorization=value), status)
        fields = f"Authorization: Bearer {read}\r\nAuthorization: Bearer x\r\nConnection: close\r\n"
        twice = f"GET {PLAN} HTTP/1.1\r\nHost: x\r\n{fields}\r\n"
        self.assertIn(b"HTTP/1.1 401", service.raw(twice.encode()))

    def test_the_first_token_and_its_end_take_effect_on_a_running_service(self):
        service = self.start("--refused-tokens-per-s", 0)
        self.assertEqual(self.status(service, "GET", PLAN), 200)
        read = self.token("read")
        self.eventually(401, lambda: self.status(service, "GET", PLAN))
        self.eventually(200, lambda: self.status(service, "GET", PLAN, read))
        self.succeed("token", "revoke", read[4:12], "--store", self.store)
        self.eventually(401, lambda: self.status(service, "GET", PLAN, read))
        self.assertEqual(self.status(service, "GET", PLAN), 401, "revoking the last one lets nobody in")
        self.assertEqual(service.stop(), 0)
        self.assertEqual(self.status(self.start(), "GET", PLAN), 401, "nor does starting again")
        self.assertEqual(self.status(self.start("--require-tokens=false"), "GET", PLAN), 200)

    def test_tokens_expire(self):
        read = self.token("read", "--expires", "1s")
        service = self.start("--refused-tokens-per-s", 0)
        self.eventually(401, lambda: self.status(service, "GET", PLAN, read))
        self.assertIn("expired", self.succeed("token", "list", "--store", self.store))

    def test_required_before_there_is_one(self):
        self.assertEqual(self.status(self.start("--require-tokens"), "GET", PLAN), 401)

    def test_public_reading(self):
        write = self.token("write")
        service = self.start("--public-read")
        self.assertEqual(self.status(service, "GET", PLAN), 200)
        self.assertEqual(self.status(service, "POST", "/v1/plan", body="{"), 400)
        self.assertEqual(self.status(service, "POST", "/v1/plans", body="{"), 401)
        self.assertEqual(self.status(service, "POST", "/v1/plans", write, "{"), 400)

    def test_uploads_without_a_token_are_refused_before_they_are_read(self):
        self.token("read")
        service = self.start()
        for head in (
            "Content-Length: 60000000",
            "Content-Length: 99999999999",
            "Transfer-Encoding: chunked",
            "Content-Length: 60000000\r\nExpect: 100-continue",
        ):
            with service.connect() as connection:
                connection.sendall(f"POST /v1/models HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n".encode())
                answer = serving.read_all(connection)
            self.assertTrue(answer.startswith(b"HTTP/1.1 401"), answer)
            self.assertIn(b"Connection: close", answer)

    def test_connections_stay_open_after_a_refusal_without_body(self):
        read = self.token("read")
        service = self.start()
        answers = service.raw(
            f"GET {PLAN} HTTP/1.1\r\nHost: x\r\n\r\nGET {PLAN} HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Bearer {read}\r\nConnection: close\r\n\r\n".encode()
        )
        self.assertEqual(re.findall(rb"HTTP/1.1 (\d+)", answers), [b"401", b"200"])

    def test_many_failures_are_slowed_and_valid_tokens_are_not(self):
        read = self.token("read")
        service = self.start("--refused-tokens-per-s", 3)
        answers = [service.request("GET", PLAN, None, bearer("x")) for _ in range(20)]
        self.assertEqual([answer[0] for answer in answers[:3]], [401] * 3)
        limited = [answer for answer in answers if answer[0] == 429]
        self.assertTrue(limited)
        self.assertEqual(limited[0][1]["Retry-After"], "1")
        self.assertEqual(self.status(service, "GET", PLAN, read), 200)

    def test_pages_of_other_sites_may_not_write(self):
        service = self.start()
        own = f"http://127.0.0.1:{service.port}"
        for origin, status in (("http://evil.example", 403), ("null", 403), (own, 400)):
            self.assertEqual(self.status(service, "POST", "/v1/plans", body="{", Origin=origin), status, origin)
        self.assertEqual(self.status(service, "GET", PLAN, Origin="http://evil.example"), 200)

    def test_a_name_that_was_made_to_point_here_is_not_answered_without_a_token(self):
        service = self.start()
        for host, status in (
            ("evil.example:8471", 403),
            ("127.0.0.1.evil.example", 403),
            ("evil.example.", 403),
            ("localhost.", 200),
            ("mc2.LOCALHOST.:8471", 200),
            ("localhost:1", 200),
            ("127.0.0.1", 200),
            ("[::1]:8471", 200),
            ("mc2.localhost", 200),
            ("plans", 200),
        ):
            self.assertEqual(self.status(service, "GET", PLAN, Host=host), status, host)
        self.assertEqual(self.status(service, "GET", "/livez", Host="evil.example"), 200)
        for target, header, status in (("evil.example", "localhost", 403), ("localhost:1", "evil.example", 200)):
            head = f"GET http://{target}{PLAN} HTTP/1.1\r\nHost: {header}\r\nConnection: close\r\n\r\n"
            self.assertIn(b"HTTP/1.1 %d " % status, service.raw(head.encode()), "the target's host counts")
        read = self.token("read")
        self.assertEqual(self.status(self.start(), "GET", PLAN, read, Host="plans.example"), 200)

    def test_the_log_names_the_token_and_never_shows_it(self):
        read = self.token("read")
        service = self.start()
        self.status(service, "GET", PLAN, read)
        self.status(service, "GET", PLAN)
        self.assertEqual(service.stop(), 0)
        lines = [json.loads(line) for line in service.log.read_text().splitlines() if line.startswith("{")]
        self.assertEqual([(line["status"], line.get("token")) for line in lines], [(200, read[4:12]), (401, None)])
        self.assertNotIn(read[13:], service.log.read_text())

    def test_a_token_in_a_query_is_refused_and_not_logged(self):
        read = self.token("read")
        service = self.start()
        for name in ("token", "access_token", "Access%5FToken", "authorization"):
            for target in (f"{PLAN}&{name}={read}", f"/livez?{name}={read}"):
                status, _, body = service.request("GET", target)
                self.assertEqual(status, 400, target)
                self.assertIn(b"Authorization: Bearer", body)
        encoded = f"%6d{read[1:]}"
        for target in (
            f"{PLAN}&m={read}",
            f"/v1/plans?bearer={read}",
            f"/v1/plans/{read}",
            f"/v1/plans/{encoded}",
            f"/v1/plans?x=%zz&bearer={encoded}",
        ):
            self.assertEqual(self.status(service, "GET", target), 400, target)
        service.stop()
        self.assertNotIn(read[13:], service.log.read_text())
        self.assertNotIn(read, service.log.read_text())
        self.assertIn('/livez?..."', service.log.read_text())

    def test_a_copy_from_before_the_first_token_lets_nobody_in(self):
        earlier = self.store.read_bytes()
        admin = self.token("admin")
        service = self.start()
        with open(self.store, "r+b") as file:  # rewrites the same file, as restoring a backup does
            file.write(earlier)
            file.truncate()
        self.eventually(503, lambda: self.status(service, "GET", "/readyz"))
        self.assertEqual(self.status(service, "GET", PLAN), 401)
        status, _, body = service.request("POST", "/v1/tokens", json.dumps({"role": "read"}), bearer(admin))
        self.assertEqual(status, 503)
        self.assertIn("earlier copy", json.loads(body)["detail"])
        self.assertEqual(self.status(service, "GET", "/v1/backup", admin), 503)

    def test_the_network_is_let_in_only_on_purpose(self):
        self.refuse(
            program.USAGE,
            ["serve", "--address", "0.0.0.0", "--port", 0, "--store", self.store],
            "--address: 0.0.0.0",
            "token",
            "--insecure-network",
        )
        self.refuse(
            program.USAGE, ["serve", "--address", "::", "--port", 0, "--store", self.store], "--insecure-network"
        )
        new = self.store.with_name("new.db")
        self.refuse(program.USAGE, ["serve", "--address", "0.0.0.0", "--port", 0, "--store", new], "--address")
        self.assertFalse(new.exists())  # a refusal makes no store
        new.touch()
        self.refuse(program.USAGE, ["serve", "--address", "0.0.0.0", "--port", 0, "--store", new], "--address")
        self.assertEqual(new.stat().st_size, 0)
        service = self.start("--address", "0.0.0.0", "--insecure-network")
        self.assertEqual(self.status(service, "GET", PLAN), 200)

    def test_damaged_tokens_let_nobody_in(self):
        read = self.token("read")
        with sqlite3.connect(self.store) as database:
            database.execute("UPDATE token SET role = 'admin'")
        database.close()
        service = self.start()
        self.assertEqual(self.status(service, "GET", PLAN, read), 401)
        self.assertEqual(self.status(service, "GET", PLAN), 401)
        self.assertIn("damaged", self.complete("token", "list", "--store", self.store).stderr)
        self.assertEqual(self.mc2("db", "check", "--store", self.store).returncode, program.NEGATIVE)

    def test_a_store_holds_no_token_in_clear(self):
        read = self.token("read", "--name", "ci")
        self.assertNotIn(read[13:].encode(), self.store.read_bytes())
        listed = self.succeed("token", "list", "--store", self.store)
        self.assertIn(read[4:12], listed)
        self.assertIn("ci", listed)
        self.assertNotIn(read[13:], listed)

    def test_tokens_that_cannot_be(self):
        for options, text in (
            (["--role", "root"], "read, write, admin"),
            ([], "--role"),
            (["--role", "read", "--expires", "yesterday"], "2027-01-31"),
            (["--role", "read", "--expires", "2020-01-01"], "future"),
            (["--role", "read", "--expires", "0d"], "future"),
            (["--role", "read", "--expires", "2027-02-30"], "2027-01-31"),
            (["--role", "read", "--expires", "99999999999999999999d"], "2027-01-31"),
            (["--role", "read", "--expires", "1000000000w"], "10000"),
            (["--role", "read", "--name", "a\nb"], "control characters"),
        ):
            self.refuse(program.USAGE, ["token", "create", *options, "--store", self.store], text)
        self.refuse(program.NO_ANSWER, ["token", "revoke", "ffffffff", "--store", self.store], "mc2 token list")
        listed = self.succeed("token", "list", "--store", self.store)
        self.assertEqual(len(listed.splitlines()), 1, "none was made")

    def test_expiry_is_a_date_or_a_time_from_now(self):
        for text, expected in (
            ("2127-01-31", "2127-01-31T00:00:00Z"),
            ("2127-01-31T12:30:01Z", "2127-01-31T12:30:01Z"),
        ):
            self.token("read", "--expires", text)
            self.assertIn(expected, self.succeed("token", "list", "--store", self.store))
        self.token("read", "--expires", "52w")


if __name__ == "__main__":
    program.main()
