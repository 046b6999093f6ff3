"""Wrong options and input files are refused in one line that names the field and what would be right, with the
documented exit code."""

import json
import os
import subprocess

import program
from program import MACHINE, NO_ANSWER, QUICK, SHAPE, SYSTEM, UNSUPPORTED, USAGE, ProgramTest

COMMANDS = ("plan", "profile", "fit", "run", "tune")


def shape(**changes):
    """The options of SHAPE with some values changed."""
    sizes = {"m": 96, "n": 64, "k": 64, **changes}
    return [text for name, value in sizes.items() for text in (f"--{name}", value)]


class OptionTest(ProgramTest):
    def test_sizes(self):
        for command in COMMANDS:
            for name in "mnk":
                for value in (0, -1, 1_000_000_001, 10**30, "abc", "1e3", "1.5", "", " 5", "0x10"):
                    with self.subTest(command=command, name=name, value=value):
                        self.refuse(
                            USAGE,
                            [command, *shape(**{name: value}), "--store", self.store],
                            f"--{name}: ",
                            str(value),
                            "1 to 1000000000",
                        )
        self.assertFalse(self.store.exists())

    def test_operands_beyond_64_tib(self):
        self.refuse(USAGE, ["plan", *shape(m=10**9, n=10**9), "--store", self.store], "m, n, k: ", "64 TiB")

    def test_missing_sizes(self):
        for command in ("plan", "run", "tune"):
            self.refuse(
                USAGE, [command, "--n", 64, "--k", 64, "--store", self.store], "--m: is missing", "1 to 1000000000"
            )
        self.refuse(USAGE, ["profile", "--n", 64, "--k", 64], "--m: is missing", "mc2 profile --help")
        self.refuse(USAGE, ["fit", "--store", self.store], "--m, --n, --k", "--profile FILE")

    def test_ranks(self):
        for value, legal in (
            *((few, "2 or more") for few in (0, 1, -2)),
            *((many, "2 to 65536") for many in (65537, 10**9, 10**10, "two")),
        ):
            for command in COMMANDS:
                self.refuse(
                    USAGE,
                    [command, *SHAPE, "--ranks", value, "--store", self.store],
                    "--ranks: ",
                    str(value),
                    f"legal: {legal}",
                )

    def test_more_ranks_than_the_backend_runs(self):
        for command in ("plan", "profile", "fit", "run", "tune"):
            for ranks in (65, 5000):
                self.refuse(
                    UNSUPPORTED,
                    [command, *SHAPE, "--ranks", ranks, "--store", self.store],
                    f"--ranks: is {ranks}; legal on the host backend: 2 to 64",
                )

    def test_names(self):
        for option, legal in (("--op", "matmul_all_reduce"), ("--dtype", "f32, f16, bf16"), ("--backend", "host")):
            for command in COMMANDS:
                for value in ("nope", "", "MATMUL_ALL_REDUCE", "x" * 10_000):
                    self.refuse(USAGE, [command, *SHAPE, option, value, "--store", self.store], f"{option}: ", legal)
        for option, legal in (
            ("--strategy", "search, free, formula, wave_groups"),
            ("--short-block", "largest, smallest"),
        ):
            for command in ("plan", "tune"):
                self.refuse(USAGE, [command, *SHAPE, option, "nope", "--store", self.store], f"{option}: ", legal)

    def test_a_short_block_is_of_the_recipe_alone(self):
        for options in (["smallest"], ["largest"], ["smallest", "--strategy", "free"]):
            self.refuse(
                USAGE,
                ["plan", *SHAPE, *MACHINE, "--short-block", *options, "--store", self.store],
                "--short-block: is of the published recipe alone; add --strategy formula",
            )

    def test_types_the_backend_does_not_run(self):
        self.refuse(UNSUPPORTED, ["tune", *SHAPE, "--dtype", "f16", "--store", self.store], "--dtype: ", "f32")

    def test_what_no_tuning_can_change_is_said_where_tuning_would_be_proposed(self):
        asked = [*SHAPE, "--dtype", "f8e4m3", "--store", self.store]
        for command in ("run", "tune"):
            self.refuse(UNSUPPORTED, [command, *asked], "--dtype: ", "backend cuda may, or use i8 or bf16")
        self.make_empty_store()
        for command in ("plan", "explain"):
            self.refuse(
                NO_ANSWER, [command, *asked], "make one: not on this machine: ", "backend cuda may, or use i8 or bf16"
            )

    def test_links(self):
        for value in (
            "nope",
            "",
            "tcp",
            "tcp:",
            "2.5",
            "2.5Gb",
            "-1Gbit",
            "nanGbit",
            "0Gbit",
            "1e99Gbit",
            "99999Gbit",
            "1Gbit,",
            "1Gbit,20",
            "1Gbit,2h",
            "1Gbit,-1us",
            "1Gbit,9999ms",
            "tcp:1Gbit,20us",
            "1Gbit,1us,1us",
        ):
            for command in COMMANDS:
                self.refuse(
                    USAGE,
                    [command, *SHAPE, "--link", value, "--store", self.store],
                    "--link: ",
                    "shm | RATE[,LATENCY]",
                    "tcp:RATE",
                )

    def test_a_link_beyond_the_legal_range(self):
        for value, wrong in (("1e99Gbit", "has an exponent"), ("9" * 400 + "Gbit", "is outside its legal range")):
            self.refuse(
                USAGE,
                ["plan", *SHAPE, "--link", value, "--store", self.store],
                "--link: the rate ",
                wrong,
                "rate 1kbit..10000Gbit",
            )

    def test_ports(self):
        for value in ("99999", "65536", "-1", "abc"):
            self.refuse(USAGE, ["serve", "--port", value, "--store", self.store], "--port", value, "0 to 65535")
        self.assertFalse(self.store.exists())

    def test_tables(self):
        pooled = ["plan", *SHAPE, "--op", "embedding_all_to_all", "--store", self.store]
        self.refuse(USAGE, pooled, "mc2: --tables: embedding_all_to_all needs the number of a rank's tables")
        self.refuse(USAGE, [*pooled, "--tables", 4], "mc2: --table-rows: is missing")
        self.refuse(USAGE, [*pooled, "--tables", 4, "--table-rows", 9, "--pooling", "max"], "mc2: --pooling: ")
        self.refuse(
            USAGE, ["plan", *SHAPE, "--tables", 4, "--table-rows", 9, "--store", self.store], "mc2: --tables: belong"
        )

    def test_virtual_compute(self):
        for value in ("nope", "90", "-1Gflops", "0Gflops", "1Pflops", "90Gflops,", "90Gflops,x", "90Gflops,9999ms"):
            for command in COMMANDS:
                self.refuse(
                    USAGE,
                    [command, *SHAPE, "--virtual-compute", value, "--store", self.store],
                    "--virtual-compute: ",
                    "RATE[,FIXED]",
                )

    def test_numbers(self):
        cases = [
            ("plan", "--max-blocks", "1 to 1024"),
            ("plan", "--align", "1 to"),
            ("plan", "--min-block", "1 to"),
            ("plan", "--runners-up", "0 to 100"),
            ("plan", "--contention", "1 to 10"),
            ("plan", "--deadline", "0.001 to 86400"),
            ("tune", "--budget", "0.001 to 86400"),
            ("tune", "--precision", "0.0001 to 1"),
            ("tune", "--max-samples", "5 to 10000"),
            ("profile", "--align", "1 to"),
            ("run", "--pairs", "6 to 100000"),
            ("run", "--budget", "0.001 to 86400"),
            ("run", "--seed", "0 to"),
            ("tune", "--seed", "0 to"),
        ]
        for command, option, legal in cases:
            for value in ("-1", "nan", "inf", "abc", "", "1e99", "99999999999999999999"):
                with self.subTest(command=command, option=option, value=value):
                    self.refuse(
                        USAGE, [command, *SHAPE, option, value, "--store", self.store], f"{option}: ", value, legal
                    )

    def test_unknown_options_and_commands(self):
        self.refuse(USAGE, ["plan", *SHAPE, "--frob"], "--frob", "mc2 plan --help")
        self.refuse(USAGE, ["plan", *SHAPE, "extra"], "extra", "mc2 plan --help")
        self.refuse(USAGE, ["plan", "--m"], "--m: needs a value")
        self.refuse(USAGE, ["plan", "--m", "--n", "640", "--k", "64"], "--m: needs a value; see mc2 plan --help")
        started = self.mc2()
        self.assertEqual((started.returncode, started.stderr), (USAGE, ""))
        self.assertIn("mc2 tune --m 1024", started.stdout)
        self.refuse(
            USAGE,
            ["--server", "http://127.0.0.1:1"],
            "name a command",
            "tune, profile, fit, plan, run, explain, sweep, model, db, doctor",
        )
        self.refuse(USAGE, ["tone"], "no command 'tone'; did you mean tune?", "legal: tune, profile, ")
        self.refuse(
            USAGE, ["--store", "a.db", "db", "list"], "--store: belongs after mc2 db list; see mc2 db list --help"
        )
        self.refuse(
            USAGE,
            ["tune", "--bugdet", "3"],
            "--bugdet: is no option of mc2 tune; did you mean --budget?",
            "see mc2 tune --help",
        )
        self.refuse(USAGE, ["frob"], "'frob'", "tune, profile, fit, plan, run, explain, sweep, model, db, doctor")
        self.refuse(USAGE, ["db"], "name a command", "check, stats, list, export, import, merge", "mc2 db --help")
        self.refuse(USAGE, ["db", "frob"], "'frob'", "check, stats, list, export, import, merge")
        self.refuse(USAGE, ["db", "import"], "FILE", "mc2 db import --help")
        self.refuse(USAGE, ["db", "check", "extra"], "extra")
        for epoch in ("-1", "0"):
            self.refuse(USAGE, ["db", "watch", "--since", epoch], "--since", "legal: 1 to")
        self.refuse(USAGE, ["db", "prune", "--store", self.store], "say what to remove")
        for age in ("12", "0d", "-3d", "9999999999d"):
            self.refuse(USAGE, ["db", "prune", "--samples", age, "--store", self.store], "--samples", f'"{age}"', "30d")
        self.refuse(NO_ANSWER, ["db", "watch", "--store", self.directory / "none.db"], "none.db")

    def test_two_sources_of_the_operator(self):
        for command, option in (("run", "--plan"), ("plan", "--request"), ("fit", "--profile")):
            self.refuse(
                USAGE, [command, *SHAPE, option, "file.json", "--store", self.store], f"{option}: ", "leave out --m"
            )
        chosen = ["plan", *SHAPE, *MACHINE, "--blocks", "64,32", "--strategy", "free", "--store", self.store]
        self.refuse(USAGE, chosen, "--blocks", "--strategy")
        for limit in (["--align", 8], ["--min-block", 8], ["--max-blocks", 2], ["--objective", 0.9]):
            for command in ("plan", "run"):
                asked = [command, *SHAPE, *MACHINE, "--blocks", "64,32", *limit, "--store", self.store]
                self.refuse(USAGE, asked, "--blocks", limit[0])
        self.refuse(
            USAGE, ["run", "--plan", "plan.json", "--blocks", "64,32", "--store", self.store], "--plan: ", "--blocks"
        )
        for command in (["run", "--plan", "plan.json"], ["fit", "--profile", "profile.json"], ["explain", "plan.json"]):
            with self.subTest(command=command):
                self.refuse(
                    USAGE,
                    [*command, "--dtype", "bf16", "--ranks", 2, "--store", self.store],
                    "names the operator; leave out --dtype, --ranks",
                )

    def test_machine_options_beside_what_names_a_machine(self):
        example = program.SOURCE_DIRECTORY / "data" / "worked_example_model.json"
        for named in (
            ["plan", *SHAPE, "--device", "ascend-910b"],
            ["plan", *SHAPE, "--topology", "dgx_h100"],
            ["plan", *SHAPE, "--topology", "dgx_h100", "--anchor"],
            ["plan", "--model", example],
            ["model", "Llama-3-8B", "--device", "ascend-910b"],
            ["model", "Llama-3-8B", "--topology", "dgx_h100"],
            ["model", "Llama-3-8B", "--model", example],
            ["sweep", "--topology", "dgx_h100"],
            ["sweep", "--model", example],
            ["fit", *SHAPE, "--device", "ascend-910b"],
            ["fit", "--profile", "profile.json"],
        ):
            option = next(word for word in named if word in ("--device", "--topology", "--model", "--profile"))
            with self.subTest(named=named):
                for asked, told in (
                    (["--backend", "cuda"], "--backend"),
                    ([*MACHINE, "--no-pin"], "--link, --virtual-compute, --no-pin"),
                ):
                    self.refuse(USAGE, [*named, *asked], f"{option}: names the machine; leave out {told}")

    def test_a_deadline_where_nothing_runs(self):
        for command, option in (("plan", "--anchor"), ("explain", "--measure")):
            asked = [command, *SHAPE, *MACHINE, "--deadline", 9, "--store", self.store]
            self.refuse(USAGE, asked, f"--deadline: is for {option}; add it, or leave this out")
        for command in (["fit", *SHAPE], ["sweep"], ["model", "Llama-3-8B"]):
            self.refuse(USAGE, [*command, "--deadline", 9], "--deadline")

    def test_an_output_that_is_an_input(self):
        file = self.directory / "file.json"
        link = self.directory / "link.json"
        link.symlink_to(file)
        file.write_text("{}")
        for command in (
            ["plan", *SHAPE, "--model", file, "--out", link],
            ["plan", *SHAPE, "--topology", file, "--out", file],
            ["plan", "--request", file, "--out", file],
            ["fit", "--profile", file, "--out", file],
            ["export", file, "--format", "html", "--out", file],
            ["export", "--format", "m-table", "--model", file, "--rows", 64, "--out", file],
            ["export", file, "--format", "ascendc", "--read", "--out", file],
            ["explain", file, "--html", file],
            ["explain", *SHAPE, "--model", file, "--html", file],
            ["explain", *SHAPE, "--profile", file, "--html", file],
            ["run", "--plan", file, "--trace", file],
            ["run", *SHAPE, "--counts", file, "--trace", file],
            ["sweep", "--shapes", file, "--out", file],
            ["sweep", "--model", file, "--out", file],
            ["sweep", "--topology", file, "--out", file],
            ["topology", file, "--out", file],
            ["topology", self.directory / "other.json", "--calibrate", file, "--out", file],
        ):
            with self.subTest(command=command):
                self.refuse(USAGE, command, f"{command[-2]}: would replace {file}, which is read; name another file")
                self.assertEqual(file.read_text(), "{}")
        self.assertFalse(self.store.exists())

    def test_an_output_that_cannot_be_written_is_told_before_the_work(self):
        nowhere = self.directory / "nowhere" / "file.json"
        for command in (
            ["run", *SHAPE, *MACHINE, "--blocks", "48,48", "--trace", nowhere],
            ["profile", *SHAPE, *MACHINE, "--out", nowhere],
            ["sweep", "--out", nowhere],
        ):
            with self.subTest(command=command):
                self.refuse(
                    SYSTEM, command, f"write {nowhere} failed", "No such file or directory; nothing was changed"
                )
        self.assertFalse(self.store.exists())

    def test_shapes_and_sizes_together(self):
        self.refuse(USAGE, ["tune", *SHAPE, "--shapes", "shapes.csv", "--store", self.store], "--shapes", "--m")

    def test_more_memory_than_the_machine_has(self):
        self.profiled_and_fitted()
        huge = [*shape(m=10**9), *MACHINE, "--store", self.store]
        self.refuse(UNSUPPORTED, ["tune", *huge, *QUICK], "memory", "TiB")
        self.refuse(UNSUPPORTED, ["profile", *huge, *QUICK], "memory", "TiB")
        self.refuse(UNSUPPORTED, ["run", *huge], "memory", "TiB")


class ModelTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.profiled_and_fitted()

    def test_two_outputs_to_one_file(self):
        file, link = self.directory / "file.txt", self.directory / "link.txt"
        file.write_text("kept")
        link.symlink_to(file)
        log = self.directory / "log.csv"
        log.write_text("blocks,fused_us\n")
        for command, name in (
            (["model", "Llama-3-8B", "--topology", "dgx_h100", "--out", file, "--html", link], "--out, too"),
            (["import", log, "--store", self.store, "--report", file, "--out", file], "--report, too"),
        ):
            self.refuse(USAGE, command, f"{command[-2]}: is the file of {name}")
        self.assertEqual(file.read_text(), "kept")

    def test_blocks(self):
        for command in ("plan", "run"):
            asked = [command, *SHAPE, *MACHINE, "--store", self.store, "--blocks"]
            self.refuse(USAGE, [*asked, "64,16"], "--blocks: ", "sum to 80", "96 rows")
            self.refuse(USAGE, [*asked, "64,33"], "--blocks: ", "sum to more than 96 rows")
            for text in (
                "0,96",
                "-1,97",
                "a",
                ",",
                "64,",
                "64+",
                " ",
                "6 4,32",
                "2x",
                "x48",
                "1025x1",
                "99999999999999999999",
                "64;32",
                "64 32",
            ):
                self.refuse(USAGE, [*asked, text], "--blocks: ", "512,4x896")

    def test_other_operators(self):
        store = ["--store", self.store]
        for changes in ({"n": 32}, {"k": 32}):
            self.refuse(
                NO_ANSWER,
                ["plan", *shape(**changes), *MACHINE, *store],
                "no model",
                "nearest kept: matmul_all_reduce m=96 n=64 k=64",
                *("different: --" + name for name in changes),
            )
            self.refuse(NO_ANSWER, ["run", *shape(**changes), *MACHINE, *store], "no model", "mc2 tune")
            self.refuse(NO_ANSWER, ["fit", *shape(**changes), *MACHINE, *store], "no samples", "m=96 n=64 k=64")
        self.refuse(NO_ANSWER, ["plan", *SHAPE, *MACHINE, "--ranks", 3, *store], "different: --ranks", "--ranks 3")
        model_file = self.directory / "model.json"
        self.succeed("fit", *SHAPE, *MACHINE, *store, "--out", model_file)
        self.refuse(
            NO_ANSWER, ["plan", *shape(n=32), "--model", model_file], "no model of", "n: is 32, profiled was 64"
        )
        self.succeed("plan", *shape(m=1000), "--model", model_file)

    def test_other_machine(self):
        self.refuse(
            NO_ANSWER,
            ["plan", *SHAPE, "--link", "1Gbit,20us", "--store", self.store],
            "no plan and no model",
            "different: the machine",
            "emulation",
        )

    def test_digests(self):
        for name in ("nothing", "abc", "g" * 64, "a" * 65, "a" * 5000):
            self.refuse(USAGE, ["run", "--plan", name, "--store", self.store], "--plan", "hexadecimal")
            self.refuse(USAGE, ["compare", name, name, "--store", self.store], "A: ", "hexadecimal")
            self.refuse(USAGE, ["export", name, "--format", "csv", "--store", self.store], "PLAN: ", "hexadecimal")
        self.refuse(
            NO_ANSWER, ["run", "--plan", "abcdef", "--store", self.store], "--plan", "no plan with digest abcdef"
        )

    def test_outputs_that_cannot_be_written(self):
        for target in (self.directory, self.directory / "no" / "plan.json", "/proc/plan.json"):
            self.refuse(SYSTEM, ["plan", *SHAPE, *MACHINE, "--store", self.store, "--out", target], str(target))
        self.assertFalse(self.directory.with_name(self.directory.name + ".part").exists())
        with open("/dev/full", "w", encoding="utf-8") as full:
            self.refuse(SYSTEM, ["plan", *SHAPE, *MACHINE, "--store", self.store], "standard output", stdout=full)


