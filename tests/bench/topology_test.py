"""mc2-bench topology: reads the published curves."""

import re

from bench_program import SOURCE_DIRECTORY, BenchTest, main


class TopologyTest(BenchTest):
    def test_published_curves(self):
        page = self.succeed("topology", SOURCE_DIRECTORY / "data")
        for name in (
            "b200_4_nodes_all_reduce",
            "deepep_low_latency_all_to_all",
            "p3dn_efa_all_reduce",
            "calibrated with",
        ):
            self.assertIn(name, page)
        for row in re.findall(
            r"^  (\w+) +(yes|no) +\d+ +([\d.]+) % +([\d.]+) % +([\d.]+) % +([\d.]+) %", page, re.MULTILINE
        ):
            with self.subTest(curve=row[0]):
                median, p90, width, inside = (float(cell) for cell in row[2:])
                if (
                    row[1] == "no"
                ):  # the curves for which constants and intervals were chosen; other curves may have any error
                    self.assertGreaterEqual(inside, 90)
                    self.assertLessEqual(width, 2 * p90)
                    self.assertLess(median, 25)


if __name__ == "__main__":
    main()
