"""mc2-bench topology: reads the published curves."""

from bench_program import SOURCE_DIRECTORY, BenchTest, main


class TopologyTest(BenchTest):
    def test_published_curves(self):
        page = self.succeed("topology", SOURCE_DIRECTORY / "data")
        for name in ("b200_4_nodes_all_reduce", "deepep_low_latency_all_to_all", "p3dn_efa_all_reduce", "calibrated with"):
            self.assertIn(name, page)


if __name__ == "__main__":
    main()
