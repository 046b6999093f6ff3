"""Shared by the tests of `mc2 serve`: a service on a store with a plan and a model, and clients of the service.

Every test file is run as: python3 NAME_test.py PATH_OF_MC2
"""

import errno
import http.client
import json
import pathlib
import re
import signal
import socket
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import program  # noqa: E402  (tests/cli is no package)

SHAPE = {"m": 96, "n": 64, "k": 64}
SHAPE_QUERY = "m=96&n=64&k=64"
# The export of what `mc2 tune` kept for program.SHAPE on program.MACHINE. Tuning takes longer than all else, and on a
# busy host it may find nothing to keep.
TUNED = pathlib.Path(__file__).parent / "tuned_store.json"


class Service:
    """A running `mc2 serve` on a free port."""

    def __init__(self, store, directory, *options, port=0, **environment):
        self.log = directory / "service.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [program.MC2, "serve", "--port", str(port), "--store", str(store), *map(str, options)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env={**program.environment(directory), **environment},
            )
        self.port = self.wait_for_port()

    def wait_for_port(self):
        while self.process.poll() is None:
            found = re.search(r"on https?://[^\s]*:(\d+)\n", self.log.read_text())
            if found:
                return int(found.group(1))
        raise AssertionError(self.log.read_text())

    def request(self, method, target, body=None, headers=None):
        """Sends one request on a connection of its own. Returns (status, headers, body)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, target, body, headers or {})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def json(self, method, target, body=None, status=200):
        text = None if body is None else json.dumps(body)
        found, headers, answer = self.request(method, target, text)
        assert found == status, f"{method} {target}: {found} {answer[:500]}"
        return json.loads(answer)

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def raw(self, data, keeps_sending_open=False):
        """Sends these bytes. Returns everything that the service answers until it closes the connection."""
        with self.connect() as connection:
            connection.sendall(data)
            if not keeps_sending_open:
                try:
                    connection.shutdown(socket.SHUT_WR)
                except OSError as error:  # the service has closed already; what it said is still there
                    if error.errno != errno.ENOTCONN:
                        raise
            return read_all(connection)

    def is_alive(self):
        return self.process.poll() is None and self.request("GET", "/livez")[0] == 200

    def stop(self):
        """Stops the service with SIGTERM. Returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


HOSTILE = {"strategy": "free", "alignment": 1, "min_block_rows": 1}


def hostile_model(model, variant_count):
    """A model whose variants have staircases on both lanes, which take equally long: hardly any list of blocks rules
    another one out, so planning takes long."""
    bytes_per_row = model["op"]["n"] * 4
    first = model["variants"][0]
    model["variants"] = []
    for i in range(variant_count):
        cost = json.loads(json.dumps(first))
        cost["variant"] = {"name": f"v{i}", "fields": {}}
        for lane, unit, period in (("compute", 1, 700 + i), ("communication", bytes_per_row, 1100 + i)):
            cost[lane]["curve"]["shape"] = {
                "alpha_us": 2,
                "beta_us_per_x": 1e-3 / unit,
                "family": "staircase",
                "period_source": "",
                "period_x": period * unit,
                "step_us": 0.7,
            }
            cost[lane]["slowdown"] = 1.2
        model["variants"].append(cost)
    return model


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def make_certificate(directory, name, subjects):
    """A self-signed certificate for `name`. Returns the files (certificate, key)."""
    certificate, key = directory / f"{name}.pem", directory / f"{name}.key"
    words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2".split()
    words += ["-keyout", key, "-out", certificate, "-subj", f"/CN={name}", "-addext", f"subjectAltName={subjects}"]
    subprocess.run(words, check=True, capture_output=True)
    return certificate, key


def make_store(directory):
    """A store with a tuned plan of SHAPE, for programs that are not tests."""
    store = directory / "store.db"
    subprocess.run(
        [program.MC2, "db", "import", str(TUNED), "--store", str(store)], stdout=subprocess.DEVNULL, check=True
    )
    return store


def read_all(connection):
    received = b""
    while True:
        try:
            part = connection.recv(65536)
        except ConnectionResetError:
            return received
        if not part:
            return received
        received += part


class ServiceTest(program.ProgramTest):
    """Has a store with one tuned plan and its model; start() serves the store."""

    tuned_store = None  # the store's bytes, made once for all tests of a file

    def setUp(self):
        super().setUp()
        if ServiceTest.tuned_store is None:
            self.succeed("db", "import", TUNED, "--store", self.store)
            ServiceTest.tuned_store = self.store.read_bytes()
        self.store.write_bytes(ServiceTest.tuned_store)
        self.store.chmod(0o600)

    def start(self, *options, **environment):
        service = Service(self.store, self.directory, *options, **environment)
        self.addCleanup(service.stop)
        return service
