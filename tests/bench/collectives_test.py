"""mc2-bench collectives: every variant of the link is checked and timed, and the three timing modes are named."""

import csv

from bench_program import USAGE, BenchTest, main


class CollectivesTest(BenchTest):
    def page_of(self, *arguments):
        return self.succeed("collectives", "--to", 2048, "--budget", 0.01, *arguments)

    def test_shared_memory_shows_every_mechanism_in_every_mode(self):
        chart = self.directory / "chart.svg"
        page = self.page_of("--ranks", 3, "--chart", chart)
        for text in (
            "direct",
            "two_shot",
            "low_latency",
            "ring",
            "push(initiator=proxy)",
            "1 KiB",
            "2 KiB",
            "speed of light",
            "fastest by lane time: ",
            "fastest by throughput: ",
            "fastest by latency: ",
        ):
            self.assertIn(text, page)
        self.assertIn("</svg>", chart.read_text())

    def test_an_emulated_link_has_what_makes_sense_there(self):
        page = self.page_of("--link", "1Gbit,5us")
        self.assertIn("EMULATED", page)
        self.assertIn("fastest by latency: direct", page)
        self.assertNotIn("two_shot", page)

    def test_collectives_of_every_matmul_are_timed(self):
        file = self.directory / "times.csv"
        for kind in ("matmul_reduce_scatter", "all_gather_matmul", "matmul_all_to_all", "all_to_all_matmul"):
            page = self.page_of("--op", kind, "--from", 2048, "--ranks", 3, "--csv", file)
            self.assertIn(f"Collective of {kind} in f32, 3 ranks", page)
            self.assertNotIn("1 KiB", page)
            rows = list(csv.DictReader(file.read_text().splitlines()))
            self.assertEqual({(row["kind"], row["message_bytes"]) for row in rows}, {(kind, "2048")})
            self.assertIn("direct", [row["variant"] for row in rows])
            self.assertTrue(all(float(row["lane_us"]) > 0 for row in rows))

    def test_bad_options_are_refused(self):
        for option, value in (
            ("--to", 1),
            ("--to", "x"),
            ("--budget", 0),
            ("--ranks", 1),
            ("--chart", "a.gif"),
            ("--virtual-compute", "1Gflops"),
            ("--op", "embedding_all_to_all"),
            ("--op", "x"),
        ):
            self.refuse(USAGE, ["collectives", option, value], f"{option}: ")
        self.refuse(USAGE, ["collectives", "--from", 4096, "--to", 2048], "--to: it is smaller than --from")


if __name__ == "__main__":
    main()
