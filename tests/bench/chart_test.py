"""mc2-bench profiling --chart: writes the table's figures as an SVG or PNG picture."""

import shutil
import struct
import unittest
import xml.etree.ElementTree

from bench_program import SUCCESS, SYSTEM, UNSUPPORTED, USAGE, BenchTest, environment, main

SVG = "{http://www.w3.org/2000/svg}"
PROFILING = ["profiling", "--truths", 1]
METHODS = ["profile", "grid alone", "grid at random", "brute force"]


class ChartTest(BenchTest):
    def test_svg_shows_every_row_of_the_table(self):
        chart = self.directory / "quality.svg"
        page = self.succeed(*PROFILING, "--chart", chart)
        counts = [int(line.split()[0]) for line in page.splitlines() if line.split()[0].isdigit()]
        drawing = xml.etree.ElementTree.parse(chart).getroot()
        self.assertEqual(drawing.tag, SVG + "svg")
        texts = ["".join(element.itertext()) for element in drawing.iter(SVG + "text")]
        for text in [*METHODS, "number of measurements", "regret, % of the best time", "goal 2 %", "goal 5 %"]:
            self.assertIn(text, texts)
        # One dot each for the median and the worst of each method after each number of measurements.
        self.assertEqual(len(list(drawing.iter(SVG + "circle"))), 2 * len(METHODS) * len(counts))
        self.assertEqual(sorted(path.name for path in self.directory.iterdir()), ["quality.svg"])

    @unittest.skipUnless(shutil.which("rsvg-convert"), "needs rsvg-convert")
    def test_png_is_twice_the_drawing(self):
        drawing, picture = self.directory / "quality.svg", self.directory / "quality.png"
        self.succeed(*PROFILING, "--chart", drawing)
        self.succeed(*PROFILING, "--chart", picture)
        root = xml.etree.ElementTree.parse(drawing).getroot()
        content = picture.read_bytes()
        self.assertEqual(content[:8], b"\x89PNG\r\n\x1a\n")
        width, height = struct.unpack(">II", content[16:24])
        self.assertEqual((width, height), (2 * int(root.get("width")), 2 * int(root.get("height"))))
        self.assertEqual(sorted(path.name for path in self.directory.iterdir()), ["quality.png", "quality.svg"])

    def test_png_without_the_converter_is_refused_before_the_work(self):
        done = self.bench(
            *PROFILING,
            "--chart",
            self.directory / "quality.png",
            env={**environment(self.directory), "PATH": str(self.directory)},
        )
        self.assert_refused(done, UNSUPPORTED, "--chart", "rsvg-convert", ".svg")
        self.assertEqual(done.stdout, "")

    def test_a_converter_that_fails_keeps_the_old_picture(self):
        converter, picture = self.directory / "rsvg-convert", self.directory / "quality.png"
        converter.write_text('#!/bin/sh\n[ "$1" = --version ]\n')
        converter.chmod(0o755)
        picture.write_bytes(b"old")
        done = self.bench(
            *PROFILING, "--chart", picture, env={**environment(self.directory), "PATH": f"{self.directory}:/bin"}
        )
        self.assert_refused(done, SYSTEM, "quality.png", "nothing was changed")
        self.assertEqual(picture.read_bytes(), b"old")
        self.assertEqual(sorted(path.name for path in self.directory.iterdir()), ["quality.png", "rsvg-convert"])

    def test_refuses_names_it_cannot_draw_into(self):
        for name, text in (
            ("chart.jpg", ".svg or .png"),
            ("chart", ".svg or .png"),
            ("", ".svg or .png"),
            ("no/such/chart.svg", "is no directory"),
        ):
            done = self.refuse(USAGE, [*PROFILING, "--chart", name], "--chart", text, cwd=self.directory)
            self.assertEqual(done.stdout, "")

    def test_without_a_chart_nothing_is_written(self):
        self.assertEqual(self.bench(*PROFILING, cwd=self.directory).returncode, SUCCESS)
        self.assertEqual(list(self.directory.iterdir()), [])


if __name__ == "__main__":
    main()
