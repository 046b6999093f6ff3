"""Answers of `mc2 serve` compressed with gzip, and bodies under any Content-Encoding."""

import gzip

from serving import SHAPE_QUERY, ServiceTest, program

PLAN = f"/v1/plan?{SHAPE_QUERY}"


class CodingTest(ServiceTest):
    def setUp(self):
        super().setUp()
        self.service = self.start()

    def test_the_same_bytes_compressed_or_not(self):
        _, plain_headers, plain = self.service.request("GET", PLAN)
        self.assertGreater(len(plain), 1024)
        self.assertNotIn("Content-Encoding", plain_headers)
        self.assertEqual(plain_headers["Vary"], "Accept-Encoding")
        for _ in range(2):
            _, headers, body = self.service.request("GET", PLAN, headers={"Accept-Encoding": "br, gzip;q=0.8"})
            self.assertEqual(headers["Content-Encoding"], "gzip")
            self.assertEqual(headers["Vary"], "Accept-Encoding")
            self.assertEqual(int(headers["Content-Length"]), len(body))
            self.assertEqual(gzip.decompress(body), plain)
        self.assertLess(len(body), len(plain) / 2)
        self.assertNotEqual(headers["ETag"], plain_headers["ETag"], "other bytes, other strong tag")
        head = self.service.request("HEAD", PLAN, headers={"Accept-Encoding": "gzip"})[1]
        self.assertEqual((head["Content-Encoding"], head["Content-Length"]), ("gzip", headers["Content-Length"]))

    def test_each_form_is_revalidated_by_its_own_tag(self):
        tags = {}
        for accepts in ("identity", "gzip"):
            tags[accepts] = self.service.request("GET", PLAN, headers={"Accept-Encoding": accepts})[1]["ETag"]
        for accepts, tag in tags.items():
            for given, status in (
                (tag, 304),
                ("W/" + tag, 304),
                (tags["gzip" if accepts == "identity" else "identity"], 200),
            ):
                found, headers, body = self.service.request(
                    "GET", PLAN, headers={"Accept-Encoding": accepts, "If-None-Match": given}
                )
                self.assertEqual(found, status)
                self.assertEqual((headers["ETag"], headers["Vary"]), (tag, "Accept-Encoding"))
                if status == 304:
                    self.assertEqual(body, b"")
                    self.assertNotIn("Content-Encoding", headers)

    def test_small_answers_stay_as_they_are(self):
        self.assertNotIn(
            "Content-Encoding", self.service.request("GET", "/livez", headers={"Accept-Encoding": "gzip"})[1]
        )

    def test_weights_count_also_over_several_headers(self):
        for headers, is_coded in (
            ("Accept-Encoding: gzip;q=0", False),
            ("Accept-Encoding: br\r\nAccept-Encoding: gzip", True),
            ("Accept-Encoding: *;q=0.5\r\nAccept-Encoding: gzip;q=0", False),
        ):
            answer = self.service.raw(
                f"GET {PLAN} HTTP/1.1\r\nHost: x\r\n{headers}\r\nConnection: close\r\n\r\n".encode()
            )
            self.assertEqual(b"Content-Encoding: gzip" in answer, is_coded, headers)

    def test_compressed_bodies_are_refused_before_they_are_read(self):
        body = gzip.compress(b" " * 10_000_000)  # compressed like a decompression bomb
        for coding, status in (("gzip", 415), ("br", 415), ("identity", 400)):
            found, headers, _ = self.service.request(
                "POST", "/v1/plan", body if status == 415 else b"{", {"Content-Encoding": coding}
            )
            self.assertEqual(found, status)
            if status == 415:
                self.assertEqual(headers["Accept-Encoding"], "identity")

    def test_bodies_that_say_they_are_no_json_are_refused(self):
        for type_, status in (("text/plain", 415), ("application/json; charset=utf-8", 400), ("", 400)):
            headers = {"Content-Type": type_} if type_ else {}
            found, headers, body = self.service.request("POST", "/v1/plan", b"{", headers)
            self.assertEqual(found, status, body)
        found, headers, _ = self.service.request("POST", "/v1/models", b"{}", {"Content-Type": "application/yaml"})
        self.assertEqual((found, headers["Accept"]), (415, "application/json"))


if __name__ == "__main__":
    program.main()
