"""`mc2 --server`: plans come from a service, and what is tuned goes to it. A service that is away costs nothing but
a note."""

import json
import pathlib
import socket
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "server"))
import program  # noqa: E402
from program import EXAMPLE, EXAMPLE_MODEL, MACHINE, NO_ANSWER, QUICK, UNSUPPORTED, USAGE  # noqa: E402
from serving import Service, make_certificate  # noqa: E402  (tests/server is no package)

QUESTION = ["--m", "512", "--n", "64", "--k", "64", *MACHINE]
PATIENT = ["--server-wait", "30"]  # so that an answer does not become a fallback on a busy host


class ServerTest(program.ProgramTest):
    """One store that a service serves, and another store of the user's own."""

    def setUp(self):
        super().setUp()
        self.own = self.directory / "own.db"

    def serve(self, *options):
        service = Service(self.store, self.directory, *options)
        self.addCleanup(service.stop)
        return service, f"http://127.0.0.1:{service.port}"

    def tune(self, store, *options):
        return self.tuned(*QUESTION, *QUICK, "--store", store, *options)

    def test_what_is_tuned_goes_to_the_service_and_comes_from_it(self):
        service, url = self.serve()
        tuned = self.tune(self.own, "--server", url)
        self.assertIn(f"to {url}", tuned.stderr)
        listed = service.json("GET", "/v1/plans")["items"]
        self.assertEqual(len(listed), 1)
        self.assertEqual(len(service.json("GET", "/v1/models")["items"]), 1)
        races = len(json.loads(self.succeed("db", "export", "--store", self.own))["measurements"])
        self.assertEqual(len(service.json("GET", "/v1/measurements")["items"]), races)
        samples = self.sample_count_of(self.store)
        self.assertEqual(samples, self.sample_count_of(self.own))

        # The second time nothing is measured, and nothing is kept twice.
        again = self.complete("push", *QUESTION, "--store", self.own, "--server", url)
        self.assertIn("pushed 0 samples, 0 races, model ", again.stdout)
        document = json.loads(self.succeed("push", *QUESTION, "--store", self.own, "--server", url, "--json"))
        self.assertEqual((document["sample_count"], document["race_count"], document["server"]), (0, 0, url))
        program.keep_document(document)
        self.assertEqual(self.sample_count_of(self.store), samples)

        # A third store on the same machine has nothing left to measure.
        taken = self.tuned(*QUESTION, *QUICK, "--store", self.directory / "second.db", "--server", url)
        self.assertIn(f"says {url}; --fresh measures here", taken.stderr)
        self.assertEqual(self.sample_count_of(self.directory / "second.db"), 0)

        # Another machine of the fleet has the same fingerprint and an empty store.
        third = self.directory / "third.db"
        for arguments in (
            ["plan", *QUESTION, "--json"],
            ["run", *QUESTION, "--pairs", "6", "--json"],
            ["explain", *QUESTION, "--json"],
        ):
            with self.subTest(arguments[0]):
                done = self.complete(*arguments, "--store", third, "--server", url, *PATIENT)
                self.assertIn(f"plan from service {url}, tuned plan of epoch ", done.stderr)
        plan = json.loads(self.succeed("plan", *QUESTION, "--json", "--store", third, "--server", url, *PATIENT))
        self.assertEqual(plan, service.json("GET", f"/v1/plans/{listed[0]['digest']}"))
        # The option may also come before the command, or from the environment.
        before = self.complete("--server", url, *PATIENT, "plan", *QUESTION, "--store", third)
        self.assertIn("plan from service", before.stderr)
        variables = {**program.environment(self.directory), "MC2_SERVER": url}
        self.assertIn(
            "plan from service", self.complete("plan", *QUESTION, *PATIENT, "--store", third, env=variables).stderr
        )
        # A plan is found by its digest, and the service's model predicts given blocks.
        self.succeed("explain", listed[0]["digest"][:8], "--store", third, "--server", url)
        self.succeed("run", *QUESTION, "--blocks", "128,384", "--pairs", "6", "--store", third, "--server", url)

        # The service is gone. Its last answer is still known.
        self.assertEqual(service.stop(), 0)
        later = self.complete("run", *QUESTION, "--pairs", "6", "--store", third, "--server", url)
        self.assertIn(f"plan from what service {url} answered at ", later.stderr)

    def test_copies_in_the_store_of_the_service_are_none_of_its_plans(self):
        service, url = self.serve()
        self.tune(self.store)
        before = service.json("GET", "/v1/plans")
        epoch = service.json("GET", "/v1/changes")["epoch"]
        self.succeed("plan", *QUESTION, "--store", self.store, "--server", url, *PATIENT)
        kept = [plan["purpose"] for plan in json.loads(self.succeed("db", "export", "--store", self.store))["plans"]]
        self.assertEqual(sorted(kept), [f"served by {url}", "tuned"])
        changes = service.json("GET", f"/v1/changes?since={epoch}&wait_ms=1000")
        self.assertEqual(changes["changes"], [])
        self.assertGreater(changes["epoch"], epoch)
        self.assertEqual(service.json("GET", "/v1/plans"), before)
        self.assertIn("\nmc2_plans_raced 1\n", service.request("GET", "/metrics")[2].decode())

    def test_a_plan_of_other_options_has_a_place_of_its_own_there(self):
        service, url = self.serve()
        few = ["--max-blocks", 2]
        self.tune(self.own, *few, "--server", url)
        self.assertEqual(
            [plan["purpose"] for plan in service.json("GET", "/v1/plans")["items"]], ["tuned max_block_count=2"]
        )
        kept = json.loads(self.succeed("plan", *QUESTION, *few, "--json", "--store", self.own))
        other = self.directory / "other.db"
        taken = self.complete("tune", *QUESTION, *QUICK, *few, "--json", "--store", other, "--server", url)
        self.assertIn(f"says {url}; --fresh measures here", taken.stderr)
        self.assertEqual(json.loads(taken.stdout), kept)
        served = self.complete(
            "plan", *QUESTION, *few, "--json", "--store", self.directory / "none.db", "--server", url, *PATIENT
        )
        self.assertIn("tuned plan of epoch ", served.stderr)
        self.assertEqual(json.loads(served.stdout), kept)

    def sample_count_of(self, store):
        exported = json.loads(self.succeed("db", "export", "--store", store))
        return sum(len(batch["document"]["samples"]) for batch in exported["samples"])

    def test_a_service_that_is_away_leaves_the_answer_to_what_is_kept_here(self):
        self.tune(self.own)
        with socket.socket() as dead, socket.socket() as black_hole:
            dead.bind(("127.0.0.1", 0))
            black_hole.bind(("127.0.0.1", 0))
            black_hole.listen()  # accepts connections and never answers
            for socket_, why, waiting in ((dead, "Failed to connect", PATIENT), (black_hole, "within 30 ms", [])):
                url = f"http://127.0.0.1:{socket_.getsockname()[1]}"
                for command in ("plan", "explain", "run"):
                    with self.subTest(command, why=why):
                        extra = ["--pairs", "6"] if command == "run" else []
                        done = self.complete(command, *QUESTION, *extra, "--store", self.own, "--server", url, *waiting)
                        self.assertIn(f"plan from kept plans; service: {url}: ", done.stderr)
                        self.assertIn(why, done.stderr)
                self.refuse(
                    NO_ANSWER,
                    ["run", *QUESTION, "--store", self.directory / "empty.db", "--server", url],
                    f"service: {url}: ",
                    "own planner: ",
                    "mc2 tune",
                )

    def token_file(self, role):
        path = self.directory / f"{role}.token"
        path.write_text(self.succeed("token", "create", "--role", role, "--store", self.store))
        return path

    def test_tokens_let_in_and_are_never_shown(self):
        self.tune(self.own)
        reader, writer = self.token_file("read"), self.token_file("write")
        _, url = self.serve()
        push = ["push", *QUESTION, "--store", self.own, "--server", url]
        self.refuse(USAGE, push, url, "needs a token", "none was given (401", "MC2_SERVER_TOKEN or --token-file")
        wrong = self.directory / "wrong.token"
        wrong.write_text("mc2_wrong")
        for file, status in ((wrong, "401"), (reader, "403")):
            done = self.refuse(
                USAGE, [*push, "--token-file", file], url, f"does not take the token ({status}", "MC2_SERVER_TOKEN"
            )
            self.assertNotIn(reader.read_text().strip(), done.stderr)
        self.succeed(*push, "--token-file", writer)
        variables = {**program.environment(self.directory), "MC2_SERVER_TOKEN": reader.read_text().strip()}
        done = self.complete("plan", *QUESTION, "--store", self.own, "--server", url, *PATIENT, env=variables)
        self.assertIn("plan from service", done.stderr)
        variables["MC2_SERVER_TOKEN"] = "mc2_wrong"
        done = self.complete(
            "run", *QUESTION, "--pairs", "6", "--store", self.own, "--server", url, *PATIENT, env=variables
        )
        self.assertIn(f"plan from what service {url} answered at ", done.stderr)
        self.assertIn("does not take the token", done.stderr)

    def test_https_is_believed_with_a_trusted_certificate_only(self):
        self.tune(self.own)
        certificate, key = make_certificate(self.directory, "own", "IP:127.0.0.1")
        service, _ = self.serve("--tls-certificate", certificate, "--tls-key", key)
        url = f"https://127.0.0.1:{service.port}"
        push = ["push", *QUESTION, "--store", self.own, "--server"]
        self.refuse(UNSUPPORTED, [*push, url], url, "--server-ca")
        self.succeed(*push, url, "--server-ca", certificate)
        named = f"https://localhost:{service.port}"  # a name that the certificate does not hold
        self.refuse(UNSUPPORTED, [*push, named, "--server-ca", certificate], named, "--server-ca")
        self.refuse(UNSUPPORTED, [*push, f"http://127.0.0.1:{service.port}"], "http://127.0.0.1")

    def test_tuning_is_kept_here_when_the_service_does_not_take_it(self):
        with socket.socket() as dead:
            dead.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{dead.getsockname()[1]}"
            done = self.mc2("tune", *QUESTION, *QUICK, "--store", self.own, "--server", url)
            self.assertEqual(done.returncode, program.SUCCESS, done.stderr)
            self.assertIn("mc2 push can send it later", done.stderr)
        service, url = self.serve()
        self.assertIn("plan ", self.succeed("push", *QUESTION, "--store", self.own, "--server", url))
        self.assertEqual(len(service.json("GET", "/v1/plans")["items"]), 1)

    def test_where_a_server_makes_no_sense_it_is_refused_with_the_reason(self):
        url = "http://127.0.0.1:9"
        for command, reason in (
            (["db", "check"], "works on the file of a store"),
            (["serve"], "is the service itself"),
            (["fit", *QUESTION], "mc2 push"),
            (["doctor"], "asks no service"),
        ):
            with self.subTest(command[0]):
                self.refuse(USAGE, [*command, "--server", url], "--server: ", reason)
                self.refuse(USAGE, ["--server", url, *command], "--server: ", reason)
        example = ["plan", "--model", EXAMPLE_MODEL, *EXAMPLE]
        self.refuse(USAGE, [*example, "--server", url], "--server: ", "--model")
        self.succeed(*example, env={**program.environment(self.directory), "MC2_SERVER": url})
        self.refuse(USAGE, ["plan", *QUESTION, "--variant", "direct", "--server", url], "--variant")

    def test_addresses_and_tokens_that_are_none(self):
        empty = self.directory / "empty"
        empty.write_text("\n")
        for options, *parts in (
            (["--server", "plans"], "http://127.0.0.1:8471"),
            (["--server", "http://x", "--token-file", empty], "no token in its first line"),
            (["--server", "http://x", "--token-file", self.directory / "none"], "no such file"),
            (["--server", "https://x", "--server-ca", empty.parent], "trusted certificates"),
            (["--server", "http://x", "--server-wait", "0"], "--server-wait"),
        ):
            self.refuse(USAGE, ["plan", *QUESTION, *options], *parts)
        self.refuse(USAGE, ["push", *QUESTION], "MC2_SERVER")


if __name__ == "__main__":
    program.main()
