"""Throughput and latency of a plan query from cache, against a bare Beast server that returns the same bytes.

Usage: python3 throughput.py MC2 BARE_BEAST [--rounds N] [--seconds S] [--connections C] [--disturbed]
Both servers run at once, and wrk asks them in turn, so that what else the machine does slows both alike. Prints a
table, and exits with 1 where mc2 is below 0.85x of the throughput or above 2x of the 99th percentile (medians of the
rounds).
--disturbed: all the while one client asks mc2 questions that plan until their deadline, and another one keeps a plan
for every hundredth question (as many as the store takes). mc2's 99th percentile may then be 5x, and /livez may take
50 ms.
"""

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ARGUMENTS = argparse.ArgumentParser(description=__doc__.splitlines()[0])
ARGUMENTS.add_argument("mc2")
ARGUMENTS.add_argument("bare_beast")
ARGUMENTS.add_argument("--rounds", type=int, default=7)
ARGUMENTS.add_argument("--seconds", type=int, default=3)
ARGUMENTS.add_argument("--connections", type=int, default=32)
ARGUMENTS.add_argument("--threads", type=int, default=2, help="of each server")
ARGUMENTS.add_argument("--disturbed", action="store_true")
ARGUMENTS.add_argument("--options", nargs="*", default=[], help="more for mc2 serve, without the leading --")

LEAST_THROUGHPUT, MOST_P99, MOST_P99_DISTURBED, MOST_LIVEZ_MS = 0.85, 2.0, 5.0, 50.0
UNIT_US = {"us": 1, "ms": 1e3, "s": 1e6}


