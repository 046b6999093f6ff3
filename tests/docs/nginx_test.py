"""With docs/deploy/nginx.conf, nginx keeps a service's answers, asks for new ones by ETag, and answers without the
service."""

import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests/cli"), str(ROOT / "tests/server")]
import program  # noqa: E402
from serving import SHAPE_QUERY, ServiceTest, free_port  # noqa: E402

NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")


@unittest.skipUnless(NGINX, "nginx is not here; its package starts a service")
class NginxTest(ServiceTest):
    def proxy(self, service):
        """Starts nginx with the file's configuration, except for its ports and folders."""
        text = (ROOT / "docs/deploy/nginx.conf").read_text()
        self.port = free_port()
        for old, new in (
            ("/var/cache/nginx/mc2", str(self.directory / "cache")),
            ("127.0.0.1:8471", f"127.0.0.1:{service.port}"),
            ("listen 8470", f"listen 127.0.0.1:{self.port}"),
        ):
            self.assertEqual(text.count(old), 1, old)
            text = text.replace(old, new)
        temporary = "".join(
            f"{kind}_temp_path {self.directory / kind};\n"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        file = self.directory / "nginx.conf"
        user = "user root; " if os.geteuid() == 0 else ""  # root owns the folder
        file.write_text(
            f"{user}daemon off; pid {self.directory / 'pid'}; error_log {self.directory / 'error.log'};\n"
            f"events {{}}\nhttp {{ access_log off;\n{temporary}{text}}}\n"
        )
        nginx = subprocess.Popen(
            [NGINX, "-c", str(file), "-e", str(self.directory / "error.log")], stderr=subprocess.PIPE
        )

        def end():
            nginx.send_signal(signal.SIGQUIT)
            nginx.communicate(timeout=20)

        self.addCleanup(end)
        for _ in range(500):
            try:
                return self.ask("/livez")
            except OSError:
                if nginx.poll() is not None:
                    self.fail(nginx.stderr.read().decode())
                time.sleep(0.01)
        self.fail("nginx does not answer")

    def ask(self, target, method="GET", body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, target, body, headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def answered_by_service(self, service):
        metrics = service.request("GET", "/metrics")[2].decode()
        return sum(map(float, re.findall(r'^mc2_requests_total\{[^}]*route="/v1/plan"[^}]*\} (\S+)$', metrics, re.M)))

    def test_answers_are_kept_revalidated_and_survive_the_service(self):
        service = self.start()
        self.proxy(service)
        target = f"/v1/plan?{SHAPE_QUERY}"
        first = self.ask(target)
        self.assertEqual((first[0], first[2]), (200, service.request("GET", target)[2]))
        for _ in range(50):
            self.assertEqual(self.ask(target)[2], first[2])
        self.assertLess(self.answered_by_service(service), 20, "most were answered by nginx")

        time.sleep(2.1)
        self.assertEqual(self.ask(target)[1]["X-Cache-Status"], "REVALIDATED")
        plan = json.loads(first[2])["plan"]
        plan["reason"] = "another"
        self.assertEqual(self.ask("/v1/plans", "POST", json.dumps(plan))[0], 201, "writes pass")
        time.sleep(2.1)
        new = self.ask(target)[2]
        self.assertEqual(json.loads(new)["plan"]["reason"], "another")
        epoch = json.loads(self.ask("/v1/changes")[2])["epoch"]
        self.assertEqual(json.loads(self.ask(f"/v1/changes?since={epoch}&wait_ms=100")[2])["changes"], [])

        service.stop()
        time.sleep(2.1)
        status, headers, body = self.ask(target)
        self.assertEqual((status, headers["X-Cache-Status"], body), (200, "STALE", new))
        self.assertGreaterEqual(self.ask("/readyz")[0], 500, "which says of now that it is away")

    def test_a_token_opens_nobody_elses_answers(self):
        token = re.search(r"mc2_\w+", self.succeed("token", "create", "--role", "read", "--store", self.store))[0]
        self.proxy(self.start())
        target = f"/v1/plan?{SHAPE_QUERY}"
        self.assertEqual(self.ask(target, Authorization=f"Bearer {token}")[0], 200)
        self.assertEqual(self.ask(target)[0], 401)


if __name__ == "__main__":
    program.main()
