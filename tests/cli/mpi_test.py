"""Jobs of several processes under mpirun. Rank 0 decides, prints and keeps; nothing hangs when a rank is lost."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import program
from program import MC2, SYSTEM, UNSUPPORTED, USAGE, ProgramTest, environment

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "server"))
from serving import Service  # noqa: E402  (tests/server is no package)

MPIRUN = shutil.which("mpirun")
LAUNCH = [MPIRUN, "--oversubscribe", "--allow-run-as-root"]
SHAPE = ["--backend", "mpi", "--m", "256", "--n", "128", "--k", "128"]
# Takes long enough to be stopped in the middle: 11 rounds, each multiplying 4 GFLOP several times.
LONG_SHAPE = ["--backend", "mpi", "--m", "4096", "--n", "1024", "--k", "512"]
DIRECT = ["--variant", "direct"]  # its ranks wait for each other in shared memory, where MPI does not see it
LONG_RUN = ["run", *LONG_SHAPE, *DIRECT, "--blocks", "1024,3072", "--pairs", "100000", "--budget", "60"]
QUICK = ["--budget", "1", "--max-samples", "5"]
# Every kind: the first one with every variant, the others with one variant each so that the test stays short.
KINDS = {
    "matmul_all_reduce": [],
    "matmul_reduce_scatter": ["--variant", "direct"],
    "all_gather_matmul": ["--variant", "ring(sleep_us=50)"],
    "matmul_all_to_all": ["--variant", "blocking"],
    "all_to_all_matmul": ["--variant", "pairwise(sleep_us=50)"],
    "embedding_all_to_all": ["--tables", 4, "--table-rows", 50, "--variant", "direct"],
}


def processes_of_rank(rank, store):
    """The process numbers of this rank of the job that works on `store`."""
    found = []
    for directory in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            variables = (directory / "environ").read_bytes().split(b"\0")
            arguments = (directory / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"OMPI_COMM_WORLD_RANK={rank}".encode() in variables and str(store).encode() in arguments:
            found.append(int(directory.name))
    return found


def is_waiting(process, seconds):
    try:
        process.wait(seconds)
        return False
    except subprocess.TimeoutExpired:
        return True


class JobTest(ProgramTest):
    """Runs the program as a job of several processes."""

    def setUp(self):
        super().setUp()
        if MPIRUN is None:
            self.skipTest("mpirun is not installed; openmpi-bin has it")
        doctor = json.loads(self.succeed("doctor", "--json", "--store", self.store))
        reason = next(backend["reason"] for backend in doctor["backends"] if backend["name"] == "mpi")
        if "this build has no MPI" in reason:
            self.skipTest(reason)

    def launch(self, rank_count):
        return [*LAUNCH, "-np", str(rank_count)]

    def job(self, rank_count, *arguments):
        return self.run_job([*self.launch(rank_count), MC2, *map(str, arguments), "--store", str(self.store)])

    def run_job(self, command):
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=environment(self.directory),
        )

    def complete_job(self, *arguments, rank_count=2):
        """Runs a job that must succeed."""
        done = self.job(rank_count, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def contents(self):
        return json.loads(self.succeed("db", "export", "--store", self.store))

    def start(self, *arguments):
        command = [*self.launch(2), MC2, *map(str, arguments), "--store", str(self.store)]
        # A file, as a pipe would be held open by whatever outlives the job.
        self.errors = self.directory / "errors.txt"
        with self.errors.open("w", encoding="utf-8") as errors:
            job = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, env=environment(self.directory)
            )
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        return job

    def rank_of_measuring_job(self, job, rank):
        """Waits until the job has measured for the first time: then MPI has started and the ranks exchange. Returns
        the process of this rank."""
        for _ in range(600):
            self.assertIsNone(job.poll(), f"ended before it measured: {self.errors.read_text()}")
            found = processes_of_rank(rank, self.store)
            if found and "run matmul_all_reduce" in self.errors.read_text():
                return found[0]
            time.sleep(0.05)
        self.fail(f"rank {rank} did not start")


class MpiTest(JobTest):
    def test_rank_0_asks_the_service_for_all_ranks(self):
        self.complete_job("tune", *SHAPE, *QUICK)
        service = Service(self.store, self.directory)
        self.addCleanup(service.stop)
        ask = [
            "--store",
            str(self.directory / "empty.db"),
            "--server",
            f"http://127.0.0.1:{service.port}",
            "--server-wait",
            "30",
        ]
        done = self.run_job([*self.launch(2), MC2, "run", *SHAPE, "--pairs", "6", *ask])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("plan from service"), 1, done.stderr)

    def test_copies_that_are_no_job_are_told_of(self):
        command = [*self.launch(2), MC2, "doctor", "--store", str(self.store)]
        done = self.run_job(command)
        self.assertEqual(done.stderr.count("mpirun has started 2 copies of this command"), 1, done.stderr)
        self.assertIn("--backend mpi", done.stderr)

    def test_tunes_and_runs_every_kind_once_however_many_ranks(self):
        for kind, variant in KINDS.items():
            page = self.complete_job("tune", "--op", kind, *SHAPE, *variant, *QUICK).stdout
            self.assertEqual(page.count("kept as plan"), 1)
            page = self.complete_job("run", "--op", kind, *SHAPE, *variant, "--pairs", 6).stdout
            self.assertEqual(page.count("correct: "), 1)
            self.assertNotIn("EMULATED", page)
        store = self.contents()
        self.assertEqual(len(store["plans"]), len(KINDS))
        for plan in store["plans"]:
            self.assertEqual(plan["document"]["fingerprint"]["backend"], "mpi")
            self.assertEqual(plan["document"]["fingerprint"]["ranks"], "2")

    def test_a_given_cut_is_checked_on_three_ranks(self):
        self.make_empty_store()
        shape = ["--backend", "mpi", "--ranks", 3, "--m", 192, "--n", 64, "--k", 64]
        page = self.complete_job("run", *shape, "--blocks", "64,128", "--pairs", 6, rank_count=3).stdout
        self.assertIn("all ranks equal to the bit", page)

    def test_nodes_to_pretend_are_one_number_for_each_rank(self):
        self.make_empty_store()
        for nodes in ("0", "0,x", "0,0,1"):
            done = self.run_job(
                [
                    *self.launch(2),
                    "-x",
                    f"MC2_PRETENDED_NODES={nodes}",
                    MC2,
                    "run",
                    *SHAPE,
                    "--blocks",
                    "64,192",
                    "--store",
                    str(self.store),
                ]
            )
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f'MC2_PRETENDED_NODES: "{nodes}" is not a number for each of 2 ranks', done.stderr)

    def test_ranks_that_pretend_different_nodes_are_refused(self):
        self.make_empty_store()
        run = [MC2, "run", *SHAPE, "--blocks", "64,192", "--store", str(self.store)]
        of_rank_1 = '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || export MC2_PRETENDED_NODES=0,1; exec "$@"'
        done = self.run_job([*self.launch(2), "sh", "-c", of_rank_1, "sh", *run])
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("MC2_PRETENDED_NODES: rank 1 has another value than rank 0", done.stderr)

    def test_few_rows_are_cut_into_columns_and_epilogues_added(self):
        self.make_empty_store()
        shape = [
            "--backend",
            "mpi",
            "--m",
            16,
            "--n",
            512,
            "--k",
            64,
            "--bias",
            "--residual",
            "--variant",
            "ring(sleep_us=50)",
        ]
        page = self.complete_job("run", *shape, "--blocks", "100,412", "--pairs", 6).stdout
        self.assertIn("100 + 412", page)
        self.assertIn("all ranks equal to the bit", page)

    def test_real_counts_are_exchanged_and_impossible_ones_refused(self):
        self.make_empty_store()
        shape = [
            "--backend",
            "mpi",
            "--op",
            "all_to_all_matmul",
            "--m",
            256,
            "--n",
            128,
            "--k",
            128,
            "--variant",
            "blocking",
        ]
        file = self.directory / "counts.csv"
        ask = ["run", *shape, "--blocks", "40,88", "--counts", file, "--pairs", 6]
        file.write_text("128,0\n30,60\n")
        done = self.complete_job(*ask)
        self.assertIn("correct: ", done.stdout)
        self.assertIn("218 of at most 512 rows", done.stderr)
        file.write_text("0,0,9,100\n0,0,3,0\n")  # two experts a rank; no expert of rank 0 has a row
        done = self.complete_job(*ask)
        self.assertIn("correct: ", done.stdout)
        self.assertIn("112 of at most 512 rows", done.stderr)
        file.write_text("129,1\n1,1\n")
        done = self.job(2, *ask)
        self.assertEqual(done.returncode, USAGE, done.stderr)
        self.assertIn(
            "--m: is 256; a rank of --counts sends 129 rows to one of 2, so it must be at least 258", done.stderr
        )

    def test_planning_again_gives_the_same_bytes(self):
        self.complete_job("tune", *SHAPE, *QUICK)
        first = self.complete_job("plan", *SHAPE, "--json").stdout
        self.assertEqual(first, self.complete_job("plan", *SHAPE, "--json").stdout)
        self.assertEqual(json.loads(first)["schema"], "mc2.plan/1")

    def test_one_process_alone_is_told_how_to_start(self):
        self.refuse(UNSUPPORTED, ["run", *SHAPE, "--store", self.store], "start it with mpirun -np N")

    def test_another_number_of_processes_is_told_how_to_start(self):
        done = self.job(3, "profile", *SHAPE)
        self.assertEqual(done.returncode, UNSUPPORTED, done.stderr)
        self.assertIn(
            "mc2: --ranks: is 2, but 3 processes run; ask for 3 ranks, or start it with mpirun -np 2", done.stderr
        )

    def test_links_of_the_host_backend_are_refused(self):
        for command in ("profile", "plan"):
            done = self.job(2, command, *SHAPE, "--link", "1Gbit")
            self.assertEqual(done.returncode, UNSUPPORTED, done.stderr)
            self.assertIn("--link: the mpi backend runs on the machine's own links", done.stderr)

    def test_a_launcher_of_another_mpi_is_named(self):
        done = self.run_job(["env", "PMI_SIZE=2", MC2, "run", *SHAPE, "--store", str(self.store)])
        self.assertEqual(done.returncode, UNSUPPORTED, done.stderr)
        self.assertRegex(done.stderr, "mpi: the launcher says that it started 2 processes, but .* runs 1;")

    def test_bad_arguments_end_every_rank(self):
        done = self.job(2, "run", *SHAPE, "--nonsense")
        self.assertEqual(done.returncode, USAGE, done.stderr)
        done = self.job(2, "run", "--op", "all_gather_matmul", "--backend", "mpi", "--m", 97, "--n", 8, "--k", 8)
        self.assertEqual(done.returncode, USAGE, done.stderr)
        self.assertIn("multiple of the 2 ranks", done.stderr)

    def test_ranks_started_for_different_things_are_refused_on_all(self):
        # One application that differs by rank, as mpirun of Open MPI 5.0.7 crashes when it is given two applications.
        differing = self.directory / "differing"
        differing.write_text(
            "#!/bin/sh\nif [ $OMPI_COMM_WORLD_RANK = 0 ]; then m=64; else m=96; fi\n"
            f"exec {MC2} run --backend mpi --m $m --n 64 --k 64 --store {self.store}\n"
        )
        differing.chmod(0o755)
        done = self.run_job([*LAUNCH, "-np", "2", str(differing)])
        self.assertEqual(done.returncode, USAGE, done.stderr)
        lines = [line for line in done.stderr.splitlines() if line.startswith("mc2: ")]
        self.assertGreaterEqual(len(lines), 1, done.stderr)
        for line in lines:
            self.assertIn("rank 1 calls mc2", line)
            self.assertIn("--m 96", line)
        self.assertFalse(self.store.exists())

    def test_killing_a_rank_ends_the_job_and_keeps_nothing_of_the_run(self):
        self.complete_job("profile", *LONG_SHAPE, *DIRECT, *QUICK)
        before = self.contents()
        for rank in (0, 1):
            job = self.start(*LONG_RUN)
            victim = self.rank_of_measuring_job(job, rank)
            os.kill(victim, signal.SIGKILL)
            self.assertFalse(is_waiting(job, 30), "the job outlived its rank")
            self.assertNotEqual(job.returncode, 0)
            self.assertEqual(processes_of_rank(1 - rank, self.store), [])
            self.assertEqual(self.contents(), before)
            self.assert_healthy()

    def test_a_rank_that_starts_late_ends_the_job_within_the_deadline(self):
        late = 'test "$OMPI_COMM_WORLD_RANK" = 1 || exec sleep 60; exec "$0" "$@"'
        run = ["run", *SHAPE, "--blocks", "256", "--deadline", "2"]
        before = time.monotonic()
        done = self.run_job([*self.launch(2), "sh", "-c", late, MC2, *run, "--store", str(self.store)])
        self.assertLess(time.monotonic() - before, 30)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, "aborted by rank 1 on .*: waited 2000 ms for the other ranks to start MPI")

    def test_ranks_with_other_cores_are_told_what_differs(self):
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            self.skipTest("needs two cores")
        fewer = f'test "$OMPI_COMM_WORLD_RANK" = 0 || exec taskset -c {cores[0]} "$0" "$@"; exec "$0" "$@"'
        run = ["run", *SHAPE, "--blocks", "256"]
        self.make_empty_store()
        unbound = [*self.launch(2), "--bind-to", "none", "sh", "-c", fewer]
        done = self.run_job([*unbound, MC2, *run, "--store", str(self.store)])
        self.assertEqual(done.returncode, UNSUPPORTED, done.stderr)
        self.assertRegex(
            done.stderr, "machine: rank 1 has .*cores=1.*; rank 0 has .*cores=[0-9]+.*; a plan is of one machine"
        )

    def test_a_rank_that_stops_answering_ends_the_job_within_the_deadline(self):
        self.complete_job("profile", *LONG_SHAPE, *DIRECT, *QUICK)
        before = self.contents()
        job = self.start(*LONG_RUN, "--deadline", 3)
        victim = self.rank_of_measuring_job(job, 1)
        os.kill(victim, signal.SIGSTOP)
        self.addCleanup(lambda: [os.kill(left, signal.SIGKILL) for left in processes_of_rank(1, self.store)])
        self.assertFalse(is_waiting(job, 30), "the job waits for a rank that has stopped")
        self.assertEqual(job.returncode, SYSTEM)
        errors = self.errors.read_text()
        self.assertIn("aborted by rank 0", errors)
        self.assertIn("rank 1 does not answer", errors)
        self.assertEqual(self.contents(), before)


if __name__ == "__main__":
    program.main()
