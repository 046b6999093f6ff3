"""mc2-bench embedding prints its figures; what they are is no test's business."""

import re

from bench_program import USAGE, BenchTest, main


class EmbeddingTest(BenchTest):
    def test_prints_lookups_and_the_cost_of_a_run(self):
        page = self.succeed("embedding", "--pairs", 3)
        for line in (r"remembered +\d+\.\d\d us", r"planned from the kept model +\d+\.\d\d us", r"\n +64 +\d+\.\d\d us +\d+\.\d\d us"):
            self.assertTrue(re.search(line, page), f"{line} in\n{page}")
        self.refuse(USAGE, ["embedding", "--pairs", 0], "--pairs")


if __name__ == "__main__":
    main()
