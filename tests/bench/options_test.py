"""The command line of mc2-bench: the list of benchmarks, and options that it refuses before it measures."""

from bench_program import SUCCESS, SYSTEM, UNSUPPORTED, USAGE, BenchTest, main

BENCHMARKS = (
    "overlap",
    "prediction",
    "virtual",
    "shm",
    "planning",
    "sweep",
    "topology",
    "cases",
    "order",
    "operators",
    "transfer",
    "collectives",
    "allreduce",
    "messages",
    "norm",
    "epilogue",
    "embedding",
    "unseen",
    "routing",
    "profiling",
    "all",
    "peers",
    "regret",
)
RACING = ("overlap", "prediction", "virtual", "shm", "operators", "unseen", "routing", "all")


class OptionsTest(BenchTest):
    def test_help_lists_the_benchmarks(self):
        page = self.succeed("--help")
        for name in BENCHMARKS:
            self.assertRegex(page, rf"\n  {name} ")
        self.assertIn("Example:\n  mc2-bench ", page)

    def test_without_a_name_the_benchmarks_are_listed(self):
        done = self.bench()
        self.assertEqual((done.returncode, done.stderr), (SUCCESS, ""))
        self.assertEqual(done.stdout, self.succeed("--help"))

    def test_every_benchmark_has_help(self):
        for name in BENCHMARKS:
            self.assertIn(f"mc2-bench {name} [OPTIONS]", self.succeed(name, "--help"))

    def test_an_unknown_benchmark_is_refused(self):
        self.refuse(USAGE, ["nonsense"], "no command 'nonsense'", "overlap, ", "see mc2-bench --help")

    def test_every_figure_that_races_takes_the_budget_behind_its_name(self):
        for figure in RACING:
            self.refuse(USAGE, [figure, "--race-budget", 0], "--race-budget", "0.1")
        self.refuse(USAGE, ["planning", "--race-budget", 1], "is no option of mc2-bench planning")

    def test_peers_may_be_spelled_as_an_option(self):
        done = self.bench("--backend", "host", "--peers", cwd=self.directory)
        self.assertNotEqual(done.returncode, SUCCESS)
        self.assertIn("gpu_shapes.csv: no such file", done.stderr)
        self.refuse(USAGE, ["--peers", "planning"], "--peers")

    def test_an_output_that_is_an_input(self):
        file = self.directory / "file.json"
        file.write_text("{}")
        self.refuse(
            USAGE,
            ["peers", "--shapes", file, "--json", file],
            f"--json: would replace {file}, which is read; name another file",
        )
        self.assertEqual(file.read_text(), "{}")

    def test_an_output_that_cannot_be_written_is_told_before_the_work(self):
        nowhere = self.directory / "nowhere" / "file.json"
        self.refuse(
            SYSTEM,
            ["peers", "--json", nowhere],
            f"write {nowhere} failed",
            "No such file or directory; nothing was changed",
        )

    def test_comparing_with_mpi_needs_processes_that_share_memory(self):
        done = self.bench("allreduce", "--backend", "mpi")
        if "this build has no MPI" in done.stderr:
            self.skipTest(done.stderr)
        self.assert_refused(done, UNSUPPORTED, "start it with mpirun -np N")


if __name__ == "__main__":
    main()
