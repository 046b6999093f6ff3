"""Runs on GPUs of two hosts. Each host is a network namespace with two ranks, whose GPUs are simulated."""

import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest
import uuid

import numpy

RANK, RANKS, RANKS_A_HOST = int(os.environ.get("MC2_TEST_RANK", -1)), 4, 2
M, N, K = 128, 62, 32  # the ranks' shares of a block are unequal
DEADLINE_S = 6
PORT = 29733


class DeviceArray:
    """An array in memory of this rank's GPU."""

    runtime = ctypes.CDLL(None)

    def __init__(self, array):
        self.array, self._pointer = numpy.ascontiguousarray(array), ctypes.c_void_p()
        if self.runtime.cudaMalloc(ctypes.byref(self._pointer), ctypes.c_size_t(array.nbytes)) != 0:
            raise RuntimeError("cudaMalloc")
        self._copy(self._pointer, self._here(), 1)

    def _here(self):
        return self.array.ctypes.data_as(ctypes.c_void_p)

    def _copy(self, target, source, direction):
        if self.runtime.cudaMemcpy(target, source, ctypes.c_size_t(self.array.nbytes), ctypes.c_int(direction)) != 0:
            raise RuntimeError("cudaMemcpy")

    @property
    def address(self):
        return self._pointer.value

    def write(self, array):
        self.array[...] = array
        self._copy(self._pointer, self._here(), 1)

    def read(self):
        self._copy(self._here(), self._pointer, 2)
        return self.array


def opened_world():
    from mc2 import _executor

    local_rank = RANK % RANKS_A_HOST
    DeviceArray.runtime.cudaSetDevice(local_rank)
    return _executor.Communicator(
        RANKS,
        backend="cuda",
        process=(RANK, os.environ["MC2_TEST_KEY"]),
        deadline_s=DEADLINE_S,
        rank_zero=f"host-a:{PORT}",
        local_rank=local_rank,
        local_size=RANKS_A_HOST,
    )


