"""Puts replicas to hard use. Run by hand; docs/service.md has the figures. Exits with 1 where a limit is missed.

  replicas.py MC2 kills [--kills 1000]                      leader and replicas are killed while others write and ask
  replicas.py MC2 fan-out [--replicas 24] [--writes 10000]  how soon all replicas have what was kept last
"""

import argparse
import concurrent.futures
import copy
import json
import pathlib
import random
import sys
import tempfile
import threading
import time

sys.argv, arguments = [sys.argv[0], sys.argv[1]], sys.argv[2:]  # serving.py takes the program from there
from serving import SHAPE_QUERY, Service, free_port, make_store  # noqa: E402

CURRENT_WITHIN_S = 2.0


class Cluster:
    """A leader and its replicas. Each has its own folder and port, and gets them again after it was killed."""

    def __init__(self, directory, replica_count, *options):
        self.directory = directory
        self.options = ("--access-log", "false", *options)
        self.ports = [free_port() for _ in range(replica_count + 1)]
        self.services = [None] * len(self.ports)
        for number in range(len(self.ports)):
            (directory / str(number)).mkdir()
            if number == 0:
                make_store(directory / "0")
            self.start(number)

    def start(self, number):
        follow = ("--follow", f"http://127.0.0.1:{self.ports[0]}", "--forward-writes") if number else ()
        folder = self.directory / str(number)
        self.services[number] = Service(folder / "store.db", folder, *self.options, *follow, port=self.ports[number])

    def kill(self, number):
        self.services[number].process.kill()
        self.services[number].process.wait()

    def revision(self, number):
        return self.services[number].json("GET", "/readyz")["revision"]

    def wait_until_current(self, within_s):
        """Waits until every replica has the leader's revision. Returns the seconds that it took."""
        start, wanted = time.monotonic(), self.revision(0)
        for number in range(1, len(self.ports)):
            while self.revision(number) < wanted:
                if time.monotonic() - start > within_s:
                    raise AssertionError(
                        f"replica {number} is at {self.revision(number)}, its leader at {wanted}\n"
                        + self.services[number].log.read_text()[-2000:]
                    )
                time.sleep(0.005)
        return time.monotonic() - start

    def stop(self):
        return [service.stop() for service in self.services]


def sample_plan(service):
    return service.json("GET", f"/v1/plan?{SHAPE_QUERY}")["plan"]


def with_k(plan, k, reason=""):
    plan = copy.deepcopy(plan)
    plan["op"]["k"] = k
    plan["reason"] = reason
    return plan


