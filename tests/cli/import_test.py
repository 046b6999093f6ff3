"""mc2 import turns logs into a profile that fits and plans, names bad lines, and asks for what a log cannot tell."""

import contextlib
import gzip
import lzma
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import threading
import time

import program
from program import INTERRUPTED, NO_ANSWER, SOURCE_DIRECTORY, SYSTEM, USAGE, ProgramTest, operator

LOGS = SOURCE_DIRECTORY / "data" / "logs"
OPERATOR = operator(4096, 8192, 3072, "f16", 4)
PATIENCE_S = 60  # only an upper bound for something that never comes
KERNELS = "Op Name,OP Type,Task Duration(us),Input Shapes,Input Data Types,Output Shapes\n"


def kernel_rows(lengths):
    return "".join(
        f'x,MatMulV3,{10 + m / 4},"""{m},3072;3072,8192""",FLOAT16;FLOAT16,"""{m},8192"""\n' for m in lengths
    )


def nccl_log(sizes):
    rows = "".join(
        f"{size} {size // 4} float sum -1 {20 + size / 1e5} 1 1.5 0 {19 + size / 1e5} 1 1.5 0\n" for size in sizes
    )
    ranks = "".join(f"#  Rank  {rank} Group  0 Pid 1 on a device 0 [0] NPU\n" for rank in range(4))
    return (
        "# nccl-tests version 2.17.8\n# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 4 minBytes 1\n"
        + ranks
        + "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
        + rows
        + "# Out of bounds values : 0 OK\n"
    )


class ImportTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.kernels = self.directory / "op_summary.csv"
        self.kernels.write_text(KERNELS + kernel_rows([512, 1024, 2048, 3072, 4096]))
        self.nccl = self.directory / "all_reduce.log"
        self.nccl.write_text(nccl_log([1 << power for power in range(20, 28)]))

    def kept(self, *files):
        return self.succeed(
            "import", *files, "--op", "matmul_all_reduce", "--device", "npu", "--ranks", 4, "--store", self.store
        )

    def test_two_logs_become_a_model_and_a_plan(self):
        said = self.kept(self.kernels, self.nccl)
        self.assertIn("matmul_all_reduce m=4096 n=8192 k=3072 f16 x4", said)
        self.assertEqual(self.sample_count(), 5 + 8)
        self.succeed("fit", *OPERATOR, "--device", "npu", "--out", self.directory / "model.json", "--store", self.store)
        model = json.loads((self.directory / "model.json").read_text())
        self.assertEqual(model["fingerprint"]["backend"], "imported")
        planned = self.succeed("plan", *OPERATOR, "--model", self.directory / "model.json")
        self.assertIn("matmul_all_reduce", planned)
        # No fit is needed: nothing is published about this device, so its samples answer alone.
        planned = self.succeed("plan", *OPERATOR, "--device", "npu", "--store", self.store)
        self.assertIn("interpolated", planned)

    def test_each_side_may_come_at_its_own_time(self):
        self.kept(self.kernels)
        missing = ["fit", *OPERATOR, "--device", "npu", "--store", self.store]
        self.refuse(NO_ANSWER, missing, "'npu' has no all_reduce times for matmul_all_reduce m=4096", "mc2 import")
        said = self.succeed(
            "import", self.nccl, *OPERATOR, "--op", "matmul_all_reduce", "--device", "npu", "--store", self.store
        )
        self.assertIn("next: mc2 fit or mc2 plan with --device 'npu'", program.unwrapped(said))
        self.succeed(*missing)

    def test_the_next_step_is_one_that_can_work(self):
        told = [*OPERATOR, "--op", "matmul_all_reduce", "--store", self.store, "--device"]
        said = program.unwrapped(self.succeed("import", self.nccl, *told, "kk"))
        self.assertIn("next: import timings of matmul of 'kk', which has no costs of these; then mc2 fit", said)
        for command in "fit", "plan":
            self.refuse(NO_ANSWER, [command, *OPERATOR, "--device", "kk", "--store", self.store], "no matmul times")
        self.kernels.write_text(KERNELS + kernel_rows([512, 1024]))
        said = program.unwrapped(self.succeed("import", self.kernels, *told, "kk"))
        self.assertIn("next: import more timings of 'kk', as these give no costs (imported matmul: too few", said)
        # A published device has costs before anything is imported, but no samples to fit.
        said = program.unwrapped(self.succeed("import", self.kernels, *told, "ascend-910b"))
        self.assertIn("next: mc2 plan with --device 'ascend-910b'", said)
        self.succeed("plan", *OPERATOR, "--device", "ascend-910b", "--store", self.store)

    def test_the_same_log_twice_adds_nothing(self):
        self.kept(self.kernels)
        self.assertIn("nothing was added", self.kept(self.kernels))
        self.assertEqual(self.sample_count(), 5)

    def test_a_log_that_stands_there_twice_is_not_counted_twice(self):
        copy = self.directory / "copy.log"
        copy.write_bytes(self.nccl.read_bytes())
        packed = self.directory / "copy.log.gz"
        packed.write_bytes(gzip.compress(self.nccl.read_bytes()))
        wide = self.directory / "wide.log"
        wide.write_text(self.nccl.read_text(), encoding="utf-16")
        for again in copy, self.nccl, packed, wide:
            self.refuse(
                USAGE,
                ["import", self.nccl, self.kernels, again, *OPERATOR, "--op", "matmul_all_reduce", "--device", "npu"],
                f"files: {again} is the same log as {self.nccl}, whose timings would count twice; name one of them",
            )
        trace = LOGS / "pytorch_trace_0.json"
        other = self.directory / "again.json"
        other.write_bytes(trace.read_bytes() + b"\n")
        said = program.unwrapped(self.succeed("import", "--dry-run", trace, LOGS / "pytorch_trace_1.json", other))
        self.assertIn(f"note: {other} calls itself rank 0, as {trace} does: runs that both tell count twice", said)

    def test_a_newer_format_is_told(self):
        newer = self.directory / "newer.json"
        newer.write_text((LOGS / "nccl_tests.json").read_text().replace('"version":3', '"version":4'))
        self.assertIn("is of format 4", self.succeed("import", "--dry-run", newer))

    def test_logs_of_one_machine_that_contradict_each_other(self):
        self.kept(self.nccl, self.kernels)
        other = self.directory / "other.log"
        other.write_text(nccl_log([3 << 20]).replace("2.17.8", "2.18.0"))
        self.refuse(
            NO_ANSWER,
            ["import", other, *OPERATOR, "--op", "matmul_all_reduce", "--device", "npu", "--store", self.store],
            "disagree in nccl_tests: '2.17.8' and '2.18.0'",
        )

    def test_logs_of_one_command_that_contradict_each_other(self):
        other = self.directory / "other.log"
        other.write_text(nccl_log([3 << 20]).replace("2.17.8", "2.18.0"))
        self.refuse(
            USAGE,
            ["import", self.nccl, other, *OPERATOR, "--op", "matmul_all_reduce", "--device", "npu"],
            "files: the logs disagree in nccl_tests: '2.17.8' and '2.18.0'",
        )

    def test_a_run_whose_database_is_there_is_not_told_sizes_as_well(self):
        database = self.directory / "msprof.db"
        with contextlib.closing(sqlite3.connect(database)) as run:
            run.executescript(
                "CREATE TABLE STRING_IDS (id INTEGER, value TEXT);"
                "INSERT INTO STRING_IDS VALUES (1, 'hcom_allReduce__001_0_1'), (9, 'hcom_allReduce_');"
                "CREATE TABLE ENUM_HCCL_DATA_TYPE (id INTEGER, name TEXT); INSERT INTO ENUM_HCCL_DATA_TYPE VALUES (3, "
                "'FP16');"
                "CREATE TABLE COMMUNICATION_OP (opName INTEGER, startNs INTEGER, endNs INTEGER, dataType INTEGER, "
                "count INTEGER, opType INTEGER);"
                "INSERT INTO COMMUNICATION_OP VALUES (1, 1000, 171000, 3, 4194304, 9);"
            )
        command = [
            "import",
            self.kernels,
            database,
            "--op",
            "matmul_all_reduce",
            "--ranks",
            4,
            "--device",
            "npu",
            "--store",
            self.store,
        ]
        self.refuse(
            USAGE,
            [*command, "--bytes", 4096],
            "--bytes: would count the collectives of",
            str(self.kernels),
            str(database),
        )
        self.succeed(*command)

    def test_bad_lines_are_named_and_left_out_only_when_told_to(self):
        with self.kernels.open("a") as file:
            file.write('x,MatMulV3,-5,"""64,3072;3072,8192""",FLOAT16;FLOAT16,"""64,8192"""\nx,MatM')
        arguments = [
            "import",
            self.kernels,
            "--op",
            "matmul_all_reduce",
            "--device",
            "npu",
            "--ranks",
            4,
            "--store",
            self.store,
        ]
        self.refuse(
            USAGE, arguments, "op_summary.csv:7: a duration of -5 us; must be at least 0.001 (and 1 more); --keep-good"
        )
        self.assertFalse(self.store.exists())
        self.succeed(*arguments, "--keep-good")
        self.assertEqual(self.sample_count(), 5)

    def test_what_a_log_cannot_know_is_asked_for(self):
        self.refuse(
            USAGE, ["import", LOGS / "hccl_test_failed.txt", "--keep-good"], "--collective", "--ranks", "--dtype"
        )
        self.refuse(
            USAGE, ["import", LOGS / "osu_allreduce.txt"], "do not say: the operator (--op)", "--n, --k", "--ranks"
        )
        self.refuse(
            USAGE,
            ["import", self.nccl, *OPERATOR[:-2], "--op", "matmul_all_reduce", "--ranks", 8],
            "--ranks: is 8 where the log says 4",
        )
        self.refuse(USAGE, ["import", self.kernels, "--op", "matmul_all_reduce", "--ranks", 4], "--device: is missing")

    def test_a_kind_that_no_log_holds_is_refused_by_its_name(self):
        for kind in "embedding_all_to_all", "grouped_matmul_reduce_scatter":
            self.refuse(
                USAGE, ["import", self.nccl, "--op", kind, *OPERATOR], f"--op: {kind} is not imported", "mc2 profile"
            )

    def test_a_device_that_is_not_known_is_told_which_were_imported(self):
        self.kept(self.nccl, self.kernels)
        plan = ["plan", "--m", 4096, "--n", 8192, "--dtype", "f16", "--store", self.store]
        self.refuse(
            USAGE,
            [*plan, "--k", 3072, "--device", "typo"],
            "--device: unknown device 'typo'",
            "imported into the store: npu",
        )
        self.refuse(
            NO_ANSWER, [*plan, "--k", 64, "--ranks", 8, "--device", "npu"], "--device: nothing was imported for", "k=64"
        )

    def test_a_dry_run_keeps_nothing_and_a_report_names_every_line(self):
        report = self.directory / "report.txt"
        said = self.succeed("import", "--dry-run", LOGS / "nccl_tests.log", "--report", report, "--store", self.store)
        self.assertIn("3 timings taken", said)
        self.assertFalse(self.store.exists())
        lines = report.read_text().splitlines()
        self.assertIn(f"{LOGS}/nccl_tests.log:14\ttook\tall_reduce, out of place", lines)
        self.assertEqual({int(line.split("\t")[0].rsplit(":", 1)[1]) for line in lines}, set(range(1, 50)))

    def test_one_timing_is_one(self):
        log = self.directory / "osu.txt"
        log.write_text("# OSU MPI Allreduce Latency Test v7.4\n# Size       Avg Latency(us)\n4  21.76\n")
        self.assertIn("1 timing taken, 2 lines skipped", self.succeed("import", "--dry-run", log))

    def test_an_output_replaces_neither_a_log_nor_a_store(self):
        log = self.directory / "log.csv"
        log.write_bytes(self.kernels.read_bytes())
        told = ["import", self.nccl, log, "--op", "matmul_all_reduce", "--device", "npu", "--store", self.store]
        self.refuse(
            USAGE,
            ["import", log, "--dry-run", "--out", log.with_name("p.json")],
            "--out: gets the profile that is kept, and --dry-run keeps none",
        )
        self.refuse(
            USAGE,
            ["import", log, "--dry-run", "--report", log],
            "--report: would replace",
            "which is read; name another file",
        )
        self.refuse(USAGE, [*told, "--out", log], "--out: would replace", "log.csv, which is read; name another file")
        self.assertEqual(log.read_bytes(), self.kernels.read_bytes())
        self.assertFalse(self.store.exists())
        self.succeed("import", log, "--dry-run", "--report", log.with_name("report.txt"))
        self.succeed("import", self.nccl, *OPERATOR, "--op", "matmul_all_reduce", "--store", self.store)
        kept = self.store.read_bytes()
        self.refuse(SYSTEM, ["db", "export", self.store, "--store", self.store], "it is a store, which would be lost")
        self.assertEqual(self.store.read_bytes(), kept)

    def test_a_refused_import_replaces_no_file(self):
        cuts, out = self.directory / "cuts.csv", self.directory / "out.json"
        cuts.write_text("blocks,fused_us\n2048+2048,1262\nabcdef0123,1262\n")
        out.write_text("old")
        told = [*OPERATOR, "--op", "matmul_all_reduce", "--device", "npu", "--store", self.store, "--out", out]
        self.refuse(NO_ANSWER, ["import", self.kernels, cuts, *told], "measured cuts:", "cuts.csv:3: 'abcdef0123'")
        self.assertEqual(out.read_text(), "old")
        cuts.write_text("blocks,fused_us\n2048+2048,1262\n")
        self.succeed("import", self.kernels, cuts, *told)
        self.assertIn("fingerprint", json.loads(out.read_text()))

    def test_a_dry_run_gives_the_verdict_of_the_import(self):
        cuts = self.directory / "cuts.csv"
        cuts.write_text("blocks,fused_us\n2048+2048,1262\n512+4x800,1262\n")
        told = [*OPERATOR, "--op", "matmul_all_reduce", "--device", "npu", "--store", self.store]
        for dry in [], ["--dry-run"]:
            done = self.refuse(
                USAGE, ["import", cuts, *told, *dry], "cuts.csv:3: a measured cut: '512+4x800': sum to 3712"
            )
            self.assertIn("1 bad", done.stdout)
            # The element type is that of the log's matmuls, so the cut is known to be wrong only when all was read.
            partly = [value for value in told if value not in ("--dtype", "f16")]
            self.refuse(USAGE, ["import", self.kernels, cuts, *partly, *dry], "cuts.csv:3: '512+4x800': sum to 3712")

    def test_cuts_without_a_profile_tell_what_is_missing(self):
        cuts = self.directory / "cuts.csv"
        cuts.write_text("blocks,fused_us,serial_us\n2048+2048,1262,1874\n")
        told = [*OPERATOR, "--op", "matmul_all_reduce", "--device", "kk", "--store", self.store]
        said = program.unwrapped(self.succeed("import", cuts, *told))
        self.assertIn("next: import timings of matmul and all_reduce of 'kk'", said)
        for command in "refine", "plan":
            self.refuse(NO_ANSWER, [command, *told], "--device: 'kk' has 1 measured cut but no profile")
        cuts.write_text("blocks,fused_us,serial_us\n1024+3072,1262,1874\n")
        said = program.unwrapped(self.succeed("import", self.kernels, cuts, *told))
        self.assertIn("next: import timings of all_reduce of 'kk'", said)
        self.succeed("import", self.nccl, *told)
        self.succeed("refine", *told)

    def test_a_log_of_another_makers_device_is_named(self):
        log = self.directory / "h100.log"
        log.write_text(nccl_log([1 << power for power in range(20, 28)]).replace("NPU", "NVIDIA H100 80GB HBM3"))
        told = ["import", log, *OPERATOR, "--op", "matmul_all_reduce", "--store", self.store]
        for dry in [], ["--dry-run"]:
            self.refuse(
                USAGE,
                [*told, "--device", "ascend-910b", *dry],
                "--device: is 'ascend-910b', a device of Huawei",
                "'NVIDIA H100 80GB HBM3', of NVIDIA",
            )
        self.succeed(*told, "--device", "h100x4")

    def test_compressed_logs(self):
        for end, compress in ((".gz", gzip.compress), (".xz", lzma.compress)):
            packed = self.directory / ("op_summary.csv" + end)
            packed.write_bytes(compress(self.kernels.read_bytes()))
            self.assertIn("5 timings taken", self.succeed("import", "--dry-run", packed))

    def pipe(self):
        path = self.directory / "pipe"
        os.mkfifo(path)
        return path

    def wait_until_opened(self, process, path):
        last = time.monotonic() + PATIENCE_S
        while time.monotonic() < last:
            with contextlib.suppress(OSError):  # a file that was closed meanwhile
                if any(file.readlink() == path for file in pathlib.Path(f"/proc/{process.pid}/fd").iterdir()):
                    return
            time.sleep(0.01)
        self.fail(f"never opened {path}")

    def test_a_log_may_come_through_a_pipe(self):
        pipe = self.pipe()
        writer = threading.Thread(target=pipe.write_bytes, args=[self.kernels.read_bytes()], daemon=True)
        writer.start()
        self.assertIn("5 timings taken", self.succeed("import", "--dry-run", pipe))
        writer.join(PATIENCE_S)
        shell = 'cat "$1" | "$0" import --dry-run /dev/stdin && "$0" import --dry-run <(cat "$1")'
        said = subprocess.run(
            ["bash", "-c", shell, program.MC2, self.kernels],
            stdout=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_S,
            check=True,
            env=program.environment(self.directory),
        ).stdout
        self.assertEqual(said.count("5 timings taken"), 2, said)

    def test_a_pipe_that_nobody_writes_to_is_left_at_the_first_signal(self):
        pipe = self.pipe()
        for number in signal.SIGINT, signal.SIGTERM:
            process = subprocess.Popen(
                [program.MC2, "import", "--dry-run", str(pipe)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=program.environment(self.directory),
            )
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            self.wait_until_opened(process, pipe)
            process.send_signal(number)
            _, said = process.communicate(timeout=PATIENCE_S)
            self.assertEqual(process.returncode, INTERRUPTED, said)
            self.assertIn(f"{pipe}: interrupted; nothing was kept", said)

    def test_files_that_are_no_logs(self):
        self.refuse(USAGE, ["import", self.directory / "none.csv"], "no such file")
        self.refuse(USAGE, ["import", self.directory], "is a directory")
        self.refuse(USAGE, ["import", SOURCE_DIRECTORY / "README.md"], "is no log that mc2 knows")
        self.refuse(USAGE, ["import", self.nccl, "--format", "nvprof"], "unknown format 'nvprof'")
        self.refuse(USAGE, ["import", self.nccl, "--bytes", "-1"], "--bytes")
        self.refuse(USAGE, ["import", self.nccl, "--buffers", "x"], "--buffers")
        self.refuse(USAGE, ["import", self.nccl, "--collective", "x"], "--collective")


if __name__ == "__main__":
    program.main()
