"""mc2 export writes every format. The C++ snippets compile and set the plan's numbers, and formats that can be read
come back as the same plans."""

import csv
import json
import os
import shutil
import subprocess
import unittest
import xml.etree.ElementTree

import program
from program import EXAMPLE, EXAMPLE_MODEL, UNSUPPORTED, USAGE, ProgramTest

FIELDS = [
    "rankDim",
    "tileM",
    "tileNum",
    "tailM",
    "tailNum",
    "tileCnt",
    "tailCnt",
    "rankM",
    "rankN",
    "rankK",
    "isTransposeA",
    "isTransposeB",
    "dataType",
]
# By type, the members of the structs of the three public samples (all_gather_matmul_custom,
# matmul_reduce_scatter_custom, matmul_all_reduce_custom) and of the operator library's RCSTiling.
RCS_SAMPLE = {
    "std::uint32_t": "rankDim rankM rankK rankN isTransposeA isTransposeB tileCnt tailM tailCnt dataType",
    "std::uint8_t": "determinism",
}
SAMPLES = {
    "all_gather_matmul": {"std::uint32_t": "rankM rankN rankK tileNum tailM tailNum"},
    "matmul_reduce_scatter": RCS_SAMPLE,
    "matmul_all_reduce": RCS_SAMPLE | {"std::uint8_t": "determinism useBufferType"},
}
LIBRARY = {
    "std::uint32_t": "rankDim rankID commtype subtype tileCnt tailM tailCnt biasLen isAdd rankM rankN rankK "
    "gatherIndex isTransposeA isTransposeB storageGather workspaceAddr4 aicCoreNum needUbBuffer addX3UbCnt "
    "commWorkSpaceSize isInputCommQuantScale dataType commInt8WorkSpace dynamicQuantTempBuffSize",
    "std::uint64_t": "nd2NzWorkLen cToFloatLen gatherLen",
}
COMPILER = os.environ.get("CXX") or shutil.which("c++")


def stub_program(header, call):
    fields = " ".join(f"std::uint32_t {name} = 0;" for name in FIELDS)
    prints = " ".join(f'std::printf("{name} %u\\n", tiling.{name});' for name in FIELDS)
    return (
        f'#include <cstdint>\n#include <cstdio>\n#include "{header}"\nstruct Tiling {{ {fields} }};\n'
        f"int main() {{ Tiling tiling; std::uint32_t first_group_m = 0; {call} {prints} "
        'std::printf("first_group_m %u\\n", first_group_m); }\n'
    )


def struct_program(header, members, call):
    """A program that sets a struct of these members, each of which is 9 before, and prints them."""
    named = [(kind, name) for kind, names in members.items() for name in names.split()]
    fields = " ".join(f"{kind} {name} = 9;" for kind, name in named)
    prints = " ".join(
        f'std::printf("{name} %llu\\n", static_cast<unsigned long long>(tiling.{name}));' for _, name in named
    )
    return (
        f'#include <cstdint>\n#include <cstdio>\n#include "{header}"\nstruct Tiling {{ {fields} }};\n'
        f"int main() {{ Tiling tiling; std::uint32_t first_group_m = 0; (void)first_group_m; {call} {prints} }}\n"
    )


class ExportTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.plan = self.directory / "plan.json"
        self.succeed("plan", "--model", EXAMPLE_MODEL, "--strategy", "formula", *EXAMPLE, "--out", self.plan)

    def export(self, name, *more):
        file = self.directory / f"out.{name}"
        self.succeed("export", self.plan, "--format", name, *more, "--out", file)
        return file

    def set_by(self, name, call):
        header = self.export(name)
        source, binary = self.directory / "stub.cpp", self.directory / "stub"
        source.write_text(stub_program(header, call))
        subprocess.run([COMPILER, "-std=c++17", "-Wall", "-Wextra", "-Werror", source, "-o", binary], check=True)
        lines = subprocess.run([binary], capture_output=True, text=True, check=True).stdout.splitlines()
        return {name: int(value) for name, value in (line.split() for line in lines)}

    @unittest.skipUnless(COMPILER, "no C++ compiler")
    def test_snippets_compile_and_set_the_published_plan(self):
        sample = self.set_by("ascendc", "set_mc2_tiling(tiling);")
        expected = {
            "rankDim": 8,
            "tileM": 512,
            "tileNum": 1,
            "tailM": 896,
            "tailNum": 4,
            "rankM": 4096,
            "rankN": 8192,
            "rankK": 3072,
            "dataType": 3,
        }
        self.assertEqual({name: sample[name] for name in expected}, expected)
        library = self.set_by("ascendc-lib", "set_mc2_tiling(tiling, first_group_m);")
        self.assertEqual(
            (library["first_group_m"], library["tileCnt"], library["tailM"], library["tailCnt"]), (512, 1, 896, 4)
        )
        # The fields make the same blocks again, and these blocks the same plan.
        blocks = f"{sample['tileNum']}x{sample['tileM']},{sample['tailNum']}x{sample['tailM']}"
        self.succeed(
            "plan", "--model", EXAMPLE_MODEL, "--blocks", blocks, *EXAMPLE, "--out", self.directory / "again.json"
        )
        again, plan = (json.loads(file.read_text()) for file in (self.directory / "again.json", self.plan))
        self.assertEqual((again["cut"], again["makespan"]["us"]), (plan["cut"], plan["makespan"]["us"]))

    def compile(self, text):
        source, binary = self.directory / "members.cpp", self.directory / "members"
        source.write_text(text)
        done = subprocess.run(
            [COMPILER, "-std=c++17", "-Wall", "-Wextra", "-Werror", source, "-o", binary],
            capture_output=True,
            text=True,
        )
        return binary, done

    def set_members(self, kind, blocks, form, members, call):
        model, header = self.directory / f"{kind}.model", self.directory / f"{kind}.h"
        model.write_text(EXAMPLE_MODEL.read_text().replace("matmul_all_reduce", kind))
        self.succeed("plan", "--model", model, "--blocks", blocks, *EXAMPLE, "--out", self.plan)
        self.succeed("export", self.plan, "--format", form, "--out", header)
        binary, done = self.compile(struct_program(header, members, call))
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = subprocess.run([binary], capture_output=True, text=True, check=True).stdout.splitlines()
        return {name: int(value) for name, value in map(str.split, lines)}

    @unittest.skipUnless(COMPILER, "no C++ compiler")
    def test_the_public_samples_structs_are_set_unchanged(self):
        shapes = {"rankN": 8192, "rankK": 3072}
        gather = self.set_members(
            "all_gather_matmul", "1x448,1x64", "ascendc", SAMPLES["all_gather_matmul"], "set_mc2_tiling(tiling);"
        )
        self.assertEqual(gather, shapes | {"rankM": 512, "tileNum": 1, "tailM": 64, "tailNum": 1})
        # In tailM, the sample code counts rows of all 8 ranks.
        operands = shapes | {
            "rankDim": 8,
            "rankM": 4096,
            "isTransposeA": 0,
            "isTransposeB": 0,
            "determinism": 0,
            "dataType": 3,
        }
        scatter = self.set_members(
            "matmul_reduce_scatter",
            "3x128,1x128",
            "ascendc",
            SAMPLES["matmul_reduce_scatter"],
            "set_mc2_tiling(tiling);",
        )
        self.assertEqual(scatter, operands | {"tileCnt": 4, "tailM": 0, "tailCnt": 0})
        reduce = self.set_members(
            "matmul_all_reduce", "512,4x896", "ascendc", SAMPLES["matmul_all_reduce"], "set_mc2_tiling(tiling);"
        )
        self.assertEqual(reduce, operands | {"tileCnt": 1, "tailM": 896, "tailCnt": 4, "useBufferType": 1})

    @unittest.skipUnless(COMPILER, "no C++ compiler")
    def test_what_a_samples_kernel_cannot_run_does_not_compile(self):
        model = self.directory / "gather.model"
        model.write_text(EXAMPLE_MODEL.read_text().replace("matmul_all_reduce", "all_gather_matmul"))
        self.succeed("plan", "--model", model, "--blocks", "64,2x224", *EXAMPLE, "--out", self.plan)
        header = self.export("ascendc")
        _, done = self.compile(struct_program(header, SAMPLES["all_gather_matmul"], "set_mc2_tiling(tiling);"))
        self.assertIn("mc2 plan --blocks 2x224,64", done.stderr)
        _, done = self.compile(struct_program(header, {"int": "m"}, "set_mc2_tiling(tiling);"))
        self.assertIn("this is no struct of a tiling", done.stderr)

    @unittest.skipUnless(COMPILER, "no C++ compiler")
    def test_the_librarys_struct_gets_all_that_a_plan_says(self):
        call = "set_mc2_tiling(tiling, first_group_m);"
        untouched = {
            "rankID",
            "workspaceAddr4",
            "aicCoreNum",
            "needUbBuffer",
            "addX3UbCnt",
            "commWorkSpaceSize",
            "isInputCommQuantScale",
            "commInt8WorkSpace",
            "dynamicQuantTempBuffSize",
        }
        for kind, command, lengths in (
            (
                "all_gather_matmul",
                6,
                {"nd2NzWorkLen": 3072 * 8192 * 2, "cToFloatLen": 0, "gatherLen": 512 * 3072 * 2 * 8},
            ),
            (
                "matmul_reduce_scatter",
                7,
                {"nd2NzWorkLen": 3072 * 8192 * 2, "cToFloatLen": 4096 * 8192 * 2, "gatherLen": 9},
            ),
            ("matmul_all_reduce", 2, {"nd2NzWorkLen": 9, "cToFloatLen": 9, "gatherLen": 9}),
        ):
            with self.subTest(kind=kind):
                blocks = "512,4x896" if kind == "matmul_all_reduce" else "64,2x224"
                found = self.set_members(kind, blocks, "ascendc-lib", LIBRARY, call)
                self.assertEqual({name for name, value in found.items() if value == 9} - set(lengths), untouched)
                self.assertEqual({name: found[name] for name in lengths}, lengths)
                self.assertEqual(
                    (found["commtype"], found["subtype"], found["tileCnt"], found["tailCnt"]),
                    (command, 0, 1, 4 if "512" in blocks else 2),
                )

    @unittest.skipUnless(COMPILER, "no C++ compiler")
    def test_ranges_become_a_function_of_m(self):
        for kind, divisor in (("matmul_all_reduce", 1), ("all_gather_matmul", 8)):
            with self.subTest(kind=kind):
                model, ranges, header = (self.directory / f"{kind}.{part}" for part in ("model", "ranges", "h"))
                model.write_text(EXAMPLE_MODEL.read_text().replace("matmul_all_reduce", kind))
                self.succeed("plan", "--model", model, "--m", "1:16384", "--out", ranges)
                self.succeed("export", ranges, "--format", "ascendc", "--out", header)
                for option, value in (("--rows", 512), ("--model", model)):
                    self.refuse(USAGE, ["export", ranges, "--format", "csv", option, value], option, "ranges of m")
                source, binary = self.directory / "by_m.cpp", self.directory / "by_m"
                source.write_text(
                    stub_program(
                        header,
                        "for (unsigned m = 1; m <= 17000; ++m) { const bool is_set = set_mc2_tiling(tiling, m);"
                        ' std::printf("%u %d %u %u %u %u %u\\n", m, is_set, tiling.tileM, tiling.tileNum, tiling.tailM,'
                        " tiling.tailNum, tiling.rankM); }",
                    )
                )
                subprocess.run(
                    [COMPILER, "-std=c++17", "-Wall", "-Wextra", "-Werror", source, "-o", binary], check=True
                )
                lines = subprocess.run([binary], capture_output=True, text=True, check=True).stdout.splitlines()[:17000]
                found = {int(m): list(map(int, rest)) for m, *rest in map(str.split, lines)}
                expected = dict(self.tilings(json.loads(ranges.read_text()), divisor))
                self.assertEqual({m for m, (is_set, *_) in found.items() if is_set}, set(expected))
                for m, tiling in expected.items():
                    self.assertEqual(found[m][1:5], tiling, f"m={m}")
                    self.assertEqual(found[m][5], m // divisor)

    @staticmethod
    def tilings(ranges, divisor):
        """For each m, [tileM, tileNum, tailM, tailNum] by the rules of schemas/plan_ranges.schema.json."""
        for one in ranges["ranges"]:
            rule = one["rule"]
            for m in range(one["first_m"], one["last_m"] + 1, divisor):
                rows, length = m // divisor, rule["block_length"]
                count = (rows - rule["min_odd_length"]) // length if length else 0
                odd = rows - count * length
                if not count:
                    yield m, [rows, 1, 0, 0]
                else:
                    yield m, [odd, 1, length, count] if rule["is_odd_first"] else [length, count, odd, 1]

    def test_ranges_become_tables(self):
        ranges = self.directory / "ranges.json"
        self.succeed("plan", "--model", EXAMPLE_MODEL, "--m", "65:4096", "--out", ranges)
        count = len(json.loads(ranges.read_text())["ranges"])
        rows = list(csv.DictReader(self.succeed("export", ranges, "--format", "csv").splitlines()))
        self.assertEqual((len(rows), rows[0]["rule"], rows[0]["last_m"]), (count, "do not cut", "255"))
        self.assertEqual(self.succeed("export", ranges, "--format", "markdown").count("\n| "), count + 1)
        self.refuse(
            UNSUPPORTED, ["export", ranges, "--format", "m-table"], "--format: m-table holds plans of one m each"
        )
        for name in "csv", "ascendc":
            table = self.directory / f"ranges.{name}"
            self.succeed("export", ranges, "--format", name, "--out", table)
            self.refuse(USAGE, ["export", table, "--format", name, "--read"], "a table of ranges of m", "not read back")
        ranges.write_text(ranges.read_text().replace('"first_m": 65', '"first_m": 0', 1))
        self.refuse(USAGE, ["export", ranges, "--format", "csv"], "ranges.json", "first_m")

    def test_two_way_formats_give_the_same_bytes(self):
        for name in ("ascendc", "ascendc-lib", "csv", "m-table"):
            with self.subTest(format=name):
                file, back = self.export(name), self.directory / "back.json"
                self.succeed("export", file, "--format", name, "--read", "--out", back)
                self.assertEqual(back.read_bytes(), self.plan.read_bytes())

    def test_tables_say_what_a_neighbour_costs(self):
        file = self.directory / "plans.json"
        self.succeed(
            "export", "--model", EXAMPLE_MODEL, "--rows", "1024:4096:1024", "--format", "m-table", "--out", file
        )
        table = json.loads(file.read_text())
        program.validators()["mc2.plan_table/1"].validate(table)
        self.assertEqual(set(table["plans"]), {"1024", "2048", "3072", "4096"})
        for entry in table["plans"].values():
            self.assertGreater(entry["neighbour_loss"], 0)
            self.assertLess(entry["neighbour_loss"], 0.5)
        one = self.succeed("export", file, "--format", "m-table", "--read", "--m", 2048)
        self.assertEqual(json.loads(one), table["plans"]["2048"]["plan"])
        self.refuse(USAGE, ["export", file, "--format", "m-table", "--read"], "--m: is missing: the file holds 4 plans")

    def test_pictures_open_offline(self):
        html = self.export("html", "--model", EXAMPLE_MODEL).read_text()
        self.assertNotIn("http", html.replace("http://www.w3.org", ""))
        self.assertIn("</svg>", self.export("svg", "--model", EXAMPLE_MODEL).read_text())
        self.assertIn("traceEvents", json.loads(self.export("trace").read_text()))
        png = ["export", self.plan, "--format", "png", "--out", self.directory / "plan.png"]
        if shutil.which("rsvg-convert"):
            self.succeed(*png)
            self.assertTrue((self.directory / "plan.png").read_bytes().startswith(b"\x89PNG"))
        else:
            self.refuse(UNSUPPORTED, png, "rsvg-convert")

    def test_a_picture_is_of_the_format_that_its_name_says(self):
        for picture in ("svg", "html", "trace"):
            out = self.directory / "plan.png"
            self.refuse(USAGE, ["export", self.plan, "--format", picture, "--out", out], "--out", "--format png")
            self.assertFalse(out.exists())
        for out in ([], ["--out", self.directory / "plan.svg"]):
            self.refuse(USAGE, ["export", self.plan, "--format", "png", *out], "--out", "ends in .png")

    def test_a_picture_says_why_a_models_curves_are_not_in_it(self):
        other = json.loads(EXAMPLE_MODEL.read_text())
        other["op"]["n"] = 4096
        file = self.directory / "other.json"
        file.write_text(json.dumps(other))
        done = self.complete("export", self.plan, "--format", "svg", "--model", file, "--store", self.store)
        self.assertNotIn("Fitted cost", done.stdout)
        self.assertIn(
            "mc2: note: the model is of matmul_all_reduce m=4096 n=4096 k=3072 f16 x8, another operator: not shown\n",
            done.stderr,
        )
        self.assertEqual(
            self.complete(
                "export", self.plan, "--format", "svg", "--model", EXAMPLE_MODEL, "--store", self.store
            ).stderr,
            "",
        )

    def test_the_titles_of_a_picture_fit_its_width(self):
        document = json.loads(self.plan.read_text())
        document["fingerprint"] = {"backend": "cuda", "device": "D" * 300}
        self.plan.write_text(json.dumps(document))
        drawing = xml.etree.ElementTree.fromstring(self.export("svg").read_text())
        texts = [text.text for text in drawing.iter("{http://www.w3.org/2000/svg}text")]
        self.assertTrue(any(text.startswith("matmul_all_reduce m=4096") for text in texts))
        # 860 px hold 120 letters of 12 px, each about 0.58 x 12 px wide.
        self.assertLessEqual(max(map(len, texts)), 120)

    def test_one_of_the_rows_is_a_plan_to_draw(self):
        for name in ("svg", "html", "trace"):
            self.succeed(
                "export",
                "--model",
                EXAMPLE_MODEL,
                "--rows",
                2048,
                "--format",
                name,
                "--out",
                self.directory / f"one.{name}",
            )
        self.assertIn("Fitted cost", (self.directory / "one.svg").read_text())
        self.assertIn("m=2048", (self.directory / "one.html").read_text())
        for name in ("svg", "ascendc"):
            self.refuse(
                USAGE,
                ["export", "--model", EXAMPLE_MODEL, "--rows", "2048,4096", "--format", name],
                f"--rows: the format {name} holds one plan; give one m, not 2",
            )
        self.refuse(USAGE, ["export", "--format", "svg"], "PLAN: is missing")

    def test_what_cannot_be_exported(self):
        self.refuse(USAGE, ["export", self.plan, "--format", "yaml"], "unknown format 'yaml'", "ascendc", "png")
        self.refuse(USAGE, ["export", "--format", "csv"], "PLAN: is missing")
        self.refuse(USAGE, ["export", self.plan, "--format", "nccl-tuner"], "--algorithm: is missing")
        for option, value, form, text in (
            ("--m", 5, "csv", "says which plan of a table --read takes"),
            ("--algorithm", "ring", "csv", "belongs to nccl-tuner and hccl-tuner, not to csv"),
            ("--protocol", "ll", "hccl-tuner", "belongs to nccl-tuner, not to hccl-tuner"),
        ):
            self.refuse(USAGE, ["export", self.plan, "--format", form, option, value], f"{option}: {text}")
        for option in ("--rows", "--model"):
            self.refuse(
                USAGE,
                ["export", self.plan, "--format", "ascendc", "--read", option, "512"],
                f"{option}: cannot be combined with --read",
            )
        self.refuse(USAGE, ["export", self.plan, self.plan, "--format", "ascendc"], "give one, not 2")
        self.refuse(
            USAGE, ["export", self.plan, "--format", "html", "--rows", "1:2"][:4] + [self.plan], "give one, not 2"
        )
        self.refuse(UNSUPPORTED, ["export", self.plan, "--format", "markdown", "--read"], "cannot be read back")
        self.refuse(USAGE, ["export", self.plan, "--format", "ascendc", "--read"], "sets no rankDim")
        edited = self.export("ascendc")
        edited.write_text(edited.read_text().replace("tailNum(tiling, 4", "tailNum(tiling, 5"))
        self.refuse(
            USAGE, ["export", edited, "--format", "ascendc", "--read"], "tailNum is 5 where the plan in the file has 4"
        )
        edited.write_text(
            self.export("ascendc")
            .read_text()
            .replace("tailM(tiling, 896", "tailM(tiling, 768")
            .replace("tileM(tiling, 512", "tileM(tiling, 1024")
        )
        done = self.mc2("export", edited, "--format", "ascendc", "--read")
        self.assertEqual(json.loads(done.stdout)["cut"]["block_rows"], [1024] + 4 * [768])
        self.assertIn("note: read from an edited file: tailM is 768", done.stderr)


if __name__ == "__main__":
    program.main()
