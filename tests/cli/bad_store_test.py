"""Stores that are damaged, from a newer mc2, read-only, not regular files, or on a full disk. What was kept stays
kept."""

import json
import os
import pathlib
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import tempfile

import program
from program import MACHINE, NEGATIVE, NO_ANSWER, QUICK, SHAPE, STORE, SUCCESS, SYSTEM, USAGE, ProgramTest

FORBIDDEN_USER = 65534  # nobody
TUNED = [*SHAPE, *MACHINE, "--align", "16"]  # the question that the store has a plan for


def limit_files_to(byte_count):
    """Makes writes beyond this file size fail, as they do on a full disk."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (byte_count, byte_count))


class BadStoreTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        """Makes one good store, which every test copies."""
        cls.origin = pathlib.Path(tempfile.mkdtemp(prefix="mc2-cli-"))
        cls.addClassCleanup(shutil.rmtree, cls.origin, ignore_errors=True)
        tuned = subprocess.run(
            [program.MC2, "tune", *TUNED, *QUICK, "--store", cls.origin / "store.db"],
            capture_output=True,
            text=True,
            env=program.environment(cls.origin),
            check=False,
        )
        if tuned.returncode != SUCCESS:
            raise AssertionError(tuned.stderr)

    def setUp(self):
        super().setUp()
        shutil.copy(self.origin / "store.db", self.store)

    def commands(self):
        """Every command that reads the store."""
        asked = [*SHAPE, *MACHINE, "--store", self.store]
        return [
            ["plan", *asked],
            ["run", *asked],
            ["tune", *asked, *QUICK],
            ["profile", *asked, *QUICK],
            ["fit", *asked],
            ["db", "stats", "--store", self.store],
            ["db", "list", "--store", self.store],
        ]

    def assert_refused_untouched(self, code, *texts):
        before = self.store.read_bytes()
        for command in self.commands():
            with self.subTest(command=command):
                self.refuse(code, command, "store.db: ", *texts)
        self.assertEqual(before, self.store.read_bytes())

    def test_a_backup_is_a_store_and_takes_nobodys_place(self):
        copy = self.directory / "copy.db"
        self.assertIn("healthy", self.succeed("db", "backup", copy, "--store", self.store))
        self.assertEqual(
            self.succeed("db", "export", "--store", copy), self.succeed("db", "export", "--store", self.store)
        )
        before = copy.read_bytes()
        self.refuse(USAGE, ["db", "backup", copy, "--store", self.store], "copy.db", "is there already")
        self.assertEqual(copy.read_bytes(), before)
        self.refuse(
            NO_ANSWER, ["db", "backup", self.directory / "other.db", "--store", self.directory / "no.db"], "no.db"
        )
        self.assertFalse((self.directory / "other.db").exists())

    def test_a_backup_of_a_damaged_store_says_so(self):
        with sqlite3.connect(self.store) as database:
            database.execute("UPDATE plan SET document = replace(document, 'm', 'w')")
        database.close()
        done = self.mc2("db", "backup", self.directory / "copy.db", "--store", self.store)
        self.assertEqual(done.returncode, NEGATIVE)
        self.assertIn("DAMAGED", done.stdout)

    def test_truncated(self):
        content = self.store.read_bytes()
        for byte_count in (1, 100, 4096, len(content) // 2, len(content) - 1):
            self.store.write_bytes(content[:byte_count])
            self.assert_refused_untouched(STORE, "move it away")
            self.refuse(STORE, ["db", "check", "--store", self.store], "store.db: ")
        self.store.write_bytes(content[:1])
        self.refuse(
            STORE, ["db", "check", "--store", self.store], "is no mc2 store: it has 1 byte, fewer than any store"
        )

    def test_what_a_truncation_leaves_is_exported(self):
        """Uses an imported store, whose pages are nearly always the same: the last ones hold notes of changes and no
        document."""
        self.store.unlink()
        self.succeed(
            "db", "import", program.SOURCE_DIRECTORY / "data" / "h200_x2" / "store.json", "--store", self.store
        )
        content = self.store.read_bytes()
        for lost_pages in (8, 24, 100):
            self.store.write_bytes(content[: -4096 * lost_pages])
            salvaged = self.directory / f"salvaged-{lost_pages}.json"
            done = self.mc2("db", "export", salvaged, "--store", self.store)
            self.assertEqual(done.returncode, NEGATIVE, done.stderr)
            self.assertIn("mc2: note: not exported: ", done.stderr)
            exported = json.loads(salvaged.read_text())
            self.assertTrue(exported["damages"])
            kept = sum(len(exported[table]) for table in ("models", "plans", "samples", "measurements"))
            report = self.succeed("db", "import", salvaged, "--store", self.directory / f"{lost_pages}.db")
            self.assertIn(f"{kept} added", report)
            self.assertGreater(kept, 0)

    def test_empty(self):
        self.store.write_bytes(b"")
        self.refuse(
            NO_ANSWER,
            ["db", "check", "--store", self.store],
            "store.db: is empty: nothing is kept in it; if something was, restore it from an export or a backup",
        )
        self.refuse(
            NO_ANSWER, ["plan", *SHAPE, *MACHINE, "--store", self.store], "store.db", "nothing is kept there yet"
        )

    def test_random_bytes(self):
        self.store.write_bytes(random.Random(1).randbytes(100_000))
        self.assert_refused_untouched(STORE, "move it away")
        self.refuse(STORE, ["db", "check", "--store", self.store], "store.db: ")

    def test_random_bytes_after_the_first_page(self):
        content = self.store.read_bytes()
        self.store.write_bytes(content[:4096] + random.Random(2).randbytes(len(content) - 4096))
        for command in self.commands():
            self.refuse(STORE, command, "store.db: ")

    def test_a_changed_document_is_noticed(self):
        with sqlite3.connect(self.store) as database:
            database.execute("UPDATE plan SET document = replace(document, 'direct', 'dirext')")
        database.close()
        done = self.mc2("db", "check", "--store", self.store)
        self.assertEqual(done.returncode, NEGATIVE)
        self.assertIn("DAMAGED", done.stdout)
        self.assertIn("plan row 1", done.stdout)
        self.assertIn("damaged plans not listed: 1;", self.mc2("db", "list", "--store", self.store).stderr)
        # The model answers, and the page says that the plan was passed over. Without a model, the damage is the answer.
        planned = self.mc2("plan", *TUNED, "--store", self.store)
        self.assertEqual(planned.returncode, SUCCESS, planned.stderr)
        self.assertIn("note: plan from own planner", planned.stderr)
        self.assertIn("checksum", planned.stderr)
        alone = self.directory / "alone.db"
        alone.write_bytes(self.store.read_bytes())
        with sqlite3.connect(alone) as database:
            database.execute("DELETE FROM model")
        database.close()
        self.refuse(STORE, ["run", *TUNED, "--store", alone], "alone.db: ", "checksum")
        salvaged = self.directory / "salvaged.json"
        exported = self.mc2("db", "export", salvaged, "--store", self.store)
        self.assertEqual(exported.returncode, NEGATIVE, exported.stderr)
        self.assertIn("not exported: plan row 1: ", exported.stderr)
        self.assertTrue(json.loads(salvaged.read_text())["models"])
        tuned = self.tuned(*TUNED, *QUICK, "--store", self.store)
        self.assertIn("plan in row 1 is damaged", tuned.stderr)
        self.assertIn("the new plan replaces it", tuned.stderr)
        self.succeed("run", *TUNED, "--pairs", 6, "--store", self.store)

    def test_newer_version(self):
        database = sqlite3.connect(self.store)
        database.execute("PRAGMA user_version = 999")
        database.close()
        self.assert_refused_untouched(STORE, "999", "newer")
        self.refuse(STORE, ["db", "check", "--store", self.store], "newer")

    def test_a_wrong_schema_number(self):
        for number, table in ((5, "replica of schema 6"), (1, "revision of schema 2")):
            with sqlite3.connect(self.store) as database:
                database.execute(f"PRAGMA user_version = {number}")
            database.close()
            wrong = f"its schema number is {number}, and table {table} is there"
            done = self.mc2("db", "check", "--store", self.store)
            self.assertEqual(done.returncode, NEGATIVE, done.stdout)
            self.assertIn("DAMAGED", done.stdout)
            self.assertIn(wrong, done.stdout)
            self.refuse(STORE, ["plan", *SHAPE, *MACHINE, "--store", self.store], "store.db: ", wrong)

    def test_database_of_another_program(self):
        self.store.unlink()
        database = sqlite3.connect(self.store)
        database.execute("CREATE TABLE plan (id INTEGER)")
        database.commit()
        database.close()
        self.assert_refused_untouched(STORE)

    def test_no_file(self):
        for path, text in (
            (self.directory, "is a directory"),
            ("/dev/null", "not a regular file"),
            (self.store / "inner.db", "is a file, not a directory"),
        ):
            self.refuse(USAGE, ["plan", *SHAPE, *MACHINE, "--store", path], text)
        for command in ("check", "stats", "list", "export"):
            self.refuse(NO_ANSWER, ["db", command, "--store", self.directory / "no.db"], "no.db")
        self.refuse(NO_ANSWER, ["db", "merge", self.directory / "no.db", "--store", self.store], "no.db")
        self.refuse(NO_ANSWER, ["db", "prune", "--models", "1d", "--store", self.directory / "no.db"], "no.db")
        self.assertFalse((self.directory / "no.db").exists())

    def test_exports_and_stores_are_told_apart(self):
        exported = self.directory / "export.json"
        self.succeed("db", "export", exported, "--store", self.store)
        self.refuse(USAGE, ["db", "merge", exported, "--store", self.store], "add the content of an export with")
        self.refuse(USAGE, ["db", "import", self.store, "--store", self.store], "add its content with mc2 db merge")

    def test_a_large_export_is_read_back(self):
        exported, other = self.directory / "export.json", self.directory / "other.db"
        self.succeed("db", "export", exported, "--store", self.store)
        with exported.open("a") as file:
            file.write(" " * (65 << 20))
        self.succeed("db", "import", exported, "--store", other)

    def test_import_of_half_an_export_changes_nothing(self):
        exported = self.directory / "export.json"
        self.succeed("db", "export", exported, "--store", self.store)
        exported.write_text(exported.read_text()[:-100])
        self.refuse(USAGE, ["db", "import", exported, "--store", self.directory / "other.db"], "export.json: ")
        self.assertFalse((self.directory / "other.db").exists())
        before = self.store.read_bytes()
        self.refuse(USAGE, ["db", "import", exported, "--store", self.store], "export.json: ")
        self.assertEqual(before, self.store.read_bytes())

    def test_read_only(self):
        if os.geteuid() != 0:
            self.store.chmod(0o400)
            self.directory.chmod(0o500)
            self.addCleanup(self.directory.chmod, 0o700)
            self.assert_read_only(program.MC2)
            return
        copied = shutil.copy(program.MC2, self.directory / "mc2")  # others may not be allowed to read the build folder
        self.directory.chmod(0o755)
        self.store.chmod(0o644)
        self.assert_read_only(copied, user=FORBIDDEN_USER, group=FORBIDDEN_USER, extra_groups=[])

    def test_reading_commands_need_no_writable_folder(self):
        self.directory.chmod(0o755)
        self.store.chmod(0o644)
        identity = {"user": FORBIDDEN_USER, "group": FORBIDDEN_USER, "extra_groups": []} if os.geteuid() == 0 else {}
        copied = shutil.copy(program.MC2, self.directory / "mc2") if identity else program.MC2
        if not identity:
            self.directory.chmod(0o500)
            self.addCleanup(self.directory.chmod, 0o700)
        before = self.store.read_bytes()
        for command in (["plan"], ["explain"], ["run", "--pairs", "6"]):
            with self.subTest(command=command):
                asked = [copied, *command, *TUNED, "--store", self.store]
                try:
                    done = subprocess.run(
                        asked,
                        capture_output=True,
                        text=True,
                        env=program.environment("/nonexistent"),
                        check=False,
                        timeout=120,
                        **identity,
                    )
                except PermissionError as error:
                    self.skipTest(f"cannot run as another user: {error}")
                self.assertEqual(done.returncode, SUCCESS, done.stderr)
        self.assertEqual(before, self.store.read_bytes())

    def test_a_store_that_may_not_be_read(self):
        if os.geteuid() == 0:
            copied = shutil.copy(program.MC2, self.directory / "mc2")
            identity = {"user": FORBIDDEN_USER, "group": FORBIDDEN_USER, "extra_groups": []}
        else:
            copied, identity = program.MC2, {}
        self.directory.chmod(0o755)
        self.store.chmod(0)
        for command in ("check", "stats", "list", "export"):
            try:
                done = subprocess.run(
                    [copied, "db", command, "--store", self.store],
                    capture_output=True,
                    text=True,
                    env=program.environment("/nonexistent"),
                    check=False,
                    timeout=120,
                    **identity,
                )
            except PermissionError as error:
                self.skipTest(f"cannot run as another user: {error}")
            self.assert_refused(done, STORE, "store.db: ", "cannot be read")

    def test_a_skipped_layer_is_told_once(self):
        """The system store is no store. Only these commands see it, mounted over /usr/share."""
        unshare, share = shutil.which("unshare"), self.directory / "share"
        (share / "mc2").mkdir(parents=True)
        (share / "mc2" / "store.db").write_text("no database" * 1000)
        if os.geteuid() != 0 or unshare is None:
            self.skipTest("only root can mount over /usr/share")
        for command in ("fit", "plan", "explain", "run", "profile"):
            with self.subTest(command=command):
                extra = ["--pairs", "6"] if command == "run" else QUICK if command == "profile" else []
                what = [*SHAPE, *MACHINE] if command == "fit" else TUNED
                asked = [command, *what, *extra, "--store", str(self.store)]
                script = f"mount --bind {share} /usr/share || exit 77; exec {program.MC2} {' '.join(asked)}"
                done = program.measured(
                    lambda: subprocess.run(
                        [unshare, "--mount", "sh", "-c", script],
                        capture_output=True,
                        text=True,
                        timeout=120,
                        env=program.environment(self.directory),
                        check=False,
                    )
                )
                if done.returncode == 77 or "unshare" in done.stderr:
                    self.skipTest(f"cannot mount over /usr/share: {done.stderr.strip()}")
                self.assertEqual(done.returncode, SUCCESS, done.stderr)
                self.assertEqual(done.stderr.count("mc2: note: skipped: "), 1, done.stderr)

    def test_a_named_store_replaces_the_users_own(self):
        own, empty = self.directory / "mc2" / "store.db", self.directory / "empty.db"
        own.parent.mkdir()
        shutil.copy(self.store, own)
        self.succeed("plan", *TUNED)
        shutil.copy(self.store, empty)
        with sqlite3.connect(empty) as database:
            database.execute("DELETE FROM model")
            database.execute("DELETE FROM plan")
        refused = ["plan", *SHAPE, *MACHINE, "--store", empty]
        self.refuse(NO_ANSWER, refused, "empty.db", "no model", "samples of matmul_all_reduce m=96", "mc2 fit --m 96")
        with sqlite3.connect(empty) as database:
            database.execute("DELETE FROM sample_batch")
        database.close()
        self.refuse(NO_ANSWER, refused, "empty.db", "no model", "nothing is kept there yet")
        self.refuse(
            NO_ANSWER,
            ["explain", *SHAPE, *MACHINE],
            "empty.db",
            env={**program.environment(self.directory), "MC2_STORE": str(empty)},
        )

    def test_a_store_that_is_not_there_is_not_made_by_reading(self):
        missing = self.directory / "typo" / "store.db"
        for command in (
            ["plan", *SHAPE, *MACHINE],
            ["run", *SHAPE, *MACHINE],
            ["run", *SHAPE, *MACHINE, "--blocks", "96"],
            ["explain", *SHAPE, *MACHINE],
            ["explain", "0123456789"],
        ):
            with self.subTest(command=command):
                self.refuse(NO_ANSWER, [*command, "--store", missing], f"{missing}: there is no such store")
                self.refuse(
                    NO_ANSWER,
                    command,
                    f"{missing}: there is no such store",
                    env={**program.environment(self.directory), "MC2_STORE": str(missing)},
                )
        self.assertFalse(missing.parent.exists())
        plan = self.directory / "plan.json"
        self.succeed("plan", *TUNED, "--store", self.store, "--out", plan)
        self.succeed("run", "--plan", plan, *MACHINE, "--pairs", 6, "--store", missing)  # keeps what it measures
        self.assertTrue(missing.exists())

    def test_import_keeps_what_is_valid(self):
        exported = self.directory / "export.json"
        self.succeed("db", "export", exported, "--store", self.store)
        content = json.loads(exported.read_text())
        content["plans"][0]["document"]["makespan"]["us"] = -5.0
        content["samples"][0]["document"]["samples"][0]["time_ns"] = 0
        exported.write_text(json.dumps(content))
        other = self.directory / "other.db"
        done = self.mc2("db", "import", exported, "--store", other)
        self.assertEqual(done.returncode, NEGATIVE, done.stderr)
        self.assertIn(", 2 not taken", done.stdout)
        self.assertIn("refused: plans[0].document.makespan.us: is -5 us; legal: 0 to 1e15", done.stdout)
        self.assertIn("refused: samples[0].document.samples[0].time_ns: expected a whole number from 1", done.stdout)
        self.assertIn("healthy", self.succeed("db", "check", "--store", other))
        self.succeed("plan", *SHAPE, *MACHINE, "--store", other)  # planned from the model, which was imported

    def test_a_clock_that_was_set_back_is_told(self):
        exported, other = self.directory / "export.json", self.directory / "other.db"
        self.succeed("db", "export", exported, "--store", self.store)
        content = json.loads(exported.read_text())
        for model in content["models"]:
            model["created_at"] = "2093-12-24T10:00:00Z"
        exported.write_text(json.dumps(content))
        self.succeed("db", "import", exported, "--store", other)
        told = "has documents of 2093-12-24T10:00:00Z, which is later than this machine's clock says"
        planned = self.mc2("plan", *SHAPE, *MACHINE, "--store", other)
        self.assertEqual(planned.returncode, SUCCESS, planned.stderr)
        self.assertEqual(planned.stderr.count(told), 1, planned.stderr)
        self.assertIn(told, " ".join(self.succeed("doctor", "--store", other).split()))
        self.assertNotIn("clock says", self.mc2("plan", *SHAPE, *MACHINE, "--store", self.store).stderr)

    def test_a_damaged_model_is_no_missing_one(self):
        with sqlite3.connect(self.store) as database:
            database.execute("UPDATE model SET document = replace(document, 'direct', 'dirext')")
        database.close()
        asked = ["plan", *TUNED, "--store", self.store]
        self.assertEqual(self.mc2(*asked).returncode, SUCCESS)  # the tuned plan is not damaged
        self.refuse(STORE, [*asked, "--max-blocks", 3], "store.db: ", "checksum")
        layers = self.directory / "layers.csv"
        layers.write_text("model,layer,parallel,n,k,dtype\ntiny,only,row,64,128,f32\n")
        done = self.mc2(
            "sweep",
            "--shapes",
            layers,
            "--ranks",
            "2",
            "--m",
            "96",
            "--kinds",
            "matmul_all_reduce",
            *MACHINE,
            "--store",
            self.store,
            "--max-blocks",
            3,
            "--csv",
        )
        self.assertEqual(done.returncode, NO_ANSWER, done.stderr)
        self.assertIn("corrupt", done.stdout)

    def assert_read_only(self, program_path, **identity):
        def call(*arguments):
            return subprocess.run(
                [str(text) for text in (program_path, *arguments, "--store", self.store)],
                capture_output=True,
                text=True,
                env=program.environment("/nonexistent"),
                check=False,
                timeout=120,
                **identity,
            )

        before = self.store.read_bytes()
        try:
            read = call("db", "stats")
        except PermissionError as error:
            self.skipTest(f"cannot run as another user: {error}")
        self.assertEqual(read.returncode, SUCCESS, read.stderr)
        for command in ("profile", "tune", "fit"):
            quick = QUICK if command != "fit" else []
            self.assert_refused(
                call(command, *SHAPE, *MACHINE, *quick), STORE, str(self.directory), "cannot be written"
            )
        self.assertEqual(before, self.store.read_bytes())

    def test_disk_full_in_a_growing_file(self):
        count = self.sample_count()
        size = self.store.stat().st_size
        other = ["--m", "80", "--n", "64", "--k", "64", *MACHINE, *QUICK, "--align", "16", "--store", self.store]
        for room in (0, 4096):
            done = self.mc2("tune", *other, preexec_fn=limit_files_to(size + room))
            done.stderr = done.stderr.splitlines()[-1]  # under other load tuning has more to say before
            self.assert_refused(done, STORE, "store.db: ", "nothing already kept was lost")
        self.assert_healthy()
        self.assertGreaterEqual(self.sample_count(), count)
        self.tuned(*other)

    def test_disk_full_on_a_small_file_system(self):
        unshare, file_system = shutil.which("unshare"), self.directory / "small"
        file_system.mkdir()
        place = f"--store {file_system}/store.db"
        quick = " ".join([*MACHINE, *QUICK, "--align", "16"])
        script = (
            f"mount -t tmpfs -o size=256k tmpfs {file_system} || exit 77\n"
            f"{program.MC2} profile --m 96 --n 64 --k 64 {quick} {place} || exit 78\n"
            f"cat /dev/zero > {file_system}/filler 2> {self.directory}/full\n"
            f"{program.MC2} profile --m 80 --n 64 --k 64 {quick} {place}; code=$?\n"
            f"rm {file_system}/filler; {program.MC2} db check {place} || exit 79\n"
            f'{program.MC2} db export {place} | grep -q \'"samples":.{{"created_at"\' || exit 80\n'
            f"exit $code\n"
        )
        if os.geteuid() != 0 or unshare is None:
            self.skipTest("only root can mount a small file system")
        # In a chroot or an unprivileged container not even root may make a mount namespace.
        probe = subprocess.run([unshare, "--mount", "true"], capture_output=True, text=True, timeout=60, check=False)
        if probe.returncode != 0:
            self.skipTest(f"cannot enter a mount namespace: {probe.stderr.strip()}")
        done = subprocess.run(
            [unshare, "--mount", "sh", "-c", script],
            capture_output=True,
            text=True,
            timeout=120,
            env=program.environment(self.directory),
            check=False,
        )
        if done.returncode == 77:
            self.skipTest(f"cannot mount a small file system: {done.stderr.strip()}")
        self.assert_refused(done, STORE, "store.db: ", "the disk is full", "nothing already kept was lost")
        self.assertIn("healthy", done.stdout)

    def test_output_file_on_a_full_disk_keeps_the_old_one(self):
        out = self.directory / "plan.json"
        out.write_text("old")
        done = self.mc2("plan", *SHAPE, *MACHINE, "--store", self.store, "--out", out, preexec_fn=limit_files_to(100))
        self.assert_refused(done, SYSTEM, "plan.json")
        self.assertEqual(out.read_text(), "old")
        self.assertFalse((self.directory / "plan.json.part").exists())

    def test_output_on_a_full_device_says_so(self):
        done = self.mc2("plan", *SHAPE, *MACHINE, "--store", self.store, "--out", "/dev/full")
        self.assert_refused(done, SYSTEM, "/dev/full", "(28)", "No space left on device")
        self.assertIn("blocks", done.stdout)

    def test_closed_standard_output(self):
        out = self.directory / "plan.json"
        asked = ["plan", *SHAPE, *MACHINE, "--store", self.store, "--json"]
        done = self.mc2(*asked, "--out", out, stdout=None, preexec_fn=lambda: os.close(1))
        self.assert_refused(done, SYSTEM, "standard output")
        self.assertEqual(out.read_text(), self.succeed(*asked))

    def test_reader_that_leaves_early(self):
        reading, writing = os.pipe()
        os.close(reading)
        done = self.mc2("db", "export", "--store", self.store, stdout=writing)
        os.close(writing)
        self.assertEqual(
            (done.returncode, done.stderr), (128 + signal.SIGPIPE, ""), "as a shell tells of one that SIGPIPE ended"
        )


if __name__ == "__main__":
    program.main()
