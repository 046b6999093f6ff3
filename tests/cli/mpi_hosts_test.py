"""Ranks in two network namespaces, joined by a veth pair of limited rate: as near to two hosts as one machine gets."""

import json
import os
import shutil
import signal
import subprocess
import time

import mpi_test
import program
from mpi_test import MPIRUN, QUICK

PLACES = ("mc2testa", "mc2testb")
ADDRESSES = ("10.177.0.1", "10.177.0.2")
NETWORK = "10.177.0.0/24"
RATE = "1gbit"
SHAPE = ["--backend", "mpi", "--m", "512", "--n", "256", "--k", "256"]
LONG_RUN = ["run", *SHAPE, "--blocks", "128,384", "--pairs", "100000", "--budget", "60"]


def ip(*arguments):
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)


def remove_places():
    for place in PLACES:
        for process in ip("netns", "pids", place).stdout.split():
            try:
                os.kill(int(process), signal.SIGKILL)  # a launcher's daemon that was cut off
            except ProcessLookupError:
                pass
        ip("netns", "del", place)


def make_places():
    """Why the two namespaces cannot be had, or None."""
    if shutil.which("ip") is None or shutil.which("tc") is None:
        return "ip and tc are missing; iproute2 has them"
    remove_places()
    steps = [["netns", "add", PLACES[0]], ["netns", "add", PLACES[1]],
             ["link", "add", "eth0", "netns", PLACES[0], "type", "veth", "peer", "name", "eth0", "netns", PLACES[1]]]
    for place, address in zip(PLACES, ADDRESSES):
        steps += [["-n", place, "addr", "add", address + "/24", "dev", "eth0"],
                  ["-n", place, "link", "set", "lo", "up"], ["-n", place, "link", "set", "eth0", "up"]]
    for step in steps:
        done = ip(*step)
        if done.returncode != 0:
            return f"network namespaces cannot be made here: ip {' '.join(step)}: {done.stderr.strip()}"
    for place in PLACES:
        done = subprocess.run(["tc", "-n", place, "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", RATE,
                               "burst", "32kb", "latency", "100ms"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return f"rates cannot be limited here: tc tbf: {done.stderr.strip()}"
    return None


class MpiHostsTest(mpi_test.JobTest):
    def setUp(self):
        super().setUp()
        reason = make_places()
        self.addCleanup(remove_places)
        if reason:
            self.skipTest(reason)
        # What mpirun starts instead of ssh: HOST COMMAND...
        self.agent = self.directory / "enter"
        self.agent.write_text(f'#!/bin/sh\nshift\nexec ip netns exec {PLACES[1]} /bin/sh -c "$*"\n')
        self.agent.chmod(0o755)

    def launch(self, rank_count):
        self.assertEqual(rank_count, 2)
        settings = {"plm_rsh_agent": str(self.agent), "pml": "ob1", "btl": "tcp,self", "btl_tcp_if_include": NETWORK,
                    "oob_tcp_if_include": NETWORK,
                    # So that the launcher's own connection, too, notices a link that is cut.
                    "oob_tcp_keepalive_time": "1", "oob_tcp_keepalive_intvl": "1", "oob_tcp_keepalive_probes": "3"}
        command = ["ip", "netns", "exec", PLACES[0], MPIRUN, "--allow-run-as-root", "--host", ",".join(ADDRESSES),
                   "--map-by", "node", "--bind-to", "none", "-np", "2"]
        for name, value in settings.items():
            command += ["--mca", name, value]
        return command

    def test_tunes_and_runs_over_tcp_between_hosts(self):
        self.complete_job("tune", *SHAPE, "--no-pin", *QUICK)
        done = self.complete_job("run", *SHAPE, "--no-pin", "--pairs", 3, "--json")
        document = json.loads(done.stdout)
        fingerprint = document["plan"]["fingerprint"]
        self.assertEqual(fingerprint["nodes"], "2")
        self.assertIn("btl:tcp,self", fingerprint["transports"])
        # All-reduce on 2 ranks: each rank receives at least its half of 512 x 256 f32, 262144 B: 2097 us at 1 Gbit/s.
        # The bucket lets 32 KiB through at once.
        page = self.complete_job("profile", *SHAPE, "--no-pin", *QUICK, "--out", self.directory / "profile.json").stdout
        self.assertIn("collective 512 rows", page)
        samples = json.loads((self.directory / "profile.json").read_text())["samples"]
        whole = [sample["time_ns"] for sample in samples
                 if sample["component"] == "collective" and sample["block_rows"] == 512]
        self.assertGreater(min(whole), 1_500_000)

    def test_cutting_the_link_ends_the_job_within_the_deadline(self):
        self.keep_model(SHAPE)
        before = self.contents()
        job = self.start(*LONG_RUN, "--deadline", 3)
        self.rank_of_measuring_job(job, 1)
        ip("-n", PLACES[1], "link", "set", "eth0", "down")
        self.assertFalse(mpi_test.is_waiting(job, 60), "the job waits for a rank that is cut off")
        self.assertNotEqual(job.returncode, 0)
        self.assertIn("rank 1 does not answer", self.errors.read_text())
        for _ in range(100):
            if not mpi_test.processes_of_rank(1, self.store):
                break
            time.sleep(0.1)
        self.assertEqual(mpi_test.processes_of_rank(1, self.store), [], "the rank that was cut off is still there")
        self.assertEqual(self.contents(), before)


if __name__ == "__main__":
    program.main()
