"""The alerts and the dashboard of docs/deploy ask only for series and labels that `mc2 serve` tells.

Usage: python3 monitoring_test.py PATH_OF_MC2
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import time

import yaml

HERE = pathlib.Path(__file__).resolve()
sys.path.append(str(HERE.parents[1] / "server"))
from serving import SHAPE_QUERY, Service, ServiceTest, program  # noqa: E402

DEPLOY = program.SOURCE_DIRECTORY / "docs" / "deploy"
RULES, DASHBOARD = DEPLOY / "prometheus-rules.yml", DEPLOY / "grafana-dashboard.json"
OF_PROMETHEUS = {"job", "instance"}  # labels that scraping adds


def selectors(expression):
    """Yields each series in an expression, with the labels that its braces name."""
    for name, braces in re.findall(r"\b((?:mc2_|up\b)\w*)(?:\{([^}]*)\})?", expression):
        yield name, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", braces))


def grouped_labels(expression):
    return {label for labels in re.findall(r"\bby \(([^)]*)\)", expression) for label in re.split(r",\s*", labels)}


class MonitoringTest(ServiceTest):
    def told(self):
        """The labels of every series that a service tells after it was asked, or that its replica tells."""
        service = self.start("--history-interval", 1)
        for target in (f"/v1/plan?{SHAPE_QUERY}", "/v1/plans/ffffffff"):
            service.request("GET", target)
        described, text = {}, ""
        for _ in range(400):  # until the first point of the history: some series are not told before
            text = service.request("GET", "/metrics")[2].decode()
            if "\nmc2_plans_stale " in text:
                break
            time.sleep(0.02)
        (self.directory / "replica").mkdir()
        replica = Service(
            self.directory / "replica/mc2.db",
            self.directory / "replica",
            "--follow",
            f"http://127.0.0.1:{service.port}",
        )
        self.addCleanup(replica.stop)
        text += replica.request("GET", "/metrics")[2].decode()
        for family, kind in re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M):
            described[family] = set()
            if kind == "histogram":
                described.update({family + end: {"le"} for end in ("_bucket", "_sum", "_count")})
        for name, labels in re.findall(r"^(\w+)(?:\{([^}]*)\})? ", text, re.M):
            described.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
        return described

    def check(self, expression, told):
        names = list(selectors(expression))
        self.assertTrue(names, expression)
        labels = set()
        for name, asked in names:
            if name == "up":
                continue
            self.assertIn(name, told, expression)
            self.assertLessEqual(asked - OF_PROMETHEUS, told[name], expression)
            labels |= told[name]
        self.assertLessEqual(grouped_labels(expression) - OF_PROMETHEUS, labels, expression)
        for opening, closing in ("()", "[]", "{}"):
            self.assertEqual(expression.count(opening), expression.count(closing), expression)

    def test_alerts_and_dashboard_ask_for_what_there_is(self):
        told = self.told()
        rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
        self.assertGreater(len(rules), 5)
        for rule in rules:
            self.assertLessEqual({"alert", "expr", "for", "labels", "annotations"}, set(rule), rule)
            self.assertRegex(rule["for"], r"^\d+[mhs]$")
            self.assertEqual(set(rule["annotations"]), {"summary", "description"}, rule["alert"])
            self.check(rule["expr"], told)
        panels = json.loads(DASHBOARD.read_text())["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        targets = [target for panel in panels for target in panel["targets"]]
        for target in targets:
            self.check(target["expr"], told)
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                self.assertIn(
                    label,
                    grouped_labels(target["expr"]) | set().union(*(told[n] for n, _ in selectors(target["expr"]))),
                )
        shown = {name for target in targets for name, _ in selectors(target["expr"])}
        gauges = {
            name
            for name in told
            if name.startswith(("mc2_plan_", "mc2_plans_", "mc2_models_")) and not name.endswith("_total")
        }
        self.assertLessEqual(gauges, shown, "the dashboard shows how good plans are")

    def test_promtool_takes_the_rules(self):
        promtool = shutil.which("promtool")
        if promtool is None:
            self.skipTest("promtool is not here; it comes with prometheus, which starts a service")
        done = subprocess.run([promtool, "check", "rules", RULES], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    program.main()
