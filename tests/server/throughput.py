"""Throughput and latency of a plan query from cache, against a bare Beast server that returns the same bytes.

Usage: python3 throughput.py MC2 BARE_BEAST [--rounds N] [--seconds S] [--connections C]
Both run at once and are asked in turn by wrk, so that what else the machine does falls on both. Prints a table, and exits
with 1 where mc2 is below 0.8x of the throughput or above 2x of the 99th percentile (medians of the rounds).
"""

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ARGUMENTS = argparse.ArgumentParser(description=__doc__.splitlines()[0])
ARGUMENTS.add_argument("mc2")
ARGUMENTS.add_argument("bare_beast")
ARGUMENTS.add_argument("--rounds", type=int, default=7)
ARGUMENTS.add_argument("--seconds", type=int, default=3)
ARGUMENTS.add_argument("--connections", type=int, default=32)
ARGUMENTS.add_argument("--threads", type=int, default=2, help="of each server")
ARGUMENTS.add_argument("--options", nargs="*", default=[], help="more for mc2 serve, without the leading --")

LEAST_THROUGHPUT, MOST_P99 = 0.8, 2.0
UNIT_US = {"us": 1, "ms": 1e3, "s": 1e6}


def cpu_s(process):
    """Processor time that a process has taken so far."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ask(url, process, seconds, connections):
    """(requests per second, 99th percentile in us, processor us per request) under wrk."""
    before_s = cpu_s(process)
    text = subprocess.run(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", url], check=True,
                          capture_output=True, text=True).stdout
    if "Non-2xx" in text or "Socket errors" in text:
        raise SystemExit(text)
    value, unit = re.search(r"99%\s+([\d.]+)(us|ms|s)", text).groups()
    request_count = int(re.search(r"(\d+) requests in", text).group(1))
    return (float(re.search(r"Requests/sec:\s+([\d.]+)", text).group(1)), float(value) * UNIT_US[unit],
            (cpu_s(process) - before_s) * 1e6 / request_count)


def main():
    arguments = ARGUMENTS.parse_args()
    sys.argv = [sys.argv[0], arguments.mc2]  # where the tests' helper looks for the program
    import serving  # noqa: E402
    directory = pathlib.Path(tempfile.mkdtemp(prefix="mc2-throughput-"))
    store = serving.make_store(directory)
    target = f"/v1/plan?{serving.SHAPE_QUERY}"
    service = serving.Service(store, directory, "--threads", arguments.threads, *("--" + option for option in arguments.options))
    body = directory / "body.json"
    body.write_bytes(service.request("GET", target)[2])
    bare = subprocess.Popen([arguments.bare_beast, str(body), str(arguments.threads)], stdout=subprocess.PIPE, text=True)
    try:
        asked = {"bare": (f"http://127.0.0.1:{int(bare.stdout.readline())}/", bare),
                 "mc2": (f"http://127.0.0.1:{service.port}{target}", service.process)}
        rounds = [{name: ask(*one, arguments.seconds, arguments.connections) for name, one in asked.items()}
                  for _ in range(arguments.rounds)]
    finally:
        bare.kill()
        service.stop()
    return report(rounds, body.stat().st_size)


def report(rounds, body_bytes):
    print(f"answer of {body_bytes} bytes\n\n"
          "round   bare/s    mc2/s  ratio   bare p99 us   mc2 p99 us  ratio   bare cpu us   mc2 cpu us  ratio")
    for number, one in enumerate(rounds, 1):
        (bare, bare_p99, bare_cpu), (mc2, mc2_p99, mc2_cpu) = one["bare"], one["mc2"]
        print(f"{number:5} {bare:8.0f} {mc2:8.0f} {mc2 / bare:6.2f} {bare_p99:13.0f} {mc2_p99:12.0f} {mc2_p99 / bare_p99:6.2f}"
              f" {bare_cpu:13.1f} {mc2_cpu:12.1f} {mc2_cpu / bare_cpu:6.2f}")
    throughput, p99, cpu = (statistics.median(one["mc2"][i] / one["bare"][i] for one in rounds) for i in range(3))
    print(f"\nmedian ratios: throughput {throughput:.2f} (at least {LEAST_THROUGHPUT}), p99 {p99:.2f} (at most {MOST_P99}), "
          f"processor time of a request {cpu:.2f}")
    return 0 if throughput >= LEAST_THROUGHPUT and p99 <= MOST_P99 else 1


if __name__ == "__main__":
    sys.exit(main())
