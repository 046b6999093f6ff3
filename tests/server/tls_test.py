"""`mc2 serve` with a certificate, and settings that it takes up while it runs."""

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import time

from serving import SHAPE_QUERY, TUNED, ServiceTest, make_certificate, program, read_all

PLAN = f"/v1/plan?{SHAPE_QUERY}"
GET = f"GET {PLAN} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()


class RunningTest(ServiceTest):
    def wait_for_log(self, service, text):
        deadline = time.monotonic() + 20
        while text not in service.log.read_text() and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertIn(text, service.log.read_text())


class TlsTest(RunningTest):
    def make_certificate(self, name):
        return make_certificate(self.directory, name, "DNS:localhost,IP:127.0.0.1")

    def options(self, files):
        return ["--tls-certificate", files[0], "--tls-key", files[1]]

    def connect(self, service, trusted, **settings):
        context = ssl.create_default_context(cafile=str(trusted))
        for name, value in settings.items():
            setattr(context, name, value)
        return context.wrap_socket(service.connect(), server_hostname="localhost", suppress_ragged_eofs=False)

    def ask(self, service, trusted, **settings):
        with self.connect(service, trusted, **settings) as connection:
            connection.sendall(GET)
            return read_all(connection)

    def test_trailers_too_large_for_the_reader_end_their_connection_only(self):
        files = self.make_certificate("one")
        service = self.start(*self.options(files))
        trailers = (
            GET.replace(b"Connection: close\r\n", b"Transfer-Encoding: chunked\r\n")
            + b"0\r\nX: "
            + b"a" * 66_000
            + b"\r\n\r\n"
        )
        with self.connect(service, files[0]) as connection:
            connection.sendall(trailers)
            self.assertTrue(connection.recv(65536).startswith(b"HTTP/1.1 431 "))
        self.assertTrue(self.ask(service, files[0]).startswith(b"HTTP/1.1 200 OK"))

    def served_name(self, service):
        pem = ssl.get_server_certificate(("127.0.0.1", service.port))
        text = subprocess.run(
            ["openssl", "x509", "-noout", "-subject"], input=pem, text=True, check=True, capture_output=True
        ).stdout
        return re.search(r"CN ?= ?(\w+)", text).group(1)

    def test_answers_over_tls_1_2_and_1_3_and_nothing_older(self):
        files = self.make_certificate("one")
        service = self.start(*self.options(files))
        self.assertIn(f"on https://127.0.0.1:{service.port}", service.log.read_text())
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            answer = self.ask(service, files[0], minimum_version=version, maximum_version=version)
            self.assertTrue(answer.startswith(b"HTTP/1.1 200 OK"), answer[:200])
            self.assertIn(b"mc2.answer/1", answer)
        done = subprocess.run(
            [
                "openssl",
                "s_client",
                "-connect",
                f"127.0.0.1:{service.port}",
                "-tls1_1",
                "-cipher",
                "DEFAULT:@SECLEVEL=0",
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
        )
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertEqual(service.stop(), 0)

    def test_ends_each_connection_so_that_a_cut_is_told_from_an_end(self):
        files = self.make_certificate("one")
        service = self.start(*self.options(files))
        connection = self.connect(service, files[0])
        connection.sendall(GET)
        read_all(connection)  # raises ssl.SSLEOFError unless close_notify came
        connection.unwrap()
        connection.close()

    def test_plain_http_is_told_so(self):
        service = self.start(*self.options(self.make_certificate("one")))
        self.assertIn(b"https://", service.raw(GET))

    def test_connections_above_the_limit_are_told_so_over_tls(self):
        files = self.make_certificate("one")
        service = self.start(*self.options(files), "--connections", 1)
        with self.connect(service, files[0]) as held:
            held.sendall(GET.replace(b"Connection: close\r\n", b""))
            self.assertIn(b"200 OK", held.recv(65536))
            answer = self.ask(service, files[0])
        self.assertTrue(answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n"), answer[:200])
        self.assertIn(b"\r\nRetry-After: 1\r\n", answer)

    def test_clients_that_never_shake_hands_are_closed(self):
        files = self.make_certificate("one")
        service = self.start(*self.options(files), "--header-timeout", "0.3")
        for start in (b"", b"\x16\x03\x01\x02\x00", b"\x16\x03\x01" + bytes(500), b"\x80" * 3000):
            with service.connect() as connection:
                connection.sendall(start)
                read_all(connection)
        self.assertTrue(self.ask(service, files[0]).startswith(b"HTTP/1.1 200"))

    def test_idle_and_cut_connections_hold_nothing_up(self):
        files = self.make_certificate("one")
        service = self.start(*self.options(files))
        idle = self.connect(service, files[0])
        cut = self.connect(service, files[0])
        cut.sendall(b"POST /v1/plan HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
        socket.socket(fileno=cut.detach()).close()
        started = time.monotonic()
        self.assertEqual(service.stop(), 0)
        self.assertLess(time.monotonic() - started, 5)
        idle.close()

    def test_a_renewed_certificate_is_taken_without_a_word(self):
        files, renewed = self.make_certificate("one"), self.make_certificate("two")
        service = self.start(*self.options(files))
        open_before = self.connect(service, files[0])
        files[0].write_text("no certificate")
        self.wait_for_log(service, "the previous certificate stays in use")
        self.assertEqual(self.served_name(service), "one")
        os.replace(renewed[1], files[1])
        os.replace(renewed[0], files[0])
        self.wait_for_log(service, "the certificate was renewed")
        self.assertEqual(self.served_name(service), "two")
        open_before.sendall(GET)
        self.assertTrue(read_all(open_before).startswith(b"HTTP/1.1 200"))
        open_before.close()

    def move_plan_here(self):
        """Gives the store's plan this machine, so that `mc2 plan` asks the service for it."""
        here = json.loads(self.succeed("doctor", "--json"))["backends"][0]["fingerprint"]
        text = TUNED.read_text()
        tuned = json.loads(text)["plans"][0]["document"]["fingerprint"]
        here.update({name: tuned[name] for name in ("emulation", "link")})
        content = json.loads(
            text, object_hook=lambda one: {**one, "fingerprint": here} if "fingerprint" in one else one
        )
        moved = self.directory / "moved.json"
        moved.write_text(json.dumps(content))
        self.store.unlink()
        self.succeed("db", "import", moved, "--store", self.store)

    def plan_over(self, service, host, *options):
        """What `mc2 plan` says on standard error, asking the service under this name."""
        url = f"https://{host}:{service.port}"
        return self.mc2("plan", *program.SHAPE, *program.MACHINE, "--server", url, *options).stderr

    def test_clients_are_told_why_they_refuse_a_certificate(self):
        files, other = self.make_certificate("one"), self.make_certificate("two")
        named = make_certificate(self.directory, "three", "DNS:elsewhere.example")
        patient = ["--server-wait", 20]
        service = self.start(*self.options(files))
        told = self.plan_over(service, "127.0.0.1", *patient, "--server-ca", other[0])
        self.assertRegex(told, "its certificate is refused: self.signed certificate")
        self.assertIn("--server-ca", told)
        service = self.start(*self.options(named))
        told = self.plan_over(service, "127.0.0.1", *patient, "--server-ca", named[0])
        self.assertIn("its certificate is refused: hostname mismatch", told)
        self.assertIn("under a name that its certificate has", told)

    def test_certificates_of_the_system_do_not_count_beside_those_that_are_named(self):
        self.move_plan_here()
        files, other = self.make_certificate("one"), self.make_certificate("two")
        service = self.start(*self.options(files))
        system = {**program.environment(self.directory), "SSL_CERT_FILE": str(files[0])}
        command = ["plan", *program.SHAPE, *program.MACHINE, "--server-wait", 20]
        command += ["--server", f"https://127.0.0.1:{service.port}"]
        self.assertIn("plan from service", self.mc2(*command, env=system).stderr)
        self.assertIn("is refused", self.mc2(*command, "--server-ca", other[0], env=system).stderr)

    def test_the_set_up_of_a_clients_tls_does_not_count_as_waiting(self):
        self.move_plan_here()
        files = self.make_certificate("one")
        service = self.start(*self.options(files))
        many = self.directory / "many.pem"  # reading these takes longer than the client waits for the answer
        many.write_text(files[0].read_text() * 2000)
        told = self.plan_over(service, "127.0.0.1", "--server-ca", many, "--server-wait", 0.2)
        self.assertIn("plan from service", told)

    def test_files_that_cannot_be(self):
        one, two = self.make_certificate("one"), self.make_certificate("two")
        locked = self.directory / "locked.key"
        subprocess.run(
            ["openssl", "pkey", "-in", str(one[1]), "-aes256", "-passout", "pass:x", "-out", str(locked)],
            check=True,
            capture_output=True,
        )
        nothing, text = self.directory / "nothing.pem", self.directory / "text.pem"
        text.write_text("text")
        for certificate, key, *texts in (
            (nothing, one[1], "nothing.pem", "No such file"),
            (one[0], nothing, "nothing.pem", "No such file"),
            (text, one[1], "text.pem", "no certificate"),
            (one[0], text, "text.pem", "no private key"),
            (one[0], two[1], "not the key of"),
            (one[0], locked, "locked.key", "without a passphrase"),
            (self.directory, one[1], "is a directory"),
        ):
            with self.subTest(certificate=certificate, key=key):
                self.refuse(
                    program.USAGE,
                    ["serve", "--port", 0, "--store", self.store, *self.options((certificate, key))],
                    *texts,
                )
        self.refuse(
            program.USAGE,
            ["serve", "--port", 0, "--store", self.store, "--tls-certificate", one[0]],
            "tls-key",
            "together",
        )

    def test_tokens_and_tls_let_the_network_in(self):
        files = self.make_certificate("one")
        options = ["--address", "0.0.0.0", *self.options(files)]
        self.refuse(
            program.USAGE, ["serve", "--port", 0, "--store", self.store, *options], "token", "--insecure-network"
        )
        self.succeed("token", "create", "--role", "read", "--store", self.store)
        self.refuse(program.USAGE, ["serve", "--port", 0, "--store", self.store, "--address", "0.0.0.0"], "TLS")
        self.assertTrue(self.ask(self.start(*options), files[0]).startswith(b"HTTP/1.1 401"))


class ReloadTest(RunningTest):
    def reload(self, service, text):
        service.process.send_signal(signal.SIGHUP)
        self.wait_for_log(service, text)

    def test_the_file_is_read_again_and_the_command_line_still_goes_first(self):
        config = self.directory / "serve.json"
        config.write_text(json.dumps({"body-bytes": 2000, "public-read": True, "port": 1}))
        service = self.start("--config", config, "--header-bytes", 4000)
        self.assertEqual(service.request("POST", "/v1/plan", b" " * 3000)[0], 413)
        config.write_text(json.dumps({"body-bytes": 4000, "header-bytes": 300, "require-tokens": True, "threads": 3}))
        self.reload(
            service,
            "reloaded: --body-bytes=4000 --public-read= --require-tokens=true; only a restart changes --threads=3",
        )
        self.assertEqual(service.request("GET", PLAN, headers={"X-Long": "x" * 2000})[0], 401)
        config.write_text("{}")
        self.reload(service, "reloaded: --body-bytes=1048576 --require-tokens=\n")
        self.assertEqual(service.request("POST", "/v1/plan", b" " * 3000)[0], 400)

    def test_what_only_a_restart_changes_is_compared_with_what_runs(self):
        config = self.directory / "serve.json"
        config.write_text("{}")
        service = self.start("--config", config)
        for text, expected in (
            ('{"keep-samples": "5d"}', "no setting has changed; only a restart changes --keep-samples=5d\n"),
            (
                '{"keep-samples": "5d", "watchers": 9}',
                "reloaded: --watchers=9; only a restart changes --keep-samples=5d\n",
            ),
            (
                '{"keep-samples": "6d", "watchers": 9}',
                "no setting has changed; only a restart changes --keep-samples=6d\n",
            ),
            ('{"watchers": 9}', "reloaded: no setting has changed\n"),
        ):
            config.write_text(text)
            self.reload(service, expected)

    def test_a_bad_file_changes_nothing(self):
        config = self.directory / "serve.json"
        config.write_text(json.dumps({"body-bytes": 2000}))
        service = self.start("--config", config)
        for text, expected in (
            ("{", "line 1, column 2: is no JSON"),
            ('{"body-bytes": 3000\n "port": 1}', "line 2, column 7: "),
            ('{"body-bytes": 3000, "body-bytes": 4000}', "key 'body-bytes' appears twice"),
            ('{"body-bytes": 3000, "prot": 1}', '"prot" is no option'),
            ('{"body-bytes": 1}', "--body-bytes"),
            ('{"body-bytes": 3000, "header-timeout": -1}', "header-timeout"),
            ('{"body-bytes": 3000, "tls-key": "x"}', "together"),
        ):
            config.write_text(text)
            self.reload(service, expected)
            self.assertIn("not reloaded", service.log.read_text())
            self.assertEqual(service.request("POST", "/v1/plan", b" " * 2500)[0], 413, text)
        config.write_text(json.dumps({"body-bytes": 3000}))
        self.reload(service, "reloaded: --body-bytes=3000\n")
        self.assertEqual(service.request("POST", "/v1/plan", b" " * 2500)[0], 400)

    def test_the_supervisor_is_told_each_state(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
            supervisor.bind(str(self.directory / "notify"))
            supervisor.settimeout(20)
            service = self.start(NOTIFY_SOCKET=str(self.directory / "notify"))
            self.assertEqual(supervisor.recv(4096), b"READY=1")
            service.process.send_signal(signal.SIGHUP)
            self.assertRegex(supervisor.recv(4096), rb"^RELOADING=1\nMONOTONIC_USEC=\d+$")
            self.assertEqual(supervisor.recv(4096), b"READY=1")
            self.assertEqual(service.stop(), 0)
            self.assertEqual(supervisor.recv(4096), b"STOPPING=1")

    def test_without_a_file_it_says_that_nothing_has_changed(self):
        service = self.start()
        self.reload(service, "no setting has changed")
        self.assertTrue(service.is_alive())

    def test_connections_live_on_under_the_new_limits(self):
        config = self.directory / "serve.json"
        config.write_text("{}")
        service = self.start("--config", config)
        with service.connect() as connection:
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertIn(b"200 OK", connection.recv(65536))
            config.write_text(json.dumps({"header-bytes": 300}))
            self.reload(service, "--header-bytes=300")
            long = b"GET /livez HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 400 + b"\r\n\r\n"
            connection.sendall(long)
            answer = connection.recv(65536)
            if b" 200 OK" in answer:  # the connection had begun to wait for the request under the old limits
                connection.sendall(long)
                answer = connection.recv(65536)
            self.assertIn(b" 431 ", answer)


if __name__ == "__main__":
    program.main()