def problem(kind, variant, world):
    """Returns a prepared plan of two blocks, the memory of its result, and the expected result."""
    import mc2

    drawn = numpy.random.default_rng(3)
    share = M // RANKS
    rows = share if kind == "all_gather_matmul" else M
    xs = [drawn.uniform(-1, 1, (rows, K)).astype(numpy.float32) for _ in range(RANKS)]
    ws = [drawn.uniform(-1, 1, (K, N)).astype(numpy.float32) for _ in range(RANKS)]
    y_rows = share if kind == "matmul_reduce_scatter" else RANKS * share
    x, w, y = DeviceArray(xs[RANK]), DeviceArray(ws[RANK]), DeviceArray(numpy.zeros((y_rows, N), numpy.float32))
    op = mc2.OpSpec(kind, m=M, n=N, k=K, dtype="f32", ranks=RANKS)
    axis = M if kind == "matmul_all_reduce" else share
    addresses = (x.address, w.address, y.address, 0, 0, 0, 0, 0, 0)
    prepared = world.prepare_at(op, [axis // 2 - 1, axis - axis // 2 + 1], variant, addresses, (x, w, y))
    if kind == "all_gather_matmul":
        return prepared, y, numpy.concatenate(xs).astype(float) @ ws[RANK]
    total = sum(a.astype(float) @ b for a, b in zip(xs, ws))
    return prepared, y, total if kind == "matmul_all_reduce" else total.reshape(RANKS, share, N)[RANK]


def run_once():
    import mc2

    world = opened_world()
    for kind in ("matmul_all_reduce", "matmul_reduce_scatter", "all_gather_matmul"):
        variants = world.variants(mc2.OpSpec(kind, m=M, n=N, k=K, dtype="f32", ranks=RANKS))
        if {variant.name for variant in variants} != {"nccl", "hierarchical"}:
            raise AssertionError(f"{variants} are proposed")
        for variant in variants:
            prepared, y, expected = problem(kind, variant, world)
            for _ in range(3):
                y.write(numpy.full_like(y.array, numpy.nan))
                prepared.enqueue(0, False)
                DeviceArray.runtime.cudaDeviceSynchronize()
                difference = abs(y.read() - expected).max()
                if not difference < 1e-4:
                    raise AssertionError(f"C of {kind} by {variant} is {difference} off")
    print("link", world.fingerprint.fields["link"], "ranks_per_host", world.fingerprint.fields["ranks_per_host"])
    world.close()


def run_until_it_fails():
    """Runs until a run fails, and prints the error that ended it."""
    import mc2

    world = opened_world()
    op = mc2.OpSpec("matmul_all_reduce", m=M, n=N, k=K, dtype="f32", ranks=RANKS)
    named = {variant.name: variant for variant in world.variants(op)}
    prepared, _, _ = problem("matmul_all_reduce", named[sys.argv[-1]], world)
    print("running", flush=True)
    try:
        while True:
            prepared.enqueue(0, False)
            DeviceArray.runtime.cudaDeviceSynchronize()
            time.sleep(0.01)
    except mc2.Error as error:
        print(error, flush=True)
    os._exit(0)  # leaves without cleaning up the aborted world


@unittest.skipIf(RANK >= 0, "this is a rank")
class HostsTest(unittest.TestCase):
    def setUp(self):
        sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))
        import two_hosts

        self.hosts = two_hosts
        preloaded = os.environ.pop("LD_PRELOAD")  # only the ranks use the simulated GPUs, not ip and tc
        self.addCleanup(os.environ.__setitem__, "LD_PRELOAD", preloaded)
        reason = two_hosts.make_places("1gbit")
        self.addCleanup(two_hosts.remove_places)
        if reason:
            self.skipTest(reason)
        self.environment = {"MC2_TEST_KEY": uuid.uuid4().hex, "LD_PRELOAD": preloaded}

    def start(self, what, ranks=range(RANKS)):
        processes = {}
        for rank in ranks:
            host = rank // RANKS_A_HOST
            settings = " ".join(
                f"{key}='{value}'" for key, value in {**self.environment, "MC2_TEST_RANK": rank}.items()
            )
            command = f"hostname {self.hosts.NAMES[host]}; exec env {settings} {sys.executable} {__file__} {what}"
            processes[rank] = subprocess.Popen(
                ["ip", "netns", "exec", self.hosts.PLACES[host], "unshare", "--uts", "sh", "-c", command],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        self.addCleanup(self.end, processes)
        return processes

    @staticmethod
    def end(processes):
        for process in processes.values():
            if process.poll() is None:
                process.kill()
            process.communicate()

    def outputs(self, processes):
        found = {}
        for rank, process in processes.items():
            found[rank] = process.communicate(timeout=60)[0]
        return found

    def all_run(self, processes):
        for process in processes.values():
            line = process.stdout.readline()
            if line != "running\n":
                self.fail(line + process.communicate(timeout=60)[0])

    def test_a_sum_over_both_hosts(self):
        processes = self.start("once")
        for rank, output in self.outputs(processes).items():
            self.assertEqual(processes[rank].returncode, 0, output)
            self.assertIn("link network ranks_per_host 2", output)

    def test_a_killed_rank_is_named_with_its_host(self):
        for rank, variant in ((3, "nccl"), (0, "nccl"), (2, "hierarchical")):
            with self.subTest(rank=rank, variant=variant):
                processes = self.start(f"until it fails {variant}")
                self.all_run(processes)
                start = time.monotonic()
                processes[rank].send_signal(signal.SIGKILL)
                del processes[rank]
                for output in self.outputs(processes).values():
                    self.assertRegex(output, rf"rank {rank} on {self.hosts.NAMES[rank // RANKS_A_HOST]} has ended")
                self.assertLess(time.monotonic() - start, DEADLINE_S)

    def test_a_cut_link_is_missed_by_both_sides(self):
        processes = self.start("until it fails nccl")
        self.all_run(processes)
        start = time.monotonic()
        self.hosts.ip("-n", self.hosts.PLACES[1], "link", "set", "eth0", "down")
        for output in self.outputs(processes).values():
            self.assertRegex(output, r"nothing was heard of rank \d on host-[ab] for \d+ ms")
        self.assertLess(time.monotonic() - start, 2 * DEADLINE_S)

    def test_ranks_that_do_not_come_are_named(self):
        processes = self.start("once", ranks=(0, 1, 3))
        for rank, output in self.outputs(processes).items():
            self.assertNotEqual(processes[rank].returncode, 0)
            self.assertIn(f"of 4 ranks these did not come within {DEADLINE_S * 1000} ms: 2", output)

    def test_a_firewall_that_drops_is_suspected(self):
        # Packets to rank 0's host go to a hardware address that does not exist, so they vanish as behind a firewall.
        self.hosts.ip(
            "-n",
            self.hosts.PLACES[1],
            "neigh",
            "replace",
            self.hosts.ADDRESSES[0],
            "lladdr",
            "02:00:00:00:00:99",
            "dev",
            "eth0",
            "nud",
            "permanent",
        )
        start = time.monotonic()
        processes = self.start("once")
        outputs = self.outputs(processes)
        self.assertLess(time.monotonic() - start, 3 * DEADLINE_S)
        for rank in (0, 1):
            self.assertIn("these did not come within", outputs[rank])
        for rank in (2, 3):
            self.assertRegex(
                outputs[rank],
                rf"rank {rank} on host-b: rank 0 did not come within \d+ ms at host-a:{PORT} \(no answer; is a "
                rf"firewall",
            )


if __name__ == "__main__":
    if RANK < 0:
        unittest.main()
    elif sys.argv[1] == "once":
        run_once()
    else:
        run_until_it_fails()
