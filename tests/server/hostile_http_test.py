"""What a client may send and must not achieve: the service answers with the right status, closes the connection, and
lives on.

The first case is the reason why Boost.Beast reads the bytes on the wire: a chunk size of -1 ends a process that
listens with cpprestsdk 2.10.18 (docs/adr/0008-beast-on-the-wire.md).
"""

import json
import time
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

from serving import SHAPE_QUERY, ServiceTest, program, read_all

CHUNKED = b"POST /v1/plan HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
GET = b"GET /livez HTTP/1.1\r\nHost: x\r\n"
CASES = (
    (
        "chunk size -1",
        b"POST /v1/plan HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nabc\r\n0\r\n\r\n",
        400,
    ),
    (
        "chunk size of 20 digits",
        b"POST /v1/plan HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 20 + b"\r\n",
        400,
    ),
    ("chunk size no number", b"POST /v1/plan HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    ("length -1", b"POST /v1/plan HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
    (
        "length too large for 64 bits",
        b"POST /v1/plan HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
        400,
    ),
    ("two lengths", b"POST /v1/plan HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
    (
        "length and chunks",
        b"POST /v1/plan HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        400,
    ),
    (
        "length, and a coding that is none",
        b"POST /v1/plan HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: gzip\r\n\r\n{}",
        400,
    ),
    ("chunks of HTTP/1.0", b"POST /v1/plan HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("no host", b"GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n", 400),
    ("two hosts", GET + b"Host: y\r\n\r\n", 400),
    ("body announced too large", b"POST /v1/plan HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n", 413),
    ("upload announced too large", b"POST /v1/models HTTP/1.1\r\nHost: x\r\nContent-Length: 67108865\r\n\r\n", 413),
    ("headers too large", GET + b"X: " + b"a" * 9000 + b"\r\n\r\n", 431),
    ("trailer too large for Beast", CHUNKED + b"X: " + b"a" * 66_000 + b"\r\n\r\n", 431),
    ("name of a trailer too large for Beast", CHUNKED + b"a" * 66_000 + b": x\r\n\r\n", 431),
    ("trailers too large", CHUNKED + b"".join(b"X-%d: y\r\n" % i for i in range(2000)) + b"\r\n", 431),
    (
        "trailer too large behind an upload",
        CHUNKED.replace(b"plan", b"models") + b"X: " + b"a" * 66_000 + b"\r\n\r\n",
        431,
    ),
    ("trailers above all memory", CHUNKED + b"X: " + b"a" * 2_000_000, 431),
    ("many headers", GET + b"".join(b"X-%d: y\r\n" % i for i in range(2000)) + b"\r\n", 431),
    ("endless first line", b"GET /" + b"a" * 20000, 431),
    ("no HTTP", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)), 400),
    ("HTTP/0.9", b"GET /livez\r\n\r\n", 400),
    ("HTTP/9.9", b"GET /livez HTTP/9.9\r\n\r\n", 400),
    ("line break in a name", GET + b"A\nB: c\r\n\r\n", 400),
    ("null in a value", GET + b"A: b\x00c\r\n\r\n", 400),
    ("blank before the colon", GET + b"Content-Length : 0\r\n\r\n", 400),
    ("bad method", b"G(T /livez HTTP/1.1\r\n\r\n", 400),
    ("null in the target", b"GET /v1/plan?m=%00 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 400),
    ("escape that is none", b"GET /v1/plan?m=%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 400),
    ("path upwards", b"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404),
)


def status_of(answer):
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else None


class HostileHttpTest(ServiceTest):
    def test_each_is_refused_with_its_status_and_the_service_lives_on(self):
        service = self.start()
        for name, data, status in CASES:
            with self.subTest(name):
                self.assertEqual(status_of(service.raw(data)), status)
                self.assertTrue(service.is_alive())

    def test_a_body_of_unknown_end_is_no_second_request(self):
        service = self.start()
        for coding, status in (
            ("gzip", 400),
            ("identity", 400),
            ("xchunked", 400),
            ("chunked, identity", 400),
            ("chunked, chunked", 400),
            ("gzip, chunked", 501),
            ("gzip\r\nTransfer-Encoding: chunked", 501),
            ("chunked\r\nTransfer-Encoding: gzip", 400),
        ):
            with self.subTest(coding):
                answer = service.raw(
                    f"POST /livez HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: {coding}\r\n\r\n".encode() + GET + b"\r\n"
                )
                self.assertEqual(status_of(answer), status)
                self.assertEqual(answer.count(b"Server: mc2\r\n"), 1)
                self.assertIn(b"Connection: close", answer)
        self.assertEqual(
            status_of(service.raw(GET + b"Transfer-Encoding: Chunked\r\nConnection: close\r\n\r\n0\r\n\r\n")), 200
        )

    def test_trailers_within_the_limit_are_left_out(self):
        service = self.start()
        answer = service.raw(
            CHUNKED.replace(b"POST /v1/plan", b"GET /livez") + b"X: " + b"a" * 1000 + b"\r\nConnection: close\r\n\r\n"
        )
        self.assertEqual(status_of(answer), 200)

    def test_json_that_is_none(self):
        service = self.start()
        for name, body in (
            ("deep arrays", b"[" * 100_000),
            ("deep objects", b'{"a":' * 100_000),
            ("no UTF-8", b'{"schema": "\xff\xfe"}'),
            ("numbers", b'{"m": 1e999}'),
            ("empty", b""),
            ("null", b"null"),
            ("repeated key", b'{"schema": 1, "schema": 2}'),
            ("nan", b'{"schema": NaN}'),
            ("half", b'{"schema": "mc2.req'),
        ):
            for path in ("/v1/plan", "/v1/plan/batch", "/v1/what-if", "/v1/plans", "/v1/models", "/v1/samples"):
                with self.subTest(name, path=path):
                    self.assertEqual(service.request("POST", path, body)[0], 400)
        self.assertTrue(service.is_alive())

    def test_who_asks_before_a_body_is_told_to_go_on(self):
        service = self.start()
        for expectation in (b"100-continue", b"100-Continue"):
            with self.subTest(expectation), service.connect() as connection:
                connection.sendall(
                    b"POST /v1/plan HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1\r\nExpect: "
                    + expectation
                    + b"\r\n\r\n"
                )
                self.assertTrue(connection.recv(4096).startswith(b"HTTP/1.1 100 "))
                connection.sendall(b"{")
                self.assertEqual(status_of(read_all(connection)), 400)

    def test_who_speaks_an_older_http_is_told_nothing_before_the_answer(self):
        service = self.start()
        with service.connect() as connection:
            connection.sendall(b"POST /v1/plan HTTP/1.0\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n")
            time.sleep(0.2)
            connection.sendall(b"{")
            self.assertTrue(read_all(connection).startswith(b"HTTP/1.0 400 "))

    def test_every_answer_says_when_it_was_made(self):
        service = self.start()
        for target in ("/livez", "/nothing", "/v1/plan?m=x"):
            date = parsedate_to_datetime(service.request("GET", target)[1]["Date"])
            self.assertLess(abs((datetime.now(timezone.utc) - date).total_seconds()), 60)

    def test_preconditions_in_several_headers_and_of_other_methods(self):
        service = self.start()
        target = f"/v1/plan?{SHAPE_QUERY}"
        tag = service.request("GET", target)[1]["ETag"]
        head = f'GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nIf-None-Match: "x"\r\n'
        for more, status in ((f"If-None-Match: {tag}\r\n", 304), ('If-None-Match: "y"\r\n', 200)):
            self.assertEqual(status_of(service.raw((head + more + "\r\n").encode())), status)
        op = service.json("GET", target)["plan"]["op"]
        body = json.dumps({"schema": "mc2.request/1", "op": op})
        for given, status in ((tag, 412), ('"x"', 200)):
            self.assertEqual(service.request("POST", "/v1/plan", body, {"If-None-Match": given})[0], status)

    def test_requests_that_end_early(self):
        service = self.start()
        whole = b"POST /v1/plan HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n{}"
        for length in range(1, len(whole)):
            answer = service.raw(whole[:length])
            self.assertIn(status_of(answer), (None, 400), whole[:length])
        self.assertTrue(service.is_alive())

    def test_many_requests_on_one_connection_at_once(self):
        service = self.start()
        answers = service.raw((GET + b"\r\n") * 500 + GET + b"Connection: close\r\n\r\n")
        self.assertEqual(answers.count(b"HTTP/1.1 200 OK"), 501)

    def test_a_status_has_one_name(self):
        service = self.start()
        answer = service.raw(b"POST /v1/plan HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 413 Content Too Large\r\n"), answer)
        self.assertEqual(json.loads(answer.partition(b"\r\n\r\n")[2])["title"], "Content Too Large")

    def test_targets_with_a_host_are_those_without(self):
        service = self.start()
        for target, status in (
            ("http://x/livez", 200),
            ("HTTP://x/livez", 404),
            ("http://x", (200, 404)),
            ("https://x/v1/plans/../livez", 404),
        ):
            answer = service.raw(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            self.assertIn(status_of(answer), status if isinstance(status, tuple) else (status,), target)

    def test_head_has_the_length_and_no_body(self):
        service = self.start()
        answer = service.raw(b"HEAD /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        head, body = answer.split(b"\r\n\r\n", 1)
        self.assertEqual(body, b"")
        self.assertIn(b"Content-Length: 17", head)
        answer = service.raw(
            b"HEAD /v1/changes HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\nConnection: close\r\n\r\n"
        )
        head, body = answer.split(b"\r\n\r\n", 1)
        self.assertEqual((status_of(answer), body), (200, b""))
        self.assertNotIn(b"Content-Length", head, "a stream has no end")


if __name__ == "__main__":
    program.main()
