"""POST /v1/imports: logs of other tools become samples, and large bodies do not fill the memory."""

import gzip
import http.client
import json
import pathlib
import threading

from serving import SHAPE_QUERY, ServiceTest, program

LOGS = program.SOURCE_DIRECTORY / "data" / "logs"
SAID = "op=matmul_all_reduce&m=4096&n=8192&k=3072&dtype=bf16&device=npu"
KERNELS = "Op Name,OP Type,Task Duration(us),Input Shapes,Input Data Types,Output Shapes\n"
ROW = 'x,MatMulV3,{us},"""{m},3072;3072,8192""",FLOAT16;FLOAT16,"""{m},8192"""\n'
GOOD_ROWS = KERNELS + ROW.format(us=100, m=512) + ROW.format(us=200, m=1024)
MIB = 1 << 20


class ImportsTest(ServiceTest):
    def setUp(self):
        super().setUp()
        self.service = self.start()

    def take(self, log, query, status):
        found, _, body = self.service.request("POST", f"/v1/imports?{query}", log)
        self.assertEqual(found, status, body[:500])
        self.assertNotIn(str(self.directory), body.decode())
        return json.loads(body)

    def test_a_log_becomes_samples_that_can_be_fetched(self):
        report = self.take((LOGS / "nccl_tests.log").read_bytes(), SAID, 201)
        self.assertEqual(report["format"], "nccl_tests")
        kept = report["samples"]
        self.assertEqual(
            sum(group["count"] for group in report["lines"] if group["verdict"] == "took"), report["took_count"]
        )
        profile = self.service.json("GET", f"/v1/samples/{kept['digests'][0]}")
        self.assertEqual(len(profile["samples"]), kept["sample_count"])
        self.assertEqual(profile["op"], kept["op"])
        self.assertEqual(profile["fingerprint"]["device"], "npu")
        listed = self.service.json("GET", f"/v1/samples?machine={kept['machine'][:12]}")["items"]
        self.assertEqual([item["digest"] for item in listed], kept["digests"])
        self.assertEqual(self.service.json("GET", "/v1/samples?op=all_gather_matmul")["items"], [])
        self.assertEqual(self.service.json("GET", "/v1/samples?dtype=f32&machine=" + kept["machine"])["items"], [])

    def test_the_program_takes_the_same_of_the_same_log(self):
        log = LOGS / "op_summary.csv"
        query = "op=matmul_all_reduce&ranks=8&device=npu&bytes=neighbour&keep_good=true"
        report = self.take(gzip.compress(log.read_bytes()), query, 201)
        other = self.directory / "other.db"
        self.succeed(
            "import",
            log,
            "--op",
            "matmul_all_reduce",
            "--ranks",
            8,
            "--device",
            "npu",
            "--bytes",
            "neighbour",
            "--keep-good",
            "--store",
            other,
        )
        document = json.loads(self.succeed("db", "export", "--store", other))["samples"][0]["document"]
        self.assertEqual(self.service.json("GET", f"/v1/samples/{report['samples']['digests'][0]}"), document)

    def test_measured_cuts_become_measurements(self):
        log = (LOGS / "cuts.csv").read_bytes()
        query = "op=matmul_all_reduce&m=4096&n=8192&k=3072&dtype=f16&ranks=8&device=npu"
        report = self.take(log, query, 201)
        self.assertEqual((report["format"], report["took_count"]), ("cuts", 3))
        kept = report["samples"]
        self.assertEqual((kept["sample_count"], len(kept["measurements"])), (0, 2))
        measured = self.service.json("GET", f"/v1/measurements/{kept['measurements'][0]}")
        self.assertEqual(measured["cut"]["block_rows"], [512] + 4 * [896])
        self.assertEqual((measured["fused_us"], measured["pair_count"]), (1260.75, 2))
        self.assertEqual(self.take(log, query, 200)["samples"]["measurements"], [])
        problem = self.take(b"blocks,fused_us\n512,1262\n", query, 400)
        self.assertIn("4096", problem["detail"])

    def test_fused_operators_of_a_log_are_measured_cuts(self):
        row = 'x,MatmulAllReduce,1262,"""4096,3072;3072,8192""",FLOAT16;FLOAT16,"""4096,8192"""\n'
        query = "op=matmul_all_reduce&ranks=8&device=npu"
        self.assertIn("blocks", self.take(KERNELS + row, query, 400)["detail"])
        report = self.take(KERNELS + row, query + "&blocks=512,4x896", 201)
        self.assertEqual(len(report["samples"]["measurements"]), 1)
        self.assertIn("blocks", self.take(KERNELS + row, query + "&blocks=512,x", 400)["detail"])

    def test_only_a_machine_with_something_for_the_ranks_is_meant(self):
        self.take((LOGS / "nccl_tests.log").read_bytes(), SAID, 201)  # of 4 ranks
        for target in (f"/v1/plan?{SHAPE_QUERY}&ranks=8", "/v1/llms/Llama-3-70B/plan"):
            problem = self.service.json("GET", target, status=404)
            self.assertEqual(problem["field"], "machine")
            self.assertIn("no machine has 8 ranks; there are ", problem["detail"])
            self.assertIn("(imported on npu", problem["detail"])
        # The device does not stand beside the machine of two ranks, as it has nothing for two.
        answer = self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}&ranks=2")
        self.assertEqual(answer["plan"]["fingerprint"]["backend"], "host")
        # It is the only machine of four ranks, but nobody has named it.
        problem = self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}&ranks=4", status=422)
        self.assertEqual(problem["field"], "machine")
        named = self.service.json("GET", f"/v1/plan?{SHAPE_QUERY}&ranks=8&device=npu", status=404)
        self.assertEqual(named["field"], "device")

    def test_a_question_says_which_times_a_device_lacks(self):
        self.take((LOGS / "nccl_tests.log").read_bytes(), SAID, 201)
        question = "m=4096&n=8192&k=3072&dtype=bf16&ranks=4&device=npu"
        problem = self.service.json("GET", f"/v1/plan?{question}", status=422)
        self.assertEqual(problem["field"], "device")
        self.assertIn("'npu' has no matmul times for matmul_all_reduce m=4096", problem["detail"])
        self.assertIn("import a log that has them", problem["detail"])
        rows = KERNELS + "".join(ROW.format(us=m / 8, m=m).replace("FLOAT16", "DT_BF16") for m in (512, 1024, 2048))
        self.take(rows, "op=matmul_all_reduce&m=4096&ranks=4&device=npu", 201)
        problem = self.service.json("GET", f"/v1/plan?{question}", status=422)  # two sizes of all_reduce, not three
        self.assertEqual(problem["field"], "device")
        self.assertIn("'npu' give no costs: imported collective: too few distinct sizes", problem["detail"])

    def test_a_log_that_comes_again_adds_nothing(self):
        log = (LOGS / "nccl_tests.log").read_bytes()
        self.take(log, SAID, 201)
        again = self.take(log, SAID, 200)
        self.assertEqual(again["samples"]["digests"], [])
        self.assertIn("nothing was added", again["notes"][-1])

    def test_a_dry_run_keeps_nothing_and_names_every_line(self):
        report = self.take(GOOD_ROWS, "dry_run=true&every_line=true", 200)
        self.assertIsNone(report["samples"])
        self.assertEqual(
            [(line, verdict) for line, verdict, _ in report["every_line"]], [(1, "skipped"), (2, "took"), (3, "took")]
        )
        self.assertEqual(report["left_out_count"], 0)
        self.assertEqual(self.service.json("GET", "/v1/samples?op=matmul_all_reduce&n=8192")["items"], [])

    def test_bad_lines_are_named_and_left_out_only_when_told_to(self):
        log = GOOD_ROWS + ROW.format(us=-5, m=64)
        query = "op=matmul_all_reduce&ranks=4&device=npu"
        problem = self.take(log, query, 400)
        self.assertIn("log:4: a duration of -5 us", problem["detail"])
        self.assertIn("keep_good=true", problem["detail"])
        self.assertEqual(problem["report"]["bad_count"], 1)
        self.assertEqual(problem["report"]["lines"][-1]["verdict"], "bad")
        self.assertEqual(problem["report"]["lines"][-1]["runs"], [[4, 4]])
        self.assertEqual(self.service.json("GET", "/v1/samples?n=8192")["items"], [])
        self.assertEqual(self.take(log, query + "&keep_good=true", 201)["samples"]["sample_count"], 2)

    def test_what_a_log_cannot_know_is_asked_for_by_parameter(self):
        self.assertIn("the operator (op)", self.take(GOOD_ROWS, "device=npu", 400)["detail"])
        report = self.take((LOGS / "osu_alltoall_full.txt").read_bytes(), "dry_run=true", 400)["report"]
        self.assertEqual(report["questions"], ["how many ranks took part (ranks)"])
        for query, field, part in (
            ("m=0", "m", "1 to"),
            ("ranks=x", "ranks", "whole number"),
            ("op=x", "op", "matmul_all_reduce"),
            ("buffers=x", "buffers", "in-place"),
            ("bytes=x", "bytes", "neighbour"),
            ("collective=x", "collective", "all_gather"),
            ("format=x", "format", "nccl_tests"),
            ("keep_good=1", "keep_good", "true or false"),
            ("divice=x", "divice", "no parameter"),
        ):
            problem = self.take(GOOD_ROWS, query, 400)
            self.assertEqual(problem["field"], field, problem)
            self.assertIn(part, problem["detail"])

    def test_no_environment_of_a_log_is_kept_or_answered(self):
        log = (LOGS / "nccl_tests.json").read_bytes()
        self.assertIn(b"API_TOKEN=secret", log)
        for query, status in ((SAID + "&every_line=true", 201), ("", 400)):
            answer = json.dumps(self.take(log, query, status))
            self.assertNotIn("secret", answer)
            self.assertNotIn("/usr/bin", answer)
        self.assertNotIn(b"secret", pathlib.Path(self.store).read_bytes())


