"""mc2-bench embedding prints its figures. Their values are not tested."""

import re

from bench_program import USAGE, BenchTest, main


class EmbeddingTest(BenchTest):
    def test_prints_lookups_and_the_cost_of_a_run(self):
        page = self.succeed("embedding", "--pairs", 3)
        for line in (
            r"remembered +\d+\.\d{3} us",
            r"planned from the kept model +\d+\.\d{3} us",
            r"any m among \d+ ranges of m +\d+\.\d{3} us",
            r"\n +64 +\d+\.\d{3} us +\d+\.\d{3} us",
        ):
            self.assertTrue(re.search(line, page), f"{line} in\n{page}")
        self.refuse(USAGE, ["embedding", "--pairs", 0], "--pairs")


if __name__ == "__main__":
    main()