def run_kills(cluster, kill_count):
    plan, rng = sample_plan(cluster.services[0]), random.Random(1)
    ends, lock = threading.Event(), threading.Lock()
    acknowledged, answers, counts = {}, {}, {"asked": 0, "refused": 0, "differ": 0}

    def attempt(method, target, body=None):
        try:
            return random.choice(cluster.services).request(method, target, body)
        except OSError:  # the service is being killed
            return 0, {}, b""
        except Exception as fault:  # http.client raises them for half an answer
            if "http.client" not in type(fault).__module__:
                raise
            return 0, {}, b""

    def write(first_k):
        k = first_k
        while not ends.is_set():
            k += 2
            status, _, body = attempt("POST", "/v1/plans", json.dumps(with_k(plan, k)))
            if status == 201:
                with lock:
                    acknowledged[k] = json.loads(body)["digest"]

    def replace():  # replaces one operator's plan again and again, so that askers may get two of them
        for turn in range(10**9):
            if ends.wait(0.01):
                return
            attempt("POST", "/v1/plans", json.dumps(with_k(plan, plan["op"]["k"], f"turn {turn}")))

    def ask():
        targets = [f"/v1/plan?{SHAPE_QUERY}", "/v1/plan?m=160&n=64&k=64", "/v1/plan/ranges?first_m=64&m=512&n=64&k=64"]
        while not ends.is_set():
            target = random.choice(targets)
            status, headers, body = attempt("GET", target)
            if status != 200:
                counts["refused"] += 1
                continue
            epoch = headers["ETag"].strip('"').rsplit("-", 1)[1]
            with lock:
                counts["asked"] += 1
                if answers.setdefault((target, epoch), body) != body:
                    counts["differ"] += 1

    threads = [
        threading.Thread(target=work, args=args)
        for work, args in ((write, (1000,)), (write, (1001,)), (replace, ()), (ask, ()), (ask, ()))
    ]
    for thread in threads:
        thread.start()
    start = time.monotonic()
    try:
        for _ in range(kill_count):
            time.sleep(rng.uniform(0, 0.1))
            number = rng.randrange(len(cluster.ports))
            cluster.kill(number)
            cluster.start(number)
    finally:
        ends.set()
        for thread in threads:
            thread.join()
    took_s = time.monotonic() - start
    cluster.wait_until_current(60)
    lost = 0
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for service in cluster.services:
            lost += sum(
                status != 200
                for status in pool.map(
                    lambda digest: service.request("GET", f"/v1/plans/{digest}")[0], acknowledged.values()
                )
            )
    print(
        f"{kill_count} kills in {took_s:.0f} s beside {len(cluster.ports) - 1} replicas: {len(acknowledged)} documents "
        f"acknowledged, {lost} lost anywhere; {counts['asked']} answers at {len(answers)} questions and epochs, "
        f"{counts['differ']} that differ ({counts['refused']} not answered)"
    )
    return lost == 0 and counts["differ"] == 0 and len(acknowledged) > kill_count


def run_fan_out(cluster, write_count):
    plan, ends = sample_plan(cluster.services[0]), threading.Event()
    target = f"/v1/plan?{SHAPE_QUERY}"
    counts = {"same": 0, "another epoch": 0, "differ": 0}

    def ask_as_ranks():  # one rank asks anywhere, another one asks elsewhere for the first one's epoch
        while not ends.wait(0.02):
            first, second = random.sample(cluster.services, 2)
            answer = first.request("GET", target)[2]
            status, _, theirs = second.request("GET", f"{target}&epoch={json.loads(answer)['epoch']}")
            counts["another epoch" if status == 409 else "same" if theirs == answer else "differ"] += 1

    ranks = threading.Thread(target=ask_as_ranks)
    ranks.start()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:

        def post(k):
            return cluster.services[0].request("POST", "/v1/plans", json.dumps(with_k(plan, k)))[0]

        start = time.monotonic()
        statuses = set(pool.map(post, range(1000, 1000 + write_count)))
        wrote_s = time.monotonic() - start
    if statuses != {201}:
        raise AssertionError(f"answered {statuses}")
    current_s = cluster.wait_until_current(60)
    ends.set()
    ranks.join()
    bodies = {service.request("GET", target)[2] for service in cluster.services}
    print(
        f"{write_count} writes in {wrote_s:.1f} s ({write_count / wrote_s:.0f} a second), {len(cluster.ports) - 1} "
        f"replicas: all current {current_s:.2f} s after the last was acknowledged; {len(bodies)} answer; pairs of "
        f"ranks: {counts}"
    )
    return current_s <= CURRENT_WITHIN_S and len(bodies) == 1 and counts["differ"] == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("kills", "fan-out"))
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--replicas", type=int)
    parser.add_argument("--writes", type=int, default=10_000)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        kills = given.what == "kills"
        cluster = Cluster(pathlib.Path(folder), given.replicas or (3 if kills else 24), "--threads", "1")
        try:
            is_well = run_kills(cluster, given.kills) if kills else run_fan_out(cluster, given.writes)
        finally:
            start = time.monotonic()
            codes = cluster.stop()
            stopped_s = time.monotonic() - start
    print(f"SIGTERM ended all of them within {stopped_s:.1f} s, one after the other; exit codes {sorted(set(codes))}")
    sys.exit(0 if is_well and set(codes) == {0} else 1)


if __name__ == "__main__":
    main()
