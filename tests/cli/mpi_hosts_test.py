"""Ranks in two network namespaces, joined by a veth pair of limited rate: as near to two hosts as one machine gets."""

import json
import os
import re
import subprocess
import time

import four_hosts
import mpi_test
import program
import two_hosts
from mpi_test import MPIRUN, QUICK

RATE = "1gbit"
SHAPE = ["--backend", "mpi", "--m", "512", "--n", "256", "--k", "256"]
LONG_RUN = ["run", *SHAPE, "--blocks", "128,384", "--pairs", "100000", "--budget", "60"]


class MpiHostsTest(mpi_test.JobTest):
    def setUp(self):
        super().setUp()
        reason = two_hosts.make_places(RATE)
        self.addCleanup(two_hosts.remove_places)
        if reason:
            self.skipTest(reason)
        self.agent = self.directory / "enter"
        two_hosts.write_agent(self.agent)

    def launch(self, rank_count):
        return two_hosts.launch_command(MPIRUN, self.agent, rank_count // 2)

    def test_tunes_and_runs_over_tcp_between_hosts(self):
        self.complete_job("tune", *SHAPE, "--no-pin", *QUICK)
        done = self.complete_job("run", *SHAPE, "--no-pin", "--pairs", 6, "--json")
        document = json.loads(done.stdout)
        fingerprint = document["plan"]["fingerprint"]
        self.assertEqual(fingerprint["nodes"], "2")
        self.assertIn("btl:tcp,self", fingerprint["transports"])
        # All-reduce on 2 ranks: each rank receives at least half of 512 x 256 f32, 262144 B, which takes 2097 us at 1
        # Gbit/s. The bucket lets 128 KiB, half of that, through at once.
        page = self.complete_job("profile", *SHAPE, "--no-pin", *QUICK, "--out", self.directory / "profile.json").stdout
        self.assertIn("collective 512 rows", page)
        samples = json.loads((self.directory / "profile.json").read_text())["samples"]
        whole = [
            sample["time_ns"]
            for sample in samples
            if sample["component"] == "collective" and sample["block_rows"] == 512
        ]
        self.assertGreater(min(whole), 750_000)

    def test_two_ranks_on_each_host_exchange_inside_it_by_memory(self):
        self.make_empty_store()
        shape = [*SHAPE, "--ranks", "4", "--no-pin"]
        done = self.complete_job(
            "run",
            *shape,
            "--blocks",
            "128,384",
            "--pairs",
            6,
            "--json",
            "--variant",
            "hierarchical(sleep_us=50)",
            rank_count=4,
        )
        document = json.loads(done.stdout)
        self.assertEqual(document["plan"]["fingerprint"]["node_of_ranks"], "0,0,1,1")
        self.assertEqual(document["plan"]["variant"]["name"], "hierarchical")

    def test_the_lines_of_the_guide_run_as_they_stand(self):
        guide = (program.SOURCE_DIRECTORY / "docs" / "mpi.md").read_text(encoding="utf-8")
        blocks = re.findall(r"^```sh\n(.*?)^```$", guide, re.DOTALL | re.MULTILINE)
        lines = next(block for block in blocks if "--hostfile" in block)
        tools = self.directory / "tools"
        tools.mkdir()
        (tools / "mc2").symlink_to(program.MC2)
        environment = mpi_test.environment(self.directory) | {
            "PATH": f"{tools}:{os.environ['PATH']}",
            "MC2_STORE": str(self.store),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_hwloc_base_binding_policy": "none",
        }
        environment |= {f"OMPI_MCA_{name}": value for name, value in two_hosts.settings(self.agent, 2).items()}
        done = subprocess.run(
            ["ip", "netns", "exec", two_hosts.PLACES[0], "sh", "-ec", lines],
            cwd=self.directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        [plan] = self.contents()["plans"]
        self.assertEqual(plan["document"]["fingerprint"]["node_of_ranks"], "0,0,1,1")

    def test_a_firewall_between_the_ranks_ends_the_job_within_the_deadline(self):
        """MPI's messages use a network in which everything is sent to nobody; mpirun's own connections do not."""
        for place, own, other in zip(two_hosts.PLACES, (1, 2), (2, 1)):
            two_hosts.ip("-n", place, "addr", "add", f"10.98.0.{own}/24", "dev", "eth0")
            nobody = ["lladdr", "02:00:00:00:00:99", "nud", "permanent"]
            two_hosts.ip("-n", place, "neigh", "add", f"10.98.0.{other}", *nobody, "dev", "eth0")
        launch = self.launch(2)
        launch[launch.index("btl_tcp_if_include") + 1] = "10.98.0.0/24"
        run = [program.MC2, "run", *SHAPE, "--blocks", "512", "--deadline", "3", "--store", str(self.store)]
        before = time.monotonic()
        done = self.run_job([*launch, *run])
        self.assertLess(time.monotonic() - before, 30)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, "aborted by rank [01] on .*: waited 3000 ms for a message of rank [01]; .*ports")

    def test_cutting_the_link_ends_the_job_within_the_deadline(self):
        self.complete_job("profile", *SHAPE, *QUICK)
        before = self.contents()
        job = self.start(*LONG_RUN, "--deadline", 3)
        self.rank_of_measuring_job(job, 1)
        two_hosts.ip("-n", two_hosts.PLACES[1], "link", "set", "eth0", "down")
        self.assertFalse(mpi_test.is_waiting(job, 60), "the job waits for a rank that is cut off")
        self.assertNotEqual(job.returncode, 0)
        self.assertRegex(self.errors.read_text(), f"rank 1 on {two_hosts.PLACES[1]} does not answer")
        for _ in range(100):
            if not mpi_test.processes_of_rank(1, self.store):
                break
            time.sleep(0.1)
        self.assertEqual(mpi_test.processes_of_rank(1, self.store), [], "the rank that was cut off is still there")
        self.assertEqual(self.contents(), before)


class FourHostsTest(mpi_test.JobTest):
    """Four hosts, with a slow link between the first two."""

    def setUp(self):
        super().setUp()
        reason = four_hosts.make_places(RATE, "100mbit", [(0, 1)])
        self.addCleanup(four_hosts.remove_places)
        if reason:
            self.skipTest(reason)
        self.agent = self.directory / "enter"
        four_hosts.write_agent(self.agent)

    def launch(self, rank_count):
        self.assertEqual(rank_count, len(four_hosts.PLACES))
        return four_hosts.launch_command(MPIRUN, self.agent)

    def test_a_slow_link_is_told_and_rings_that_go_round_it_are_right(self):
        self.make_empty_store()
        for kind in ("matmul_all_reduce", "matmul_reduce_scatter", "all_gather_matmul"):
            cut = ["--blocks", "128,384" if kind == "matmul_all_reduce" else "64,64", "--pairs", 6]
            operator = [*SHAPE, "--op", kind, "--ranks", "4", "--no-pin", "--variant", "ring(sleep_us=50)"]
            done = self.complete_job("run", *operator, *cut, "--json", rank_count=4)
            slow_links = json.loads(done.stdout)["plan"]["fingerprint"]["slow_links"]
            self.assertRegex(slow_links, r"(^|,)0-1:(4|8|16)x")  # on a busy machine others may seem slow, too
        page = self.complete_job("doctor", rank_count=4).stdout
        self.assertRegex(page, r"slow links\s+between nodes: 0-1:")
        self.assertNotIn("processes run", page)  # the job asks for as many ranks as there are


if __name__ == "__main__":
    program.main()
