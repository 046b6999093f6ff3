"""mc2-bench regret on the host backend."""

import re

from bench_program import BenchTest, main

SHAPE = "m,n,k,op,dtype,ranks\n96,64,64,matmul_all_reduce,f32,2\n"


class RegretTest(BenchTest):
    def regret(self, *arguments, shapes=SHAPE):
        path = self.directory / "shapes.csv"
        path.write_text(shapes)
        return self.bench(
            "regret", "--backend", "host", "--link", "100Mbit,20us", "--shapes", path, "--budget", 2, *arguments
        )

    def plan_count(self, alignment):
        done = self.regret("--alignment", alignment)
        self.assertEqual(done.returncode, 0, done.stderr)
        median, worst = re.search(r"regret: median ([\d.]+) %, worst ([\d.]+) %", done.stdout).groups()
        self.assertEqual(median, worst)  # one shape
        return int(re.search(r"f32 x2 +(\d+)", done.stdout).group(1))

    def test_every_cut_races_with_every_variant(self):
        variant_count = self.plan_count(96)  # uncut only
        count = self.plan_count(32)
        self.assertGreater(count, variant_count)
        self.assertEqual(count % variant_count, 0)

    def test_shapes_that_cannot_be_read_are_refused(self):
        self.assert_refused(self.regret(shapes="m,n\n1,2\n"), 2, "shapes.csv")


if __name__ == "__main__":
    main()
