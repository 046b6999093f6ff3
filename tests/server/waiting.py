"""How long questions wait while another process imports thousands of plans into the store that is served.

Usage: python3 waiting.py MC2 [--plans N] [--csv FILE]
Prints a line for each sort of question, and exits with 1 where one was refused.
"""

import argparse
import copy
import csv
import http.client
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

ARGUMENTS = argparse.ArgumentParser(description=__doc__.splitlines()[0])
ARGUMENTS.add_argument("mc2")
ARGUMENTS.add_argument("--plans", type=int, default=15_000)
ARGUMENTS.add_argument("--csv", type=pathlib.Path)
PAUSE_S = 0.002


class Asker(threading.Thread):
    """Asks one sort of question again and again, each time with another `number`."""

    def __init__(self, name, port, target):
        super().__init__(name=name, daemon=True)
        self.port, self.target, self.is_over = port, target, threading.Event()
        self.times_ms, self.refused_count = [], 0

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        number = 0
        while not self.is_over.wait(PAUSE_S):
            number += 1
            start = time.perf_counter()
            connection.request("GET", self.target(number))
            answer = connection.getresponse()
            answer.read()
            self.times_ms.append((time.perf_counter() - start) * 1e3)
            self.refused_count += answer.status != 200

    def row(self):
        times = sorted(self.times_ms)
        return {
            "question": self.name,
            "count": len(times),
            "refused": self.refused_count,
            "p50_ms": round(times[len(times) // 2], 2),
            "p99_ms": round(times[int(len(times) * 0.99)], 1),
            "max_ms": round(times[-1]),
        }


def many_plans(service, count):
    """An export of `count` plans, each for another k, and the digest of the plan they are copies of."""
    digest = service.json("GET", "/v1/plans?limit=1")["items"][0]["digest"]
    plan = service.json("GET", f"/v1/plans/{digest}")
    plans = []
    for i in range(count):
        plans.append({"created_at": "2026-01-01T00:00:00Z", "document": copy.deepcopy(plan), "purpose": "tuned"})
        plans[-1]["document"]["op"]["k"] = 1000 + i
    return {
        "schema": "mc2.store/1",
        "damages": [],
        "measurements": [],
        "models": [],
        "plans": plans,
        "samples": [],
    }, digest


def main():
    arguments = ARGUMENTS.parse_args()
    sys.argv = [sys.argv[0], arguments.mc2]  # serving.py looks for the program there
    import serving  # noqa: E402

    with tempfile.TemporaryDirectory(prefix="mc2-waiting-") as directory:
        sys.exit(measure(arguments, serving, pathlib.Path(directory)))


def measure(arguments, serving, directory):
    """Returns 1 if a question was refused, else 0."""
    store = serving.make_store(directory)
    service = serving.Service(store, directory)
    export, digest = many_plans(service, arguments.plans)
    (directory / "export.json").write_text(json.dumps(export))
    query = serving.SHAPE_QUERY
    askers = [
        Asker(name, service.port, target)
        for name, target in (
            ("livez", lambda _: "/livez"),
            ("plan from cache", lambda _: f"/v1/plan?{query}"),
            ("kept plan by digest", lambda _: f"/v1/plans/{digest}"),
            ("list of plans", lambda _: "/v1/plans?limit=5"),
            ("plan made anew", lambda number: f"/v1/plan?m={96 + 16 * number}&n=64&k=64"),
        )
    ]
    for asker in askers:
        asker.start()
    start = time.perf_counter()
    subprocess.run(
        [arguments.mc2, "db", "import", directory / "export.json", "--store", store],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    print(f"{arguments.plans} plans imported in {time.perf_counter() - start:.1f} s; meanwhile")
    for asker in askers:
        asker.is_over.set()
        asker.join()
    service.stop()
    rows = [asker.row() for asker in askers]
    for row in rows:
        text = "{question:20} {count:5} asked, {refused} refused; p50 {p50_ms} ms, p99 {p99_ms} ms, longest {max_ms} ms"
        print(text.format(**row))
    if arguments.csv:
        with arguments.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    return int(any(row["refused"] for row in rows))


if __name__ == "__main__":
    main()
