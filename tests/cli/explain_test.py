"""mc2 explain: the page, the document and the report, from the worked example and from a tuned shape."""

import html.parser
import json
import re
import xml.etree.ElementTree

import program
from program import EXAMPLE, EXAMPLE_MODEL, MACHINE, NO_ANSWER, QUICK, SHAPE, SYSTEM, USAGE, ProgramTest

FETCHING_TAGS = {
    "script",
    "link",
    "img",
    "iframe",
    "object",
    "embed",
    "audio",
    "video",
    "source",
    "base",
    "form",
    "a",
    "image",
    "use",
    "foreignobject",
    "animate",
    "set",
}
FETCHING_ATTRIBUTES = {"src", "href", "xlink:href", "action", "data", "srcset", "background", "poster"}
EVIL = "<script>alert(1)</script> & \"quoted\" 'single' ]]> \uffff"


class Report(html.parser.HTMLParser):
    """The elements and words of an HTML report. `open` holds the elements that were not closed."""

    VOID = {"meta"}

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.words, self.open = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            raise AssertionError(f"</{tag}> closes nothing that is open")

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(self.words)


class ExplainTest(ProgramTest):
    def plan_file(self, *options, name="plan.json"):
        file = self.directory / name
        self.succeed("plan", "--model", EXAMPLE_MODEL, *EXAMPLE, *options, "--out", file)
        return file

    def changed_plan(self, change, *options):
        """A file with a plan of the worked example that `change` has altered."""
        file = self.plan_file(*options)
        document = json.loads(file.read_text())
        change(document)
        file.write_text(json.dumps(document))
        return file

    def explain(self, *arguments):
        return self.succeed("explain", *arguments, "--all", "--store", self.store)

    def document(self, *arguments):
        """The explanation as JSON, valid by its schema."""
        document = json.loads(self.explain(*arguments, "--json"))
        program.validators()["mc2.explanation/1"].validate(document)
        return document

    def report(self, *arguments):
        """The text of an HTML report, and the Report made from it. Every report must be closed, self-contained and
        well formed."""
        file = self.directory / "report.html"
        self.explain(*arguments, "--html", file)
        text = file.read_text()
        report = Report(text)
        self.assertEqual(report.open, [])
        self.assertFalse(FETCHING_TAGS & set(report.tags))
        self.assertFalse(FETCHING_ATTRIBUTES & {name for name, _ in report.attributes})
        self.assertFalse([name for name, _ in report.attributes if name.startswith("on")])
        found = re.search(r"https?:|//|url\(|@import", text)
        self.assertIsNone(found, found)
        numbers = [
            value for name, value in report.attributes if re.search(r"\b-?(nan|inf)\b", value) and name != "aria-label"
        ]
        self.assertEqual(numbers, [])
        xml.etree.ElementTree.fromstring(text.replace("<!DOCTYPE html>", ""))
        return text, report

    def drawings(self, text):
        """Every chart of a report by its name."""
        charts = (xml.etree.ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL))
        return {chart.find("title").text: chart for chart in charts if chart.find("title") is not None}

    def styles_of_ranges(self, text):
        chart = self.drawings(text)["How far each parameter may move before the decision changes"]
        return {bar.get("class") for bar in chart.iter("rect")}