class FileTest(ProgramTest):
    """Files that are missing, not regular, or hold something else than what is read."""

    READERS = (
        ["plan", *SHAPE, "--model"],
        ["plan", "--request"],
        ["fit", "--profile"],
        ["run", "--plan"],
        ["db", "import"],
    )

    def test_missing_files_and_directories(self):
        for reader in (*self.READERS[:3], self.READERS[4], ["tune", "--shapes"]):
            self.refuse(USAGE, [*reader, self.directory / "no.json", "--store", self.store], "no.json", "no such file")
        for reader in (*self.READERS, ["tune", "--shapes"]):
            self.refuse(USAGE, [*reader, self.directory, "--store", self.store], str(self.directory), "is a directory")

    def test_a_pipe_that_nobody_writes_to_is_waited_for_until_the_first_signal(self):
        pipe = self.directory / "pipe"
        os.mkfifo(pipe)
        command = [program.MC2, "plan", "--model", pipe]
        waiting = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with self.assertRaises(subprocess.TimeoutExpired):
            waiting.communicate(timeout=0.5)
        waiting.terminate()
        _, told = waiting.communicate(timeout=20)
        self.assertEqual(waiting.returncode, 130)
        self.assertIn("pipe: interrupted while it was read", told)

    def test_malformed_json(self):
        deep = "[" * 100_000
        texts = [
            "",
            "{",
            "null",
            "[]",
            "{}",
            '{"schema": "mc2.plan/1"}',
            '{"schema": "mc2.plan/999"}',
            deep,
            "\0" * 100,
            '{"schema": 1e999}',
            "{'schema': 1}",
            '{"schema":\n\n"x",}',
        ]
        file = self.directory / "document.json"
        for reader in self.READERS:
            for text in texts:
                with self.subTest(reader=reader, text=text[:40]):
                    file.write_text(text)
                    self.refuse(USAGE, [*reader, file, "--store", self.store], "document.json: ")
            file.write_bytes(bytes(range(256)) * 50)
            self.refuse(USAGE, [*reader, file, "--store", self.store], "document.json: ")

    def test_wrong_values_in_a_document_are_named(self):
        file = self.directory / "request.json"
        request = {
            "schema": "mc2.request/1",
            "op": {"kind": "matmul_all_reduce", "m": 0, "n": 64, "k": 64, "dtype": "f32", "ranks": 2},
        }
        file.write_text(json.dumps(request))
        self.refuse(USAGE, ["plan", "--request", file, "--store", self.store], "request.json: ", "op")

    def test_a_request_stands_beside_no_option_that_it_settles(self):
        settled = {
            "operator": [
                ["--op", "matmul_all_reduce"],
                ["--k", 64],
                ["--dtype", "f32"],
                ["--ranks", 2],
                ["--bias"],
                ["--residual"],
                ["--norm", "rms"],
                ["--tables", 2],
                ["--table-rows", 2],
                ["--pooling", "sum"],
            ],
            "options": [
                ["--strategy", "formula"],
                ["--align", 64],
                ["--min-block", 64],
                ["--max-blocks", 3],
                ["--runners-up", 2],
                ["--objective", 0.9],
                ["--allow-small-gain"],
                ["--contention", 2],
                ["--short-block", "smallest"],
            ],
        }
        for what, options in settled.items():
            for option in options:
                with self.subTest(option=option):
                    self.refuse(
                        USAGE,
                        ["plan", "--request", "file.json", *option, "--store", self.store],
                        f"--request: names the {what}; leave out {option[0]}",
                    )

    def test_malformed_shapes(self):
        file = self.directory / "shapes.csv"
        good = "m,n,k\n96,64,64\n"
        cases = [
            ("", "holds no shapes"),
            ("m,n,k\n", "holds no shapes"),
            ("# m,n,k\n", "holds no shapes"),
            (good + "96,64\n", "shapes.csv:3:4: ", "2 cells", "3"),
            (good + "96,64,64,1\n", "shapes.csv:3:10: "),
            (good + "96,x,64\n", "shapes.csv:3:4: n: 'x' is no whole number"),
            (good + "96,,64\n", "shapes.csv:3:4: n: "),
            (good + "96,-1,64\n", "shapes.csv:3:4: n: ", "1 to 1000000000"),
            (good + "99999999999999999999,1,1\n", "shapes.csv:3:1: m: "),
            ("m,n,q\n1,1,1\n", "shapes.csv:1:5: 'q'", "ranks"),
            ("m,n\n1,1\n", "shapes.csv:1:1: ", "no column k"),
            ("m,n,k,m\n1,1,1,1\n", "shapes.csv:1:7: 'm' is a column twice"),
            ("m,n,k,dtype\n1,1,1,f99\n", "shapes.csv:2:7: dtype", "bf16"),
            ("m,n,k,op\n1,1,1,x\n", "shapes.csv:2:7: op", "matmul_all_reduce"),
            ("model,layer,parallel,n,k\na,b,row,1,1\n", "shapes.csv: lists layers, as mc2 sweep --shapes takes them"),
            ("m,n,k\n1000000000,1000000000,1\n", "shapes.csv:2:1: ", "64 TiB"),
            ("m,n,k,ranks\n1,1,1,1\n", "shapes.csv:2:7: ranks", "2 to 65536"),
            ('{"m": 1}\n[]\n', "shapes.csv:1:1: "),
            ("\0\x01\x02\n\xff\n", "shapes.csv:1:1: "),
        ]
        for text, *expected in cases:
            with self.subTest(text=text):
                file.write_text(text, encoding="latin-1")
                self.refuse(USAGE, ["tune", "--shapes", file, *MACHINE, "--store", self.store], *expected)
        self.assertFalse(self.store.exists())


if __name__ == "__main__":
    program.main()
