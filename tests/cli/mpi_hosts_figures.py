"""Measures MPI over TCP between two hosts, for 8 operators at 1 and 2.5 Gbit/s: the benefit of the kept plan against
the best serial, its share of the ideal, and the prediction. Not a test: it needs an otherwise quiet machine.

    sudo /usr/bin/python3 tests/cli/mpi_hosts_figures.py build/release/planner/cli/mc2 [--budget S] [--pairs N]
    sudo /usr/bin/python3 tests/cli/mpi_hosts_figures.py build/release/planner/cli/mc2 --ranks 2 [--deep N]
    sudo /usr/bin/python3 tests/cli/mpi_hosts_figures.py build/release/planner/cli/mc2 --ranks 2 \\
        --collectives build/release/tests/bench/mc2-bench

    sudo /usr/bin/python3 tests/cli/mpi_hosts_figures.py build/release/planner/cli/mc2 --slow-link 100mbit \\
        --collectives build/release/tests/bench/mc2-bench

--only TEXT takes the cases whose line holds the text.

The two hosts are network namespaces of this machine, each with half of its cores. A veth pair joins them, whose
directions `tc tbf` limits (128 KiB bucket). Each operator is tuned from nothing. `mc2 run` then measures the kept
plan anew in pairs with the best serial of all variants, order alternating. It does the same with the plan for 3/4 of
the m, which was never tuned. --collectives times the collectives alone, every variant in turn: "hierarchical" beside
the fastest of the others. --slow-link does so on four hosts of one rank at 1 Gbit/s, without and with a link of that
rate between the first two. All print a CSV.
"""

import argparse
import csv
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import four_hosts
import two_hosts

# Both lanes take 10 ms or more, and the shorter one at least a third of the longer, on cores of 90 to 220 GFLOP/s.
CASES = [
    ("1gbit", "matmul_all_reduce", 1024, 1024, 2048),
    ("1gbit", "matmul_all_reduce", 768, 1024, 3072),
    ("1gbit", "matmul_reduce_scatter", 1024, 1024, 1536),
    ("1gbit", "all_gather_matmul", 2048, 1024, 1024),
    ("2500mbit", "matmul_all_reduce", 1536, 1024, 1024),
    ("2500mbit", "matmul_all_reduce", 1024, 2048, 768),
    ("2500mbit", "matmul_reduce_scatter", 2048, 1024, 640),
    ("2500mbit", "all_gather_matmul", 2048, 512, 2048),
]
BUSY_HOST = "measure again on a quieter machine"