class WorkedExampleTest(ExplainTest):
    def test_document_agrees_with_the_plan(self):
        file = self.plan_file()
        document = self.document(file, "--model", EXAMPLE_MODEL)
        plan = json.loads(file.read_text())
        self.assertEqual(document["plan"], plan)
        lanes = document["use"]
        self.assertAlmostEqual(lanes["second"]["before_us"], plan["timeline"]["second"][0]["start_us"])
        self.assertAlmostEqual(
            lanes["first"]["after_us"], plan["timeline"]["makespan_us"] - plan["timeline"]["first"][-1]["end_us"]
        )
        for lane in ("first", "second"):
            self.assertAlmostEqual(sum(lanes[lane].values()), plan["makespan"]["us"], places=6)
        parts = {key: value for key, value in document["account"].items() if key != "lane"}
        self.assertAlmostEqual(sum(parts.values()), plan["makespan"]["us"], places=6)
        for loss, loser in zip(document["losses"], plan["runners_up"], strict=True):
            self.assertAlmostEqual(loss["lost_us"], loser["makespan_us"] - plan["makespan"]["us"])
            self.assertAlmostEqual(
                sum(v for k, v in loss["difference"].items() if k != "lane"), loss["lost_us"], places=6
            )

    def test_flips_are_what_planning_says_there(self):
        document = self.document(self.plan_file(), "--model", EXAMPLE_MODEL)
        by_name = {p["parameter"]: p for p in document["sensitivity"]["parameters"]}
        self.assertEqual(len(by_name), 8)
        flip = by_name["communication_block_fixed"]["higher"]["flips"][-1]
        self.assertEqual(flip["kind"], "cut_or_uncut")
        # Just below and just above the flip, which bisection finds within 1 % of the change.
        for factor, is_cut in ((0.98, True), (1.001, False)):
            model = json.loads(EXAMPLE_MODEL.read_text())
            model["variants"][0]["communication"]["fixed_us"] = flip["value"] * factor
            changed = self.directory / "changed.json"
            changed.write_text(json.dumps(model))
            plan = json.loads(self.succeed("plan", "--model", changed, *EXAMPLE, "--json"))
            self.assertEqual(len(plan["cut"]["block_rows"]) > 1, is_cut)

    def test_page(self):
        file = self.plan_file()
        page = self.explain(file, "--model", EXAMPLE_MODEL)
        plan = json.loads(file.read_text())
        for text in (
            "communication bound",
            "head exposed",
            "tail exposed",
            "What would change the decision",
            "uncut",
            "cuts into equal blocks and one odd one compared",
            "the samples are not in the store",
        ):
            self.assertIn(text, page)
        # The reason wraps within its column, which is the last one of the table.
        lines = page.split("\n")
        heading = next(i for i, line in enumerate(lines) if line.endswith("  reason"))
        column = lines[heading].index("reason")
        self.assertIn(
            plan["runners_up"][0]["reason"], program.unwrapped("\n".join(line[column:] for line in lines[heading:]))
        )
        self.assertLessEqual(max(map(len, page.split("\n"))), 80)

    def test_a_screen_says_how_much_may_change(self):
        document = self.document(self.plan_file(), "--model", EXAMPLE_MODEL)
        page = self.succeed("explain", self.plan_file(), "--model", EXAMPLE_MODEL, "--store", self.store)
        lines = page.split("\n")
        self.assertLessEqual(len(lines), 41)  # the last is empty
        self.assertLessEqual(max(map(len, lines)), 80)
        for text in ("communication bound", "What would change it", "Runners-up", "--all shows every table"):
            self.assertIn(text, page)
        said = re.search(
            r"within 1 % of the best plan while compute is ([\d.]+)( or less)? to ([\d.]+)( or more)?",
            program.unwrapped(page),
        )
        lower, higher = (
            next(p for p in document["sensitivity"]["parameters"] if p["parameter"] == "compute_time")[side]
            for side in ("lower", "higher")
        )
        for place, mark, excursion in ((1, 2, higher), (3, 4, lower)):  # the factor is of times, a speed is 1 over it
            factor = excursion.get("one_percent_value")
            self.assertAlmostEqual(
                float(said[place]), 1 / (factor or excursion["end_value"]), delta=0.06 * float(said[place])
            )
            self.assertEqual(said[mark] is None, factor is not None)

    def test_a_plan_that_is_not_the_best_stays_within_nothing(self):
        file = self.plan_file("--blocks", "10x192,2176")
        asked = ["explain", file, "--model", EXAMPLE_MODEL, "--store", self.store]
        page = program.unwrapped(self.succeed(*asked))
        self.assertRegex(page, r"would be faster: .* \([\d.]+ % more\)")
        self.assertNotIn("stays within 1 %", page)
        everything = self.succeed(*asked, "--all")
        self.assertNotIn("stays within 1 %", program.unwrapped(everything))
        self.assertRegex(everything, r"(?m)^  compute time +x1 .* today$")
        text, report = self.report(file, "--model", EXAMPLE_MODEL)
        self.assertEqual(self.styles_of_ranges(text), {"tried"})
        self.assertIn("no range is marked as good", report.text)
        self.assertNotIn("this plan is within 1 % of the best", report.text)

    def test_a_measurement_outside_the_interval_is_pointed_out(self):
        def change(plan):
            plan["validation"] = {
                "benefit": 0.1,
                "benefit_high": 0.2,
                "benefit_low": 0.05,
                "fused_us": fused_us,
                "pair_count": 11,
                "serial_us": 1800,
            }

        # The worked example's curves have no interval, so the 90 % interval of its plan is the predicted time alone.
        for fused_us, is_outside in ((json.loads(self.plan_file().read_text())["makespan"]["us"], False), (1500, True)):
            page = self.explain(self.changed_plan(change))
            self.assertIn("(5.0 % to 20.0 %); 95 % intervals, 11 pairs", program.unwrapped(page))
            self.assertEqual("lies outside the predicted 90 % interval" in page, is_outside)

    def test_report_draws_the_plan(self):
        file = self.plan_file()
        text, report = self.report(file, "--model", EXAMPLE_MODEL)
        charts = self.drawings(text)
        self.assertEqual(
            set(charts),
            {
                "When each block is on each lane",
                "Where the makespan goes",
                "How much slower each runner-up is",
                "How far each parameter may move before the decision changes",
                "Fitted cost of a block on the compute lane",
                "Fitted cost of a block on the communication lane",
            },
        )
        plan = json.loads(file.read_text())
        timeline = charts["When each block is on each lane"]
        for lane, spans in (("compute", plan["timeline"]["first"]), ("communication", plan["timeline"]["second"])):
            bars = [bar for bar in timeline.iter("rect") if bar.get("class", "").split()[0] == lane]
            self.assertEqual(len(bars), len(spans))
            ends = [float(bar.get("x")) + float(bar.get("width")) for bar in bars]
            # Both lanes have one scale: px per us is the same for every block.
            left = float(min(timeline.iter("line"), key=lambda line: float(line.get("x1"))).get("x1"))
            scales = [(end - left) / span["end_us"] for end, span in zip(ends, spans, strict=True)]
            self.assertLess(max(scales) / min(scales), 1.001)
        self.assertEqual(self.styles_of_ranges(text), {"tried", "near"})
        self.assertIn("this plan is within 1 % of the best", report.text)
        self.assertIn("No samples", report.text)
        self.assertIn(plan["certificate"]["text"], report.text)

    def test_variants_that_are_the_difference_are_named_in_full(self):
        slices = [f"copy_engine(gemm_sms=132,slices={count},tile=128x128)" for count in (3, 4)]

        def change(plan):
            plan["runners_up"] = [
                {
                    **plan["runners_up"][0],
                    "cut": plan["cut"],
                    "variant": {
                        "name": "copy_engine",
                        "fields": {"gemm_sms": "132", "slices": str(count), "tile": "128x128"},
                    },
                }
                for count in (3, 4)
            ]

        file = self.changed_plan(change)
        text, _ = self.report(file, "--model", EXAMPLE_MODEL)
        chart = self.drawings(text)["How much slower each runner-up is"]
        labels = [label.text for label in chart.iter("text")]
        for name in slices:
            self.assertIn(name, labels)
            self.assertEqual(text.count(f"<td>{name}</td>"), 1)
            self.assertIn(name, self.explain(file, "--model", EXAMPLE_MODEL))

    def test_a_decision_of_the_same_cut_names_its_variant(self):
        model = json.loads(EXAMPLE_MODEL.read_text())
        faster = json.loads(json.dumps(model["variants"][0]))
        faster["variant"]["name"] = "faster"
        faster["communication"]["fixed_us"] = 0
        model["variants"][0]["communication"]["fixed_us"] = 50
        model["variants"].append(faster)
        file = self.directory / "two.json"
        file.write_text(json.dumps(model))
        # Without the fixed cost the two variants are alike, and the first one is as good.
        page = self.explain(self.plan_file(), "--model", file)
        text = program.unwrapped(page)
        self.assertRegex(text, r"by the model as it is, (\S+ )+with faster would be faster")
        self.assertRegex(page, r"fixed cost, +50.0 us +0.0 us: [0-9 x+]+ .*\n +communication +[0-9 x+]+, direct ")

    def test_every_strategy_renders(self):
        for options, expected in (
            (["--strategy", "formula"], "The recipe's steps"),
            (["--blocks", "1024,512,2560"], "blocks given by the caller"),
            (["--blocks", "4096"], "uncut"),
            ([], "Certificate"),
        ):
            for model in ([], ["--model", EXAMPLE_MODEL]):
                with self.subTest(options=options, model=bool(model)):
                    file = self.plan_file(*options)
                    self.document(file, *model)
                    self.assertIn(expected, self.report(file, *model)[1].text)

    def test_without_a_model_says_what_is_missing(self):
        document = self.document(self.plan_file())
        self.assertNotIn("sensitivity", document)
        self.assertTrue(any("--model FILE" in note for note in document["notes"]))
        self.assertTrue(any("--profile FILE" in note for note in document["notes"]))

    def test_a_store_that_cannot_be_read_is_no_reason_to_fail(self):
        self.store.write_text("no database" * 1000)
        document = self.document(self.plan_file(), "--model", EXAMPLE_MODEL)
        self.assertIn("sensitivity", document)
        self.assertTrue(any(note.startswith("the store cannot be read: ") for note in document["notes"]))

    def test_a_model_of_another_operator_is_no_reason_to_fail(self):
        other = json.loads(EXAMPLE_MODEL.read_text())
        other["op"]["n"] = 4096
        file = self.directory / "other.json"
        file.write_text(json.dumps(other))
        document = self.document(self.plan_file(), "--model", file)
        self.assertNotIn("sensitivity", document)
        self.assertIn(
            "the model is of matmul_all_reduce m=4096 n=4096 k=3072 f16 x8, another operator: not shown",
            document["notes"],
        )
        text, _ = self.report(self.plan_file(), "--model", file)
        self.assertFalse([name for name in self.drawings(text) if name.startswith("Fitted cost")])

    def test_a_model_without_the_plans_variant_says_so(self):
        other = json.loads(EXAMPLE_MODEL.read_text())
        other["variants"][0]["variant"]["name"] = "another"
        file = self.directory / "other.json"
        file.write_text(json.dumps(other))
        notes = self.document(self.plan_file(), "--model", file)["notes"]
        self.assertTrue(any(note.startswith("the model does not know the plan's variant, ") for note in notes), notes)


