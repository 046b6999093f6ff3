"""Connections that stall, beside clients that do not.

Usage: python3 stall.py MC2 [--long]
Opens connections that say nothing, send half a header, or announce a body and withhold it, while healthy clients go on
asking for a plan. Prints when the last stalled one was closed, the healthy 99th percentile and the service's memory;
exits with 1 beyond the limits. --long: 2,000 connections under the default deadlines; otherwise 150 under short ones.
"""

import argparse
import pathlib
import resource
import select
import statistics
import sys
import tempfile
import threading
import time

STARTS = (
    b"",
    b"GET /v1/plan?m=96 HTTP/1.1\r\nHost: x\r\nX-Half",
    b"POST /v1/plan HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
)
LIMIT_MIB = 256


class Healthy(threading.Thread):
    """Asks for a plan again and again on one connection."""

    def __init__(self, service, target):
        super().__init__(daemon=True)
        self.connection = service.connect()
        self.request = f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        self.took_ms, self.ends, self.failure = [], threading.Event(), None

    def run(self):
        try:
            while not self.ends.wait(0.005):
                started = time.perf_counter()
                self.connection.sendall(self.request)
                answer = self.connection.recv(65536)
                self.took_ms.append((time.perf_counter() - started) * 1e3)
                if not answer.startswith(b"HTTP/1.1 200"):
                    raise AssertionError(answer)
        except (OSError, AssertionError) as error:
            self.failure = error


def hold(service, count):
    """Opens `count` connections that stall. Returns the seconds from opening the last one until all were closed."""
    held = []
    for number in range(count):
        connection = service.connect()
        connection.sendall(STARTS[number % len(STARTS)])
        held.append(connection)
    started = time.monotonic()
    poll = select.poll()
    by_descriptor = {connection.fileno(): connection for connection in held}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.POLLIN)
    while by_descriptor and time.monotonic() - started < 60:
        for descriptor, _ in poll.poll(1000):
            try:
                is_closed = not by_descriptor[descriptor].recv(65536)
            except ConnectionError:
                is_closed = True
            if is_closed:
                poll.unregister(descriptor)
                by_descriptor.pop(descriptor).close()
    return time.monotonic() - started if not by_descriptor else float("inf")


def peak_mib(process):
    text = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) / 1024


def measure(service, target, count, client_count=4):
    """(seconds until all were closed, healthy latencies in ms, peak memory in MiB)."""
    clients = [Healthy(service, target) for _ in range(client_count)]
    for client in clients:
        client.start()
    closed_s = hold(service, count)
    for client in clients:
        client.ends.set()
        client.join(30)
        client.connection.close()
        if client.failure:
            raise client.failure
    return closed_s, [took for client in clients for took in client.took_ms], peak_mib(service.process)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mc2")
    parser.add_argument("--long", action="store_true")
    arguments = parser.parse_args()
    sys.argv = [sys.argv[0], arguments.mc2]  # serving.py looks for the program there
    import serving

    count, deadline_s = (2000, 10.0) if arguments.long else (150, 1.0)
    most_s = deadline_s + 0.5  # the deadline of a body, and a moment to see it
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    directory = pathlib.Path(tempfile.mkdtemp(prefix="mc2-stall-"))
    store = serving.make_store(directory)
    short = [] if arguments.long else ["--header-timeout", "0.5", "--body-timeout", "0.5"]
    service = serving.Service(store, directory, "--connections", 4096, *short)
    try:
        closed_s, took_ms, mib = measure(service, f"/v1/plan?{serving.SHAPE_QUERY}", count)
    finally:
        service.stop()
    p99_ms = statistics.quantiles(took_ms, n=100)[98]
    print(
        f"{count} stalled connections: all closed after {closed_s:.1f} s (at most {most_s:.1f})\n"
        f"{len(took_ms)} healthy requests meanwhile: median {statistics.median(took_ms):.2f} ms, p99 {p99_ms:.2f} ms "
        f"(below 20)\n"
        f"peak memory {mib:.0f} MiB (below {LIMIT_MIB})"
    )
    return 0 if closed_s <= most_s and p99_ms < 20 and mib < LIMIT_MIB else 1


if __name__ == "__main__":
    sys.exit(main())
