"""Measures `mc2 serve` with many plans, many questions and much time. Not a test: it prints figures, and exits
with 1 where one misses its limit.

Usage: python3 endurance.py MC2 plans [--count 100000]        ready <= 2 s, lookup p99 <= 1 ms, memory <= 300 MiB
       python3 endurance.py MC2 same-bytes [--count 1000000]  byte-identical answers, also after three restarts
       python3 endurance.py MC2 soak [--seconds 3600] [--rate 1000]  memory and descriptors stay flat
"""

import argparse
import copy
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

from serving import SHAPE_QUERY, Service, make_store, program

MIB = 1 << 20
TARGET = f"/v1/plan?{SHAPE_QUERY}"


class Client:
    """One connection that stays open, with many requests on the way at a time."""

    def __init__(self, service):
        self.connection = service.connect()
        self.file = self.connection.makefile("rb")

    def send(self, requests):
        self.connection.sendall(b"".join(requests))

    def answer(self):
        """Reads the next answer as (status line, body)."""
        status, length = self.file.readline(), 0
        for line in iter(self.file.readline, b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return status, self.file.read(length)

    def close(self):
        self.file.close()
        self.connection.close()


def get(target):
    return f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


def memory_mib(service):
    status = pathlib.Path(f"/proc/{service.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1]) / 1024


def descriptor_count(service):
    return len(os.listdir(f"/proc/{service.process.pid}/fd"))


def mc2(*arguments):
    done = subprocess.run([program.MC2, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return done.stdout


def sizes(index):
    """n and k of the plan with this number. The tuned plan has neither."""
    return 1000 + index % 1000, 1000 + index // 1000


def add_plans(store, directory, count):
    """Adds `count` copies of the tuned plan for other n and k to the store."""
    document = json.loads(mc2("db", "export", "--store", store))
    original, batch = document["plans"][0], directory / "batch.json"
    for first in range(0, count, 20_000):
        plans = []
        for index in range(first, min(first + 20_000, count)):
            plans.append(copy.deepcopy(original))
            op = plans[-1]["document"]["op"]
            op["n"], op["k"] = sizes(index)
        batch.write_text(json.dumps({**document, "plans": plans, "models": [], "samples": [], "measurements": []}))
        mc2("db", "import", batch, "--store", store)
        print(f"\r  kept {min(first + 20_000, count)} of {count} plans", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def measure_plans(store, directory, arguments):
    add_plans(store, directory, arguments.count)
    started = time.monotonic()
    service = Service(store, directory, "--access-log", "false")
    while service.request("GET", "/readyz")[0] != 200:
        time.sleep(0.01)
    ready_s = time.monotonic() - started
    client, took_ms = Client(service), []
    chosen = random.Random(1).sample(range(arguments.count), min(20_000, arguments.count))
    for index in chosen:  # each is asked for the first time, so the service has none in memory
        n, k = sizes(index)
        began = time.perf_counter()
        client.send([get(f"/v1/plan?m=96&n={n}&k={k}")])
        status, body = client.answer()
        took_ms.append((time.perf_counter() - began) * 1e3)
        if b" 200 " not in status or json.loads(body)["plan"]["op"]["n"] != n:
            raise SystemExit(f"n={n} k={k}: {status} {body[:300]}")
    p99_ms = sorted(took_ms)[len(took_ms) * 99 // 100]
    peak_mib = memory_mib(service)
    service.stop()
    print(
        f"{arguments.count} plans, {store.stat().st_size / MIB:.0f} MiB: ready in {ready_s:.2f} s; {len(chosen)} first "
        f"lookups: median "
        f"{sorted(took_ms)[len(took_ms) // 2]:.2f} ms, p99 {p99_ms:.2f} ms; memory {peak_mib:.0f} MiB"
    )
    return ready_s <= 2 and p99_ms <= 1 and peak_mib <= 300


def measure_same_bytes(store, directory, arguments):
    expected, asked, batch = None, 0, 200
    started = time.monotonic()
    for start in range(4):
        service = Service(store, directory, "--access-log", "false")
        client = Client(service)
        while asked < arguments.count * (start + 1) // 4:
            client.send([get(TARGET)] * batch)
            for _ in range(batch):
                status, body = client.answer()
                expected = expected or body
                if b" 200 " not in status or body != expected:
                    raise SystemExit(f"answer {asked} differs: {status} {body[:300]}")
            asked += batch
        client.close()
        service.stop()
    print(
        f"{asked} answers of {len(expected)} bytes over 3 restarts: all the same ({time.monotonic() - started:.0f} s)"
    )
    return True


def measure_soak(store, directory, arguments):
    service = Service(store, directory, "--access-log", "false")
    listed = json.loads(service.request("GET", "/v1/plans")[2])["items"][0]["digest"]
    targets = [
        TARGET,
        TARGET + "&strategy=formula",
        "/v1/plans",
        "/v1/fingerprints",
        "/metrics",
        "/livez",
        f"/v1/plans/{listed}",
        f"/v1/plans/{listed}/explanation",
        f"/v1/plans/{listed}?format=svg",
        "/v1/plan?m=7&n=7&k=7",
        "/v1/plans/none",
    ]
    requests = [get(target) for target in targets]
    rows, asked, began = [], 0, time.monotonic()
    report_s = max(5, arguments.seconds // 20)
    while True:
        elapsed = time.monotonic() - began
        if elapsed >= report_s * len(rows):
            rows.append((elapsed, asked, memory_mib(service), descriptor_count(service)))
            print("{:7.0f} s {:10d} requests {:8.1f} MiB {:5d} descriptors".format(*rows[-1]), flush=True)
        if elapsed >= arguments.seconds:
            break
        due = int(elapsed * arguments.rate) - asked
        if due < 20:
            time.sleep(0.01)
            continue
        client = Client(service)  # a new connection each time
        for first in range(0, due, 50):
            chosen = [requests[(asked + i) % len(requests)] for i in range(min(50, due - first))]
            client.send(chosen)
            for _ in chosen:
                client.answer()
            asked += len(chosen)
        client.close()
    code = service.stop()
    middle = rows[len(rows) // 2]
    print(
        f"{asked} requests in {rows[-1][0]:.0f} s; from the middle to the end: memory {rows[-1][2] - middle[2]:+.1f} "
        f"MiB, descriptors "
        f"{rows[-1][3] - middle[3]:+d}; stopped with {code}"
    )
    return code == 0 and rows[-1][2] - middle[2] < 4 and rows[-1][3] <= middle[3]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mc2")
    parser.add_argument("what", choices=("plans", "same-bytes", "soak"))
    parser.add_argument("--count", type=int)
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--rate", type=int, default=1000)
    arguments = parser.parse_args()
    arguments.count = arguments.count or {"plans": 100_000}.get(arguments.what, 1_000_000)
    measure = {"plans": measure_plans, "same-bytes": measure_same_bytes, "soak": measure_soak}[arguments.what]
    with tempfile.TemporaryDirectory() as folder:
        directory = pathlib.Path(folder)
        sys.exit(0 if measure(make_store(directory), directory, arguments) else 1)


if __name__ == "__main__":
    main()