class HostileTest(ExplainTest):
    def test_markup_in_texts_stays_text(self):
        def change(plan):
            plan["fingerprint"] = {"backend": EVIL, "link": EVIL, EVIL: EVIL}
            plan["variant"]["name"] = plan["strategy"] = plan["reason"] = plan["makespan"]["reason"] = EVIL
            plan["certificate"]["text"] = EVIL
            plan["recipe"] = [{"name": EVIL, "text": EVIL, "unit": EVIL, "value": 1}]
            for loser in plan["runners_up"]:
                loser["reason"] = loser["variant"]["name"] = EVIL

        text, report = self.report(self.changed_plan(change))
        self.assertNotIn("<script", text)
        self.assertIn("<script>alert(1)</script> & \"quoted\" 'single'", report.text)

    def test_control_characters_reach_no_terminal(self):
        escape = "\u001b[31mred\u009b"
        places = {
            "variant.name": lambda plan: plan["variant"].update(name=escape),
            "strategy": lambda plan: plan.update(strategy=escape),
            "reason": lambda plan: plan.update(reason="\u0001"),
            "fingerprint.link": lambda plan: plan["fingerprint"].update(link=escape),
            "fingerprint. [31mred": lambda plan: plan["fingerprint"].update({escape: "x"}),
            "certificate.text": lambda plan: plan["certificate"].update(text=escape),
        }
        for place, change in places.items():
            with self.subTest(place=place):
                done = self.refuse(
                    USAGE,
                    ["explain", self.changed_plan(change), "--store", self.store],
                    f"plan.json: {place}",
                    "control characters",
                )
                self.assertNotRegex(done.stdout + done.stderr, "[\u0000-\u0009\u000b-\u001f\u007f-\u009f]")

    def test_long_texts_and_lists_are_clipped(self):
        def change(plan):
            plan["reason"] = "é" * 1_000_000
            plan["runners_up"] = plan["runners_up"][:1] * 20_000

        text, _ = self.report(self.changed_plan(change), "--model", EXAMPLE_MODEL)
        self.assertLess(len(text), 300_000)
        self.assertLess(len(self.explain(self.directory / "plan.json")), 100_000)

    def test_a_billion_rows_in_many_blocks(self):
        def change(plan):
            count = 100_000
            plan["op"].update(m=10**9, n=64, k=64)
            plan["cut"]["block_rows"] = [10**4 - 1, 10**4 + 1] * (count // 2)
            plan["timeline"]["first"] = [{"start_us": i, "end_us": i + 1} for i in range(count)]
            plan["timeline"]["second"] = [{"start_us": i + 1, "end_us": i + 2} for i in range(count)]
            plan["timeline"]["makespan_us"] = count + 1
            plan["makespan"].update(us=count + 1, low_us=count, high_us=count + 2)
            plan["runners_up"] = []  # they are cuts of another m

        file = self.changed_plan(change)
        text, _ = self.report(file, "--model", EXAMPLE_MODEL)
        self.assertLess(len(text), 500_000)
        self.assertIn("100000 blocks", self.explain(file, "--model", EXAMPLE_MODEL))

    def test_plans_that_contradict_themselves(self):
        def pop_span(plan):
            plan["timeline"]["first"].pop()

        def huge(plan):
            plan["makespan"]["us"] = 1e300

        def negative(plan):
            plan["timeline"]["second"][0]["start_us"] = -5

        for change, expected in (
            (pop_span, "timeline.first: has"),
            (huge, "makespan.us: is 1e+300 us; legal: 0 to 1e15"),
            (negative, "timeline.second[0]"),
        ):
            file = self.changed_plan(change)
            self.refuse(USAGE, ["explain", file, "--store", self.store], "plan.json: ", expected)

    def test_numbers_that_json_does_not_have(self):
        file = self.plan_file()
        for wrong in ("NaN", "Infinity", "1e999"):
            file.write_text(re.sub(r'"serial_us": [^,]*', f'"serial_us": {wrong}', file.read_text()))
            self.refuse(USAGE, ["explain", file, "--store", self.store], "plan.json: ")

    def test_wrong_arguments(self):
        store = ["--store", self.store]
        self.refuse(USAGE, ["explain", *store], "PLAN: is missing", "--m, --n and --k")
        self.refuse(USAGE, ["explain", "abc", *store], "PLAN: 'abc' is no file", "hexadecimal")
        elsewhere = ["explain", "abcdef012345", "--accept-other-machine", *store]
        self.refuse(USAGE, elsewhere, "--accept-other-machine: is for --measure")
        self.make_empty_store()
        self.refuse(NO_ANSWER, ["explain", "abcdef012345", *store], "PLAN: ", "no plan with digest")
        self.refuse(USAGE, ["explain", "abcdef", *SHAPE, *store], "PLAN: names the operator", "leave out --m")
        self.refuse(USAGE, ["explain", "abcdef", *MACHINE, *store], "PLAN: names the machine", "leave out --")
        self.refuse(NO_ANSWER, ["explain", *SHAPE, *store], "no plan and no model", "make one: mc2 tune")
        file = self.plan_file()
        self.refuse(USAGE, ["explain", file, "--model", self.directory / "no.json", *store], "no.json", "no such file")
        self.refuse(USAGE, ["explain", file, "--profile", file, *store], "plan.json: ", "mc2.profile/1")
        self.refuse(USAGE, ["explain", file, "--align", "0", *store], "--align: ", "1 to")
        self.refuse(NO_ANSWER, ["explain", file, "--measure", *store], "--measure: ", "made for another machine")
        self.refuse(SYSTEM, ["explain", file, "--html", self.directory / "no" / "x.html", *store], "x.html")


class TunedTest(ExplainTest):
    ASKED = (*SHAPE, *MACHINE, "--align", 16)

    def setUp(self):
        super().setUp()
        self.tuned(*self.ASKED, *QUICK, "--store", self.store)

    def test_kept_plan_with_samples_and_a_measured_run(self):
        text, report = self.report(*self.ASKED, "--measure")
        document = self.document(*self.ASKED, "--measure")
        plan = document["plan"]
        count = len(plan["cut"]["block_rows"])
        self.assertEqual(len(document["measured"]["timeline"]["first"]), count)
        self.assertEqual(document["measured"]["timeline"]["first"][0]["start_us"], 0)
        charts = self.drawings(text)
        bars = [
            bar
            for bar in charts["When each block is on each lane"].iter("rect")
            if bar.get("class", "").split()[0] == "compute"
        ]
        self.assertGreater(len(bars), count)  # bars narrower than 2 px are merged
        for lane in ("compute", "communication"):
            circles = list(charts[f"Fitted cost of a block on the {lane} lane"].iter("circle"))
            # Every sample is in the plot of times and in the plot of residuals.
            self.assertGreater(len(circles), 10)
            self.assertEqual(len(circles) % 2, 0)
        self.assertIn("EMULATED", report.text)
        self.assertEqual(document["notes"], [note for note in document["notes"] if "not in the store" not in note])

    def test_a_measured_timeline_stands_on_the_page(self):
        asked = ["explain", *SHAPE, *MACHINE, "--store", self.store]
        lanes = r"( +(compute|communication) .*\n){2} +0 +\S+ [mu]s\n"
        page = self.succeed(*asked, "--measure")
        self.assertRegex(page, rf"\n  measured, slowest rank\n{lanes}  predicted\n{lanes}")
        self.assertNotIn("slowest rank", self.succeed(*asked))

    def test_a_plan_that_was_raced_before_there_was_a_model(self):
        """Tuning on a noisy machine keeps a plan without a model. A model may be fitted later."""
        exported, other = self.directory / "export.json", self.directory / "other.db"
        self.succeed("db", "export", exported, "--store", self.store)
        content = json.loads(exported.read_text())
        blind = json.loads(self.succeed("run", *SHAPE, *MACHINE, "--blocks", "32,64", "--budget", "0.2", "--json"))[
            "plan"
        ]
        self.assertEqual(blind["makespan"]["us"], 0)  # there is no store and no model
        content["plans"] = [{**content["plans"][0], "document": blind, "purpose": "tuned"}]
        exported.write_text(json.dumps(content))
        self.succeed("db", "import", exported, "--store", other)
        asked = ["explain", *SHAPE, *MACHINE, "--store", other]
        done = self.mc2(*asked, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the kept plan was raced where there was no model", done.stderr)
        explained = json.loads(done.stdout)
        self.assertEqual(explained["plan"]["cut"], blind["cut"])
        self.assertGreater(explained["plan"]["makespan"]["us"], 0)
        self.succeed(*asked, "--measure", "--html", self.directory / "why.html")
        digest = json.loads(self.succeed("db", "list", "--json", "--store", other))["items"][0]["digest"]
        self.assertEqual(json.loads(self.succeed("explain", digest, "--store", other, "--json")), explained)
        content["models"] = []
        exported.write_text(json.dumps(content))
        alone = self.directory / "alone.db"
        self.succeed("db", "import", exported, "--store", alone)
        self.refuse(USAGE, ["explain", *SHAPE, *MACHINE, "--store", alone], "the kept plan predicts nothing")

    def test_samples_from_a_file(self):
        exported = json.loads(self.succeed("db", "export", "--store", self.store))
        profile, plan, model = (self.directory / name for name in ("profile.json", "plan.json", "model.json"))
        model.write_text(json.dumps(exported["models"][0]["document"]))
        plan.write_text(json.dumps(self.document(*self.ASKED)["plan"]))
        samples = exported["samples"][0]["document"]
        self.store = self.directory / "empty.db"
        for k, expected in ((64, "sample, alone"), (32, "another operator: not shown")):
            samples["op"]["k"] = k
            profile.write_text(json.dumps(samples))
            self.assertIn(expected, self.report(plan, "--model", model, "--profile", profile)[1].text)

    def test_by_digest_with_documents_from_elsewhere(self):
        listed = self.succeed("db", "list", "--store", self.store)
        digest = re.search(r"\b[0-9a-f]{12}\b", listed).group()
        by_digest = self.document(digest)
        self.assertEqual(by_digest["plan"], self.document(*self.ASKED)["plan"])
        plan, model = self.directory / "plan.json", self.directory / "model.json"
        plan.write_text(json.dumps(by_digest["plan"]))
        exported = json.loads(self.succeed("db", "export", "--store", self.store))
        model.write_text(json.dumps(exported["models"][0]["document"]))
        elsewhere = json.loads(
            self.succeed("explain", plan, "--model", model, "--store", self.directory / "empty.db", "--json")
        )
        self.assertEqual(elsewhere["sensitivity"], by_digest["sensitivity"])


if __name__ == "__main__":
    program.main()