class Figures:
    def __init__(self, arguments, directory):
        self.arguments = arguments
        self.directory = directory
        self.agent = directory / "enter"
        two_hosts.write_agent(self.agent)
        # Each host has half of the cores, as if it were a machine of its own. Each rank has its share of these.
        cores = sorted(os.sched_getaffinity(0))
        count = 2 * arguments.ranks
        shares = [cores[len(cores) * rank // count : len(cores) * (rank + 1) // count] for rank in range(count)]
        if not all(shares):  # more ranks than cores: a host's ranks share its half
            halves = [cores[: len(cores) // 2], cores[len(cores) // 2 :]]
            shares = [halves[rank // arguments.ranks] for rank in range(count)]
        self.on_own_cores = directory / "on_own_cores"
        self.on_own_cores.write_text(
            "#!/bin/sh\ncase $OMPI_COMM_WORLD_RANK in\n"
            + "".join(
                f"{rank}) exec taskset -c {','.join(map(str, share))} \"$@\";;\n" for rank, share in enumerate(shares)
            )
            + "esac\n"
        )
        self.on_own_cores.chmod(0o755)

    def command(self, *exported):
        """The command that starts a program on both hosts and exports these variables of the environment."""
        settings = [word for name in exported for word in ("-x", name)]
        launch = two_hosts.launch_command(shutil.which("mpirun"), self.agent, self.arguments.ranks)
        return [*launch, *settings, str(self.on_own_cores)]

    def mc2(self, *arguments):
        command = [*self.command(), str(self.arguments.mc2.resolve()), *map(str, arguments)]
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=300
        )

    def tune(self, operator):
        """Tunes the operator. Returns why nothing was kept, or ""."""
        for _ in range(3):
            done = self.mc2("tune", *operator, "--fresh", "--budget", self.arguments.budget)
            if BUSY_HOST not in done.stderr:
                break
        return "" if done.returncode == 0 else self.reason_of(done)

    def measure(self, operator):
        """Runs `mc2 run`. Returns its document, or None, and why there is none."""
        done = self.mc2("run", *operator, "--pairs", self.arguments.pairs, "--budget", self.arguments.budget, "--json")
        return (json.loads(done.stdout), "") if done.returncode == 0 else (None, self.reason_of(done))

    @staticmethod
    def reason_of(done):
        lines = [line for line in done.stderr.splitlines() if line.startswith("mc2: ")]
        return lines[-1] if lines else done.stderr.strip()

    def operator(self, kind, m, n, k):
        store = self.directory / f"{kind}-{n}-{k}.db"
        ranks = 2 * self.arguments.ranks
        return f"--backend mpi --op {kind} --m {m} --n {n} --k {k} --ranks {ranks} --store {store}".split()

    def time_collectives(self, rate, kind, message_bytes):
        """A row with the fastest hierarchical and the fastest other variant of one collective alone."""
        times = collective_times(self.command(), 2 * self.arguments.ranks, kind, message_bytes, self.arguments)
        own = min((us, name) for name, us in times.items() if name.startswith("hierarchical"))
        other = min((us, name) for name, us in times.items() if not name.startswith("hierarchical"))
        ring = min(us for name, us in times.items() if name.startswith(("ring", "sliced_ring", "pairwise")))
        # The least time is what a host sends over the link's rate. It sends half of what all ranks bring, and in an
        # all-reduce as much again.
        sent_bytes = {"matmul_all_reduce": 1, "matmul_reduce_scatter": 0.5, "all_gather_matmul": 0.5}.get(
            kind, self.arguments.ranks / 2
        ) * message_bytes
        link_us = sent_bytes * 8 / two_hosts.bits_per_us(rate)
        return [
            rate,
            COLLECTIVES[kind],
            MESSAGES[message_bytes],
            f"{link_us:.0f}",
            f"{own[0]:.0f}",
            f"{other[0]:.0f}",
            other[1],
            f"{other[0] / own[0]:.2f}",
            f"{ring:.0f}",
            f"{ring / own[0]:.2f}",
        ]


def collective_times(launch, ranks, kind, message_bytes, arguments):
    """Times of one collective alone, in us, by variant. `launch` starts a program on all ranks."""
    with tempfile.NamedTemporaryFile(suffix=".csv") as file:
        command = [
            *launch,
            str(arguments.collectives.resolve()),
            *f"collectives --backend mpi --ranks {ranks} --op {kind} --budget {arguments.budget}".split(),
            *f"--from {message_bytes} --to {message_bytes} --csv {file.name}".split(),
        ]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=300
        )
        if done.returncode != 0:
            sys.exit(f"mpi_hosts_figures: {done.stderr}")
        rows = csv.DictReader(pathlib.Path(file.name).read_text().splitlines())
        return {row["variant"]: float(row["lane_us"]) for row in rows}


COLLECTIVES = {
    "matmul_all_reduce": "all-reduce",
    "matmul_reduce_scatter": "reduce-scatter",
    "all_gather_matmul": "all-gather",
    "matmul_all_to_all": "all-to-all",
}
MESSAGES = {1 << 18: "256 KiB", 1 << 20: "1 MiB", 1 << 22: "4 MiB"}


def print_collectives(figures):
    rows = csv.writer(sys.stdout, lineterminator="\n")
    rows.writerow(
        [
            "rate",
            "collective",
            "message",
            "link_us",
            "hierarchical_us",
            "flat_us",
            "flat_variant",
            "flat/hierarchical",
            "ring_us",
            "ring/hierarchical",
        ]
    )
    for rate in ("1gbit", "2500mbit"):
        make_hosts(rate)
        for kind in COLLECTIVES:
            for message_bytes in MESSAGES:
                if figures.arguments.only in f"{rate} {kind} {message_bytes}":
                    rows.writerow(figures.time_collectives(rate, kind, message_bytes))
                    sys.stdout.flush()


def print_slow_link(arguments, directory):
    rows = csv.writer(sys.stdout, lineterminator="\n")
    rows.writerow(["slow_link", "collective", "variant", "us"])
    agent = directory / "enter"
    four_hosts.write_agent(agent)
    for slow in ([], [(0, 1)]):
        reason = four_hosts.make_places("1gbit", arguments.slow_link, slow)
        if reason:
            sys.exit(f"mpi_hosts_figures: {reason}")
        for kind in ("matmul_all_reduce", "matmul_reduce_scatter", "all_gather_matmul"):
            launch = four_hosts.launch_command(shutil.which("mpirun"), agent)
            place = "0-1" if slow else "none"
            for variant, us in collective_times(launch, len(four_hosts.PLACES), kind, 1 << 20, arguments).items():
                rows.writerow([place, COLLECTIVES[kind], variant, f"{us:.0f}"])
            sys.stdout.flush()


def make_hosts(rate):
    reason = two_hosts.make_places(rate)
    if reason:
        sys.exit(f"mpi_hosts_figures: {reason}")


FUSED_COLUMNS = (
    "rate,operator,tuned,variant,blocks,serial_ms,fused_ms,ideal,benefit,share,predicted_ms,predicted_between_ms,off"
)


def row_of(document):
    plan, measured = document["plan"], document["measured"]
    serial = measured["compute_us"] + measured["communication_us"]
    ideal = min(measured["compute_us"], measured["communication_us"]) / serial
    fields = ",".join(f"{key}={value}" for key, value in plan["variant"]["fields"].items())
    predicted = plan["makespan"]
    return [
        plan["variant"]["name"] + (f"({fields})" if fields else ""),
        blocks_text(plan["cut"]["block_rows"]),
        f"{measured['serial_us'] / 1e3:.1f}",
        f"{measured['fused_us'] / 1e3:.1f}",
        f"{100 * ideal:.1f} %",
        f"{100 * measured['benefit']:.1f} %",
        f"{100 * measured['overlap_efficiency']:.0f} %",
        f"{predicted['us'] / 1e3:.1f}",
        f"{predicted['low_us'] / 1e3:.1f} to {predicted['high_us'] / 1e3:.1f}",
        f"{100 * (measured['fused_us'] / predicted['us'] - 1):+.1f} %",
    ]


def blocks_text(rows):
    """The text of these blocks, such as 384 + 10 x 64."""
    runs = [(length, len(list(same))) for length, same in itertools.groupby(rows)]
    return " + ".join(str(length) if count == 1 else f"{count} x {length}" for length, count in runs)


def print_fused(figures):
    rows, rate_now = csv.writer(sys.stdout, lineterminator="\n"), None
    rows.writerow(FUSED_COLUMNS.split(","))
    for rate, kind, m, n, k in CASES:
        k *= figures.arguments.deep
        if figures.arguments.only not in f"{rate} {kind} {m} x {n} x {k}":
            continue
        if rate != rate_now:
            make_hosts(rate)
            rate_now = rate
        untuned = figures.tune(figures.operator(kind, m, n, k))
        for length, is_tuned in ((m, "yes"), (m * 3 // 4, "no")):
            operator = figures.operator(kind, length, n, k)
            document, reason = (None, untuned) if untuned else figures.measure(operator)
            told = row_of(document) if document else [reason, *[""] * 9]
            rows.writerow([rate, f"{kind} {length} x {n} x {k}", is_tuned, *told])
            sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mc2", type=pathlib.Path, help="the program")
    parser.add_argument("--budget", type=float, default=12, help="seconds of profiling, and of measuring, per operator")
    parser.add_argument("--pairs", type=int, default=41, help="most fused/serial pairs")
    parser.add_argument("--only", default="", help="only the cases whose line holds this text")
    parser.add_argument("--ranks", type=int, default=1, help="ranks on each host")
    parser.add_argument("--deep", type=int, default=1, help="times k: for cores that multiply so many times as fast")
    parser.add_argument("--collectives", type=pathlib.Path, help="mc2-bench: time collectives alone, and nothing else")
    parser.add_argument("--slow-link", help="rate between the first two of four hosts, as tc has it")
    arguments = parser.parse_args()
    if arguments.slow_link:
        if not arguments.collectives:
            parser.error("--slow-link: is about collectives alone; say --collectives")
        with tempfile.TemporaryDirectory(prefix="mc2-figures-") as directory:
            try:
                return print_slow_link(arguments, pathlib.Path(directory))
            finally:
                four_hosts.remove_places()
    if arguments.collectives and arguments.ranks < 2:
        parser.error("--collectives: hosts of one rank have no hierarchy; say --ranks 2")
    with tempfile.TemporaryDirectory(prefix="mc2-figures-") as directory:
        figures = Figures(arguments, pathlib.Path(directory))
        try:
            print_collectives(figures) if arguments.collectives else print_fused(figures)
        finally:
            two_hosts.remove_places()


if __name__ == "__main__":
    main()
