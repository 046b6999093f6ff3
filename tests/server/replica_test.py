"""Replicas: `mc2 serve --follow` answers as its leader does, keeps answering without it, and takes documents from its
leader alone."""

import concurrent.futures
import copy
import json
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import time

from serving import SHAPE_QUERY, TUNED, Service, ServiceTest, free_port, program

PLAN = f"/v1/plan?{SHAPE_QUERY}"
LISTS = ("/v1/plans", "/v1/models", "/v1/samples", "/v1/measurements", "/v1/fingerprints")


class ReplicaTest(ServiceTest):
    replica_count = 0

    def url(self, service):
        return f"http://127.0.0.1:{service.port}"

    def replica_of(self, leader, *options, store=None, port=0, **environment):
        """A replica with a folder of its own, or on the store of an earlier replica."""
        self.replica_count += 1
        folder = store.parent if store else self.directory / f"replica{self.replica_count}"
        folder.mkdir(exist_ok=True)
        url = leader if isinstance(leader, str) else self.url(leader)
        replica = Service(store or folder / "mc2.db", folder, "--follow", url, *options, port=port, **environment)
        replica.store = store or folder / "mc2.db"
        self.addCleanup(replica.stop)
        return replica

    def other_plan(self, service, reason, k=None):
        plan = copy.deepcopy(service.json("GET", PLAN)["plan"])
        plan["reason"] = reason
        plan["op"]["k"] = k or plan["op"]["k"]
        return plan

    def version(self, service):
        return service.json("GET", "/version")["version"]

    def revision(self, service):
        return service.json("GET", "/readyz")["revision"]

    def wait_until(self, holds, what):
        for _ in range(2000):
            if holds():
                return
            time.sleep(0.01)
        self.fail(what() if callable(what) else what)

    def wait_until_current(self, replica, leader):
        self.wait_until(lambda: self.revision(replica) == self.revision(leader), lambda: replica.log.read_text())

    def assert_same_answers(self, replica, leader):
        for target in (
            PLAN,
            "/v1/plan?m=160&n=64&k=64",
            "/v1/plan/ranges?first_m=64&m=512&n=64&k=64",
            *LISTS,
            f"/v1/changes?since={self.revision(leader) - 1}",
        ):
            ours, theirs = replica.request("GET", target), leader.request("GET", target)
            self.assertEqual(
                (ours[0], ours[1].get("ETag"), ours[2]), (theirs[0], theirs[1].get("ETag"), theirs[2]), target
            )

    def test_answers_are_the_leaders_byte_for_byte(self):
        leader = self.start()
        replica = self.replica_of(leader)
        self.assert_same_answers(replica, leader)
        digest = leader.json("POST", "/v1/plans", self.other_plan(leader, "one"), status=201)["digest"]
        leader.json("POST", "/v1/plans", self.other_plan(leader, "another", k=128), status=201)
        self.wait_until_current(replica, leader)
        self.assert_same_answers(replica, leader)
        self.assertEqual(leader.request("DELETE", f"/v1/plans/{digest}")[0], 204)
        self.wait_until_current(replica, leader)
        self.assert_same_answers(replica, leader)
        self.assertEqual(self.mc2("db", "check", "--store", replica.store).returncode, 0)

    def purposes_in(self, store):
        return {plan["purpose"] for plan in json.loads(self.succeed("db", "export", "--store", store))["plans"]}

    def test_copies_of_answers_are_not_given_on(self):
        leader = self.start()
        replica = self.replica_of(leader)
        epoch = self.revision(leader)
        exported = json.loads(self.succeed("db", "export", "--store", self.store))
        copied = exported["plans"][0]
        copied["purpose"] = "served by http://plans:8471"  # as a client keeps it in the store that it shares
        file = self.directory / "copied.json"
        file.write_text(json.dumps(exported))
        self.succeed("db", "import", file, "--store", self.store)
        self.wait_until(lambda: self.revision(leader) > epoch, "the copy was never seen")
        leader.json("POST", "/v1/plans", self.other_plan(leader, "one", k=128), status=201)
        self.wait_until_current(replica, leader)
        self.assert_same_answers(replica, leader)
        self.assertEqual(len(leader.json("GET", "/v1/plans")["items"]), 2)
        self.assertEqual(self.purposes_in(self.store), {"tuned", copied["purpose"]})
        later = self.replica_of(leader)  # begins with a snapshot of a store that has the copy
        self.assert_same_answers(later, leader)
        for follower in (replica, later):
            self.assertEqual(self.purposes_in(follower.store), {"tuned"})
        told = leader.json("GET", f"/v1/changes?since={epoch}")["changes"]
        self.assertEqual([change["op"]["k"] for change in told], [128])
        leader.json("POST", "/v1/plans", self.other_plan(leader, "another", k=256), status=201)
        for follower in (replica, later):
            self.wait_until_current(follower, leader)
            self.assert_same_answers(follower, leader)
            self.assertEqual(self.succeed("db", "check", "--store", follower.store).count("healthy"), 1)

    def test_ranks_that_ask_different_services_get_one_plan(self):
        leader = self.start()
        replicas = [self.replica_of(leader) for _ in range(2)]
        for turn in range(20):
            leader.json("POST", "/v1/plans", self.other_plan(leader, f"plan {turn}"), status=201)
            answer = leader.request("GET", PLAN)[2]
            for replica in replicas:  # a replica that does not have the plan yet waits for it
                status, _, theirs = replica.request("GET", f"{PLAN}&epoch={json.loads(answer)['epoch']}")
                self.assertEqual((status, theirs), (200, answer))

    def test_documents_are_refused_or_sent_on(self):
        leader = self.start()
        refusing, sending = self.replica_of(leader), self.replica_of(leader, "--forward-writes")
        plan = self.other_plan(leader, "new")
        status, headers, body = refusing.request("POST", "/v1/plans", json.dumps(plan))
        self.assertEqual((status, headers["Allow"]), (405, "GET, HEAD"))
        self.assertIn(self.url(leader), json.loads(body)["detail"])
        digest = leader.json("GET", "/v1/plans")["items"][0]["digest"]
        self.assertEqual(refusing.request("DELETE", f"/v1/plans/{digest}")[0], 405)

        status, headers, body = sending.request("POST", "/v1/plans", json.dumps(plan))
        kept = json.loads(body)["digest"]
        self.assertEqual((status, headers["Location"]), (201, f"/v1/plans/{kept}"))
        self.assertEqual(sending.json("GET", PLAN)["digest"], kept, "at once, and here")
        self.assertEqual(leader.json("GET", PLAN)["digest"], kept)
        tag = {"If-Match": '"' + "0" * 64 + '"'}
        self.assertEqual(sending.request("POST", "/v1/plans", json.dumps(plan), tag)[0], 412)
        self.assertEqual(sending.request("POST", "/v1/plans", "{}")[0], leader.request("POST", "/v1/plans", "{}")[0])
        self.assertEqual(sending.request("DELETE", f"/v1/plans/{kept}")[0], 204)
        self.assertEqual(sending.request("GET", f"/v1/plans/{kept}")[0], 404)
        leader.stop()
        self.assertEqual(sending.request("POST", "/v1/plans", json.dumps(plan))[0], 503)

        refused = self.mc2("db", "import", str(self.store), "--store", refusing.store)
        self.assertNotEqual(refused.returncode, 0)
        kept = self.mc2("db", "prune", "--models", "1s", "--store", refusing.store)
        self.assertIn("is a replica of", kept.stderr)

    def test_without_its_leader_it_answers_and_says_so(self):
        port = free_port()
        leader = self.start(port=port)
        replica = self.replica_of(leader)
        told = lambda: replica.request("GET", PLAN)[1]["Mc2-Replica"]
        self.wait_until(lambda: told().endswith("connected=?1"), told)
        before = replica.request("GET", PLAN)[2]
        leader.stop()
        self.wait_until(lambda: told().endswith("connected=?0"), told)
        time.sleep(0.3)
        behind_ms = int(re.fullmatch(r"behind-ms=(\d+), connected=\?0", told())[1])
        self.assertGreaterEqual(behind_ms, 300)
        self.assertEqual(replica.request("GET", PLAN)[2], before)
        ready = replica.json("GET", "/readyz")["replica"]
        self.assertFalse(ready["connected"])
        self.assertGreaterEqual(ready["behind_ms"], behind_ms)
        metrics = replica.request("GET", "/metrics")[2].decode()
        self.assertIn("\nmc2_replica_connected 0\n", metrics)
        self.assertGreater(float(re.search(r"^mc2_replica_behind_seconds (\S+)$", metrics, re.M)[1]), 0.3)
        self.assertIn("cannot be followed: ", replica.log.read_text())
        replica.stop()
        replica = self.replica_of(self.url(leader), store=replica.store)  # it starts without its leader, too
        self.assertEqual(replica.request("GET", PLAN)[2], before)

        leader = self.start(port=port)
        leader.json("POST", "/v1/plans", self.other_plan(leader, "meanwhile"), status=201)
        self.wait_until_current(replica, leader)
        self.wait_until(lambda: told().endswith("connected=?1"), told)
        self.assert_same_answers(replica, leader)

    def test_a_replica_can_be_followed_and_become_a_leader(self):
        leader = self.start()
        middle = self.replica_of(leader)
        last = self.replica_of(middle)
        leader.json("POST", "/v1/plans", self.other_plan(leader, "new"), status=201)
        self.wait_until_current(last, leader)
        self.assert_same_answers(last, leader)
        middle.stop()
        own = Service(middle.store, middle.store.parent)
        self.addCleanup(own.stop)
        self.assertIn(f"is no replica of {self.url(leader)} any more", own.log.read_text())
        own.json("POST", "/v1/plans", self.other_plan(own, "its own"), status=201)
        own.stop()
        refused = self.mc2("serve", "--port", "0", "--follow", self.url(leader), "--store", middle.store)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("has documents of its own", refused.stderr)

    def test_what_it_cannot_begin_with_is_said(self):
        leader = self.start("--require-tokens")
        fresh = self.directory / "fresh.db"
        for url, words in (
            ("http://127.0.0.1:1", "check that mc2 serve runs there"),
            ("plans", "follow: 'plans' "),
            (self.url(leader), "needs a token, as mc2 token create makes there, and none was given"),
            (self.url(leader), "; set --follow-token-file\n"),
        ):
            done = self.mc2("serve", "--port", "0", "--follow", url, "--store", fresh)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(words, done.stderr)
        for options, words in (
            (("--keep-samples", "1d"), "a replica keeps what its leader keeps"),
            (("--follow-token-file", str(self.directory / "none")), "none"),
        ):
            done = self.mc2("serve", "--port", "0", "--follow", self.url(leader), *options, "--store", fresh)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(words, done.stderr)
        token = self.directory / "leader.token"
        token.write_text("mc2_token\n")
        for options in (("--forward-writes",), ("--follow-token-file", str(token)), ("--follow-ca", "/etc/ca.pem")):
            done = self.mc2("serve", "--port", "0", *options, "--store", fresh)
            self.assertIn(options[0], done.stderr)
            self.assertIn("given together with --follow", done.stderr)

    def token_of(self, role):
        made = self.succeed("token", "create", "--role", role, "--store", self.store)
        file = self.directory / f"{role}.token"
        file.write_text(re.search(r"mc2_\w+", made)[0] + "\n")
        return file

    def test_tokens_are_each_services_own(self):
        read = self.token_of("read")
        leader = self.start()
        self.assertEqual(leader.request("GET", PLAN)[0], 401)
        replica = self.replica_of(leader, "--follow-token-file", read)
        self.assertEqual(replica.request("GET", PLAN)[0], 200, "it has none")
        self.succeed("token", "create", "--role", "read", "--store", replica.store)
        self.wait_until(lambda: replica.request("GET", PLAN)[0] == 401, "its own token counts at once")
        self.assertEqual(leader.request("GET", "/v1/snapshot?version=1")[0], 401)

    def made_at(self, replica, role):
        """The header with a new token of the replica's own store."""
        text = self.succeed("token", "create", "--role", role, "--store", replica.store).strip()
        return {"Authorization": f"Bearer {text}"}

    def test_the_replicas_token_serves_only_who_has_one_of_the_replica(self):
        leader_token = self.token_of("admin")
        leader = self.start()
        sending = self.replica_of(leader, "--follow-token-file", leader_token, "--forward-writes")
        plan = sending.json("GET", PLAN)["plan"]
        plan["reason"] = "sent on"
        text, kept = json.dumps(plan), f"/v1/plans/{sending.json('GET', '/v1/plans')['items'][0]['digest']}"
        for headers in ({}, {"Authorization": "Bearer nonsense"}):
            self.assertEqual(sending.request("POST", "/v1/plans", text, headers)[0], 401)
            self.assertEqual(sending.request("DELETE", kept, None, headers)[0], 401)
        self.assertEqual(sending.request("GET", kept)[0], 200, "nothing was removed, and reading needs no token yet")
        read, write, admin = (self.made_at(sending, role) for role in ("read", "write", "admin"))
        unknown = "/v1/plans/ffffffff"
        self.wait_until(lambda: sending.request("DELETE", unknown, None, admin)[0] == 404, "its tokens are seen")
        self.assertEqual(sending.request("POST", "/v1/plans", text, read)[0], 403)
        self.assertEqual(sending.request("DELETE", kept, None, write)[0], 403)
        self.assertEqual(sending.request("POST", "/v1/plans", text, write)[0], 201)
        listed = json.loads(sending.request("GET", "/v1/plans", None, read)[2])["items"][0]["digest"]
        self.assertEqual(sending.request("DELETE", f"/v1/plans/{listed}", None, admin)[0], 204)

    def test_a_replica_may_do_no_more_than_its_token(self):
        write = self.token_of("write")
        leader = self.start()
        sending = self.replica_of(leader, "--follow-token-file", write, "--forward-writes", "--require-tokens=false")
        plan = sending.json("GET", PLAN)["plan"]
        plan["reason"] = "sent on"
        digest = sending.json("POST", "/v1/plans", plan, status=201)["digest"]
        self.assertEqual(sending.request("DELETE", f"/v1/plans/{digest}")[0], 403, "which takes an admin's token")

    def test_another_store_at_the_leader_is_never_mixed_in(self):
        port = free_port()
        leader = self.start(port=port)
        earlier = self.directory / "earlier.db"
        replica = self.replica_of(leader)
        for turn in range(3):
            if turn == 1:
                self.wait_until_current(replica, leader)
                self.succeed("db", "backup", earlier, "--store", self.store)
            leader.json("POST", "/v1/plans", self.other_plan(leader, f"lost {turn}"), status=201)
        self.wait_until_current(replica, leader)
        leader.stop()
        shutil.copy(earlier, self.store)  # restored from a backup
        told = lambda: replica.request("GET", PLAN)[1]["Mc2-Replica"]
        self.wait_until(lambda: told().endswith("connected=?0"), told)
        replica.process.send_signal(signal.SIGSTOP)  # while the other store reaches the same epoch and goes beyond
        leader = self.start(port=port)
        for turn in range(4):
            leader.json("POST", "/v1/plans", self.other_plan(leader, f"other {turn}"), status=201)
        replica.process.send_signal(signal.SIGCONT)
        self.wait_until(lambda: "is a position of another store" in replica.log.read_text(), "it says so")
        self.assertEqual(replica.json("GET", PLAN)["plan"]["reason"], "lost 2", "what was followed")
        replica.stop()
        replica = self.replica_of(leader, store=replica.store)
        self.wait_until(lambda: "is a position of another store" in replica.log.read_text(), "and again")
        self.assertEqual(replica.json("GET", PLAN)["plan"]["reason"], "lost 2", "which nobody else may have any more")
        anew = self.replica_of(leader)
        self.wait_until_current(anew, leader)
        self.assert_same_answers(anew, leader)

    def other_leader(self, port):
        """A service on this port whose store is another one with the same documents."""
        folder = self.directory / "other"
        folder.mkdir()
        self.succeed("db", "import", TUNED, "--store", folder / "mc2.db")
        other = Service(folder / "mc2.db", folder, port=port)
        self.addCleanup(other.stop)
        return other

    def assert_nothing_is_sent_on(self, replica, leader):
        before = self.revision(leader)
        digest = leader.json("GET", "/v1/plans")["items"][0]["digest"]
        plan = json.dumps(self.other_plan(leader, "of another store"))
        for method, target, body in (("POST", "/v1/plans", plan), ("DELETE", f"/v1/plans/{digest}", None)):
            status, _, answer = replica.request(method, target, body)
            self.assertEqual(status, 503, answer)
            self.assertIn("nothing was sent on, as the leader now has another store", json.loads(answer)["detail"])
        self.assertEqual(leader.request("GET", f"/v1/plans/{digest}")[0], 200)
        self.assertEqual(self.revision(leader), before)

    def test_nothing_is_sent_on_to_another_store(self):
        port = free_port()
        leader = self.start(port=port)
        replica = self.replica_of(leader, "--forward-writes")
        leader.stop()
        other = self.other_leader(port)
        self.wait_until(lambda: "is a position of another store" in replica.log.read_text(), "it says so")
        self.assert_nothing_is_sent_on(replica, other)

    def test_nothing_is_sent_on_to_another_store_that_is_not_known_yet(self):
        port = free_port()
        leader = self.start(port=port)
        replica = self.replica_of(leader, "--forward-writes")
        replica.process.send_signal(signal.SIGSTOP)  # so that it cannot see its leader meanwhile
        leader.stop()
        other = self.other_leader(port)
        replica.process.send_signal(signal.SIGCONT)
        self.assert_nothing_is_sent_on(replica, other)

    def test_a_store_that_is_swapped_unseen_is_noticed(self):
        port = free_port()
        leader = self.start(port=port)
        replica = self.replica_of(leader)
        leader.json("POST", "/v1/plans", self.other_plan(leader, "first"), status=201)
        self.wait_until_current(replica, leader)
        earlier = self.directory / "earlier.db"
        self.succeed("db", "backup", earlier, "--store", self.store)
        plan = self.other_plan(leader, "the very same")
        leader.json("POST", "/v1/plans", plan, status=201)
        self.wait_until_current(replica, leader)
        before = self.revision(replica)
        replica.process.send_signal(signal.SIGSTOP)  # so that it cannot see its leader meanwhile
        leader.stop()
        shutil.copy(earlier, self.store)
        leader = self.start(port=port)
        leader.json("POST", "/v1/plans", plan, status=201)  # the same document under the same epoch
        leader.json("POST", "/v1/plans", self.other_plan(leader, "of another history"), status=201)
        replica.process.send_signal(signal.SIGCONT)
        self.wait_until(lambda: "is a position of another store" in replica.log.read_text(), "it says so")
        self.assertEqual(self.revision(replica), before)

    def test_sigterm_ends_it_soon_whatever_it_waits_for(self):
        silent = socket.create_server(("127.0.0.1", 0))  # takes connections and never answers
        self.addCleanup(silent.close)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        starting = subprocess.Popen(
            [program.MC2, "serve", "--port", "0", "--follow", url, "--store", self.directory / "new.db"],
            stderr=subprocess.DEVNULL,
            env=program.environment(self.directory),
        )
        time.sleep(0.5)
        running = self.replica_of(self.start())
        running.stop()
        waiting = self.replica_of(url, "--forward-writes", store=running.store)  # it keeps what it had
        plan = json.dumps(self.other_plan(waiting, "never kept"))
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            sent = pool.submit(waiting.request, "POST", "/v1/plans", plan)
            time.sleep(0.3)
            start = time.monotonic()
            for process in (starting, waiting.process):
                process.send_signal(signal.SIGTERM)
            self.assertEqual(starting.wait(5), 0)
            self.assertEqual(waiting.process.wait(5), 0)
            self.assertLess(time.monotonic() - start, 5)
            self.assertEqual(sent.result()[0], 503)

    def test_another_mc2_is_not_followed(self):
        leader = self.start()
        status, _, body = leader.request("GET", "/v1/snapshot?version=9.9.9")
        self.assertEqual((status, json.loads(body)["field"]), (400, "version"))
        epoch = self.revision(leader)
        for query, field in (
            ("rows=true", "version"),
            (f"rows=true&version={self.version(leader)}", "rows"),
            (f"rows=true&since={epoch}&nonce=1", "version"),
        ):
            status, _, body = leader.request("GET", f"/v1/changes?{query}")
            self.assertEqual((status, json.loads(body)["field"]), (400, field))
        status, _, body = leader.request(
            "GET", f"/v1/changes?rows=true&since={epoch}&nonce=1&version={self.version(leader)}"
        )
        self.assertEqual((status, json.loads(body)["code"]), (409, "mismatch"))

    def test_a_ring_of_replicas_does_not_send_round(self):
        first = self.replica_of(self.start(), "--forward-writes")
        second = self.replica_of(first, "--forward-writes")
        first.stop()
        first = self.replica_of(second, "--forward-writes", store=first.store)
        second.stop()
        second = self.replica_of(first, "--forward-writes", store=second.store)
        first.stop()
        first = self.replica_of(second, "--forward-writes", store=first.store, port=first.port)
        status, _, body = first.request("POST", "/v1/plans", json.dumps(self.other_plan(first, "round and round")))
        self.assertEqual(status, 503)
        self.assertIn("has come round", json.loads(body)["detail"])

    def test_who_has_fallen_far_behind_begins_anew(self):
        leader = self.start()
        running, stopped = self.replica_of(leader), self.replica_of(leader)
        stopped.stop()
        running.process.send_signal(signal.SIGSTOP)
        with sqlite3.connect(self.store) as connection:
            connection.execute(
                "WITH RECURSIVE turn(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM turn WHERE i < 16400) "
                "INSERT OR REPLACE INTO plan SELECT p.* FROM plan AS p, turn"
            )
        connection.close()
        running.process.send_signal(signal.SIGCONT)
        leader.json("POST", "/v1/plans", self.other_plan(leader, "last"), status=201)
        for replica in (running, self.replica_of(leader, store=stopped.store)):
            self.wait_until_current(replica, leader)
            self.assert_same_answers(replica, leader)

    def test_kills_lose_nothing_and_mix_nothing(self):
        port = free_port()
        leader = self.start(port=port)
        replicas = [self.replica_of(leader) for _ in range(2)]
        url = self.url(leader)
        kept = []
        for turn in range(6):
            for _ in range(5):
                plan = self.other_plan(leader, f"plan {len(kept)}", k=64 + 64 * (len(kept) % 4))
                kept.append(leader.json("POST", "/v1/plans", plan, status=201)["digest"])
            victim = turn % 3
            if victim == 2:
                leader.process.kill()
                leader.process.wait()
                leader = self.start(port=port)
            else:
                replicas[victim].process.kill()
                replicas[victim].process.wait()
                replicas[victim] = self.replica_of(url, store=replicas[victim].store)
        for replica in replicas:
            self.wait_until_current(replica, leader)
            self.assert_same_answers(replica, leader)
            for digest in kept[-4:]:
                self.assertEqual(replica.request("GET", f"/v1/plans/{digest}")[0], 200)

    def test_many_replicas_are_current_soon(self):
        leader = self.start()
        replicas = [self.replica_of(leader, "--access-log", "false") for _ in range(4)]
        plan = self.other_plan(leader, "")
        with concurrent.futures.ThreadPoolExecutor(4) as pool:

            def post(number):
                body = json.dumps({**plan, "reason": f"plan {number}"})
                return leader.request("POST", "/v1/plans", body)[0]

            self.assertEqual(set(pool.map(post, range(200))), {201})
        for replica in replicas:
            self.wait_until_current(replica, leader)
            self.assert_same_answers(replica, leader)


if __name__ == "__main__":
    program.main()
