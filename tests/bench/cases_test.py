"""mc2-bench cases: reads published cases, and names the cell that it cannot read."""

from bench_program import SOURCE_DIRECTORY, USAGE, BenchTest, main

CASES = (SOURCE_DIRECTORY / "data" / "ascend_910b_cases.csv").read_text().splitlines()


class CasesTest(BenchTest):
    def cases(self, *lines):
        file = self.directory / "cases.csv"
        file.write_text("\n".join(lines) + "\n")
        return ["cases", file]

    def changed(self, column, text):
        """The first case with one cell replaced."""
        cells = CASES[1].split(",")
        cells[CASES[0].split(",").index(column)] = text
        return ",".join(cells)

    def test_reproduces_the_published_times(self):
        page = self.succeed(*self.cases(*CASES[:4]))
        row = next(line for line in page.splitlines() if line.split()[:2] == ["all", "3"])
        # Within 0.5 % of both times; the table shows "+0.000 %".
        for cell in row.replace(" %", "").split()[2:4]:
            self.assertLess(abs(float(cell)), 0.5)

    def test_reads_comments_and_windows_line_ends_and_skips_other_columns(self):
        heading = CASES[0] + ",remark\r"
        cases = [case + ',"a, b"\r' for case in CASES[1:4]]
        page = self.succeed(*self.cases("# made elsewhere", heading, "", *cases))
        self.assertEqual(page.replace("\r", ""), self.succeed(*self.cases(*CASES[:4])))

    def test_refuses_what_cannot_be_read_with_its_place(self):
        for column, text, said in (
            ("M", "many", "no whole number"),
            ("ranks", "1", "legal: 2 to"),
            ("mm_us_per_row", "nan", "no finite number"),
            ("comm_factor", "0", "not above 0"),
            ("peer_long_count", "1000000000", "legal: 0 to"),
            ("cut_axis_len", "511", "512 rows"),
            ("op", "matmul", "unknown operator"),
            ("best_us", "-1", "not above 0"),
            ("uncut_us", "", "no finite number"),
        ):
            with self.subTest(column=column):
                self.refuse(USAGE, self.cases(CASES[0], self.changed(column, text)), "cases.csv:2:", column, said)

    def test_refuses_files_without_cases(self):
        self.refuse(USAGE, self.cases(CASES[0]), "cases.csv", "holds no cases")
        self.refuse(USAGE, self.cases(CASES[0].replace("comm_factor", "factor"), CASES[1]), "no column comm_factor")
        self.refuse(USAGE, self.cases(CASES[0], CASES[1] + ",1"), "cases.csv:2:", "20 cells")


if __name__ == "__main__":
    main()