class LargeBodiesTest(ServiceTest):
    def memory_bytes(self):
        """The service's memory that belongs to no file. This memory must be bounded."""
        text = pathlib.Path(f"/proc/{self.service.process.pid}/status").read_text()
        return int(next(line for line in text.splitlines() if line.startswith("RssAnon:")).split()[1]) << 10

    def begin(self, size):
        connection = http.client.HTTPConnection("127.0.0.1", self.service.port, timeout=30)
        self.addCleanup(connection.close)
        connection.putrequest("POST", "/v1/imports?dry_run=true")
        connection.putheader("Content-Length", str(size))
        connection.endheaders()
        return connection

    def test_large_bodies_wait_in_files_and_no_more_than_the_limit(self):
        self.service = self.start("--uploads", 2)
        before = self.memory_bytes()
        piece = b" " * MIB
        held = [self.begin(41 * MIB) for _ in range(2)]
        for connection in held:
            for _ in range(40):
                connection.send(piece)
        status, headers, _ = self.service.request("POST", "/v1/imports", b"x", {"Content-Length": str(40 * MIB)})
        self.assertEqual(status, 503)
        self.assertEqual(headers["Retry-After"], "1")
        self.assertEqual(
            self.service.request("POST", "/v1/imports?dry_run=true", GOOD_ROWS)[0], 200, "small ones need no place"
        )
        self.assertLess(self.memory_bytes() - before, 16 * MIB)
        for connection in held:
            connection.send(piece)
        for connection in held:
            self.assertEqual(connection.getresponse().status, 400)  # blanks are no log
        self.assertLess(self.memory_bytes() - before, 32 * MIB)
        again = self.begin(2 * MIB)
        again.send(piece + piece)
        self.assertEqual(again.getresponse().status, 400, "the places are free again")
        self.assertEqual(list(pathlib.Path(self.store).parent.glob(".mc2-upload*")), [])

    def test_bodies_that_do_not_come_take_no_place(self):
        self.service = self.start("--uploads", 1)
        for _ in range(4):
            self.begin(41 * MIB)
            stalled = http.client.HTTPConnection("127.0.0.1", self.service.port, timeout=30)
            self.addCleanup(stalled.close)
            stalled.putrequest("POST", "/v1/imports?dry_run=true")
            stalled.putheader("Transfer-Encoding", "chunked")
            stalled.endheaders()
            stalled.send(b"5\r\nhello\r\n")
        # Blanks are no log.
        self.assertEqual(self.service.request("POST", "/v1/imports?dry_run=true", b" " * (2 * MIB))[0], 400)

    def test_a_large_log_is_taken_whole_also_in_chunks(self):
        self.service = self.start("--body-bytes", 1024)
        rows = KERNELS + "".join(ROW.format(us=100 + i % 7, m=512) for i in range(20_000))

        def chunks():
            for at in range(0, len(rows), 100_000):
                yield rows[at : at + 100_000].encode()

        for body in (rows.encode(), chunks()):
            status, _, answer = self.service.request("POST", "/v1/imports?dry_run=true", body)
            self.assertEqual(status, 200, answer[:300])
            self.assertEqual(json.loads(answer)["took_count"], 20_000)

    def test_long_uploads_hold_nobody_up(self):
        self.service = self.start("--threads", 1)
        rows = (KERNELS + "".join(ROW.format(us=100 + i % 7, m=512) for i in range(400_000))).encode()
        answers = []
        uploads = [
            threading.Thread(
                target=lambda: answers.append(self.service.request("POST", "/v1/imports?dry_run=true", rows)[0])
            )
            for _ in range(2)
        ]
        for upload in uploads:
            upload.start()
        asked = 0
        while len(answers) == 0:
            self.assertEqual(self.service.request("GET", "/livez")[0], 200)
            asked += 1
        for upload in uploads:
            upload.join()
        self.assertEqual(answers, [200, 200])
        self.assertGreater(asked, 20)  # if each had waited for the uploads, only two or three would have been asked

    def test_bodies_that_break_off_leave_their_place(self):
        self.service = self.start("--uploads", 1)
        for _ in range(3):
            connection = self.begin(2 * MIB)
            connection.send(b" " * MIB)
            connection.close()
        for _ in range(100):  # the service notices the end a moment later
            if self.service.request("POST", "/v1/imports?dry_run=true", b" " * (2 * MIB))[0] == 400:
                return
        self.fail("no place is free again")


if __name__ == "__main__":
    program.main()