def cpu_s(process):
    """Processor time in s that a process has taken so far."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ask(url, process, seconds, connections):
    """Asks under wrk. Returns (requests per second, 99th percentile in us, processor us per request)."""
    before_s = cpu_s(process)
    text = subprocess.run(
        ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", url],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    if "Non-2xx" in text or "Socket errors" in text:
        raise SystemExit(text)
    value, unit = re.search(r"99%\s+([\d.]+)(us|ms|s)", text).groups()
    request_count = int(re.search(r"(\d+) requests in", text).group(1))
    return (
        float(re.search(r"Requests/sec:\s+([\d.]+)", text).group(1)),
        float(value) * UNIT_US[unit],
        (cpu_s(process) - before_s) * 1e6 / request_count,
    )


class Disturbance:
    """A hostile planner, a writer and a client that watches /livez, each on one connection that stays open."""

    def __init__(self, service, serving):
        self.service, self.serving = service, serving
        self.ends = threading.Event()
        self.writes, self.hostile, self.livez_ms, self.writes_per_s = 0, 0, [], 0.0

    @contextlib.contextmanager
    def running(self):
        plan = self.service.json("GET", f"/v1/plan?{self.serving.SHAPE_QUERY}")["plan"]
        model = self.service.json("GET", f"/v1/models/{self.service.json('GET', '/v1/models')['items'][0]['digest']}")
        model["op"]["k"] *= 2  # another operator, as the one that wrk asks for keeps its model
        self.service.json("POST", "/v1/models", self.serving.hostile_model(model, 1024), status=201)
        op = model["op"]
        slow = f"/v1/plan?m={10**6}&n={op['n']}&k={op['k']}&" + "&".join(
            f"{k}={v}" for k, v in self.serving.HOSTILE.items()
        )
        threads = [
            threading.Thread(target=work, args=args)
            for work, args in ((self.write, (plan,)), (self.plan, (slow,)), (self.look, ()))
        ]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self.ends.set()
            for thread in threads:
                thread.join()

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.service.port, timeout=60)

    def write(self, plan):
        connection = self.connection()
        while not self.ends.is_set():
            if not self.writes_per_s:
                self.ends.wait(0.1)
                continue
            start = time.monotonic()
            plan["op"]["k"] = 1024 + self.writes
            connection.request("POST", "/v1/plans", json.dumps(plan))
            connection.getresponse().read()
            self.writes += 1
            self.ends.wait(max(0, 1 / self.writes_per_s - (time.monotonic() - start)))

    def plan(self, slow):
        connection = self.connection()
        while not self.ends.is_set():
            connection.request("GET", slow)
            connection.getresponse().read()
            self.hostile += 1

    def look(self):
        connection = self.connection()
        while not self.ends.wait(0.01):
            start = time.monotonic()
            connection.request("GET", "/livez")
            connection.getresponse().read()
            self.livez_ms.append((time.monotonic() - start) * 1e3)

    def report(self, seconds):
        longest = max(self.livez_ms)
        print(
            f"beside {self.writes / seconds:.0f} writes a second and {self.hostile} questions that were given up; "
            f"/livez: "
            f"median {statistics.median(self.livez_ms):.1f} ms, longest of {len(self.livez_ms)} {longest:.1f} ms (at "
            f"most "
            f"{MOST_LIVEZ_MS:.0f})"
        )
        return longest <= MOST_LIVEZ_MS


def measure(asked, arguments, disturbance):
    rounds = []
    for _ in range(arguments.rounds):
        rounds.append({name: ask(*one, arguments.seconds, arguments.connections) for name, one in asked.items()})
        if disturbance:
            disturbance.writes_per_s = rounds[-1]["mc2"][0] / 100
    return rounds[1:] if disturbance else rounds  # the first round ran before the rate of writes was known


def main():
    arguments = ARGUMENTS.parse_args()
    sys.argv = [sys.argv[0], arguments.mc2]  # serving.py looks for the program there
    import serving  # noqa: E402

    directory = pathlib.Path(tempfile.mkdtemp(prefix="mc2-throughput-"))
    store = serving.make_store(directory)
    target = f"/v1/plan?{serving.SHAPE_QUERY}"
    service = serving.Service(
        store, directory, "--threads", arguments.threads, *("--" + option for option in arguments.options)
    )
    body = directory / "body.json"
    body.write_bytes(service.request("GET", target)[2])
    bare = subprocess.Popen(
        [arguments.bare_beast, str(body), str(arguments.threads)], stdout=subprocess.PIPE, text=True
    )
    try:
        asked = {
            "bare": (f"http://127.0.0.1:{int(bare.stdout.readline())}/", bare),
            "mc2": (f"http://127.0.0.1:{service.port}{target}", service.process),
        }
        is_well = True
        if arguments.disturbed:
            start = time.monotonic()
            with Disturbance(service, serving).running() as disturbance:
                rounds = measure(asked, arguments, disturbance)
            is_well = disturbance.report(time.monotonic() - start)
        else:
            rounds = measure(asked, arguments, None)
    finally:
        bare.kill()
        start = time.monotonic()
        service.stop()
        print(f"SIGTERM ended the service in {time.monotonic() - start:.1f} s")
    return report(rounds, body.stat().st_size, MOST_P99_DISTURBED if arguments.disturbed else MOST_P99) or not is_well


def report(rounds, body_bytes, most_p99):
    print(
        f"answer of {body_bytes} bytes\n\n"
        "round   bare/s    mc2/s  ratio   bare p99 us   mc2 p99 us  ratio   bare cpu us   mc2 cpu us  ratio"
    )
    for number, one in enumerate(rounds, 1):
        (bare, bare_p99, bare_cpu), (mc2, mc2_p99, mc2_cpu) = one["bare"], one["mc2"]
        print(
            f"{number:5} {bare:8.0f} {mc2:8.0f} {mc2 / bare:6.2f} {bare_p99:13.0f} {mc2_p99:12.0f} "
            f"{mc2_p99 / bare_p99:6.2f}"
            f" {bare_cpu:13.1f} {mc2_cpu:12.1f} {mc2_cpu / bare_cpu:6.2f}"
        )
    throughput, p99, cpu = (statistics.median(one["mc2"][i] / one["bare"][i] for one in rounds) for i in range(3))
    print(
        f"\nmedian ratios: throughput {throughput:.2f} (at least {LEAST_THROUGHPUT}), p99 {p99:.2f} (at most "
        f"{most_p99}), "
        f"processor time of a request {cpu:.2f}"
    )
    return 0 if throughput >= LEAST_THROUGHPUT and p99 <= most_p99 else 1


if __name__ == "__main__":
    sys.exit(main())
