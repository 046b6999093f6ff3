"""mc2 model plans the layers of a language model for every m."""

import csv
import io
import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "server"))
import program  # noqa: E402
from program import (  # noqa: E402
    EXAMPLE_MODEL,
    MACHINE,
    NO_ANSWER,
    QUICK,
    SOURCE_DIRECTORY,
    USAGE,
    ProgramTest,
    keep_document,
    main,
    operator,
)
from serving import Service  # noqa: E402  (tests/server is no package)

TOPOLOGY = SOURCE_DIRECTORY / "data" / "topologies" / "dgx_h100.json"
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "torch_dtype": "float32",
    "hidden_size": 512,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 1024,
}


class ModelTest(ProgramTest):
    def config(self, **changes):
        file = self.directory / "config.json"
        file.write_text(json.dumps({**CONFIG, **changes}))
        return file

    def answer(self, model, *arguments):
        return json.loads(self.succeed("model", model, *arguments, "--topology", TOPOLOGY, "--json"))

    def plan(self, site, m):
        op = site["op"]
        return json.loads(
            self.succeed(
                "plan",
                "--op",
                op["kind"],
                *operator(m, op["n"], op["k"], op["dtype"], op["world_size"]),
                "--topology",
                TOPOLOGY,
                "--json",
            )
        )


class AnswerTest(ModelTest):
    def test_every_number_is_that_of_the_operators_own_plan(self):
        answer = self.answer("Llama-3-8B", "--ranks", 8, "--m", "512:2048")
        keep_document(answer)
        self.assertEqual(
            [(site["layer"], site["kind"], site["count"]) for site in answer["sites"]],
            [
                ("attention_qkv", "all_gather_matmul", 32),
                ("attention_output", "matmul_all_reduce", 32),
                ("attention_output", "matmul_reduce_scatter", 32),
                ("mlp_gate_up", "all_gather_matmul", 32),
                ("mlp_down", "matmul_all_reduce", 32),
                ("mlp_down", "matmul_reduce_scatter", 32),
            ],
        )
        for site in answer["sites"]:
            self.assertEqual([point["tokens"] for point in site["points"]], [512, 1024, 2048])
            for point in site["points"][-1:]:
                plan = self.plan(site, point["op"]["m"])
                self.assertEqual(
                    (plan["makespan"], plan["serial_us"], plan["cut"]),
                    (point["fused"], point["serial_us"], point["cut"]),
                )
            for run in site["fused"]:
                self.assertTrue(512 <= run["first_tokens"] <= run["last_tokens"] <= 2048, run)

    def test_a_step_adds_up_its_layers(self):
        answer = self.answer(self.config(torch_dtype="bfloat16"), "--ranks", 2, "--m", "4096")

        def total(form, key):
            return sum(3 * key(site["points"][0]) for site in answer["sites"] if form(site["kind"]))

        steps = {step["form"]: step for step in answer["steps"]}
        sequence = total(lambda kind: kind != "matmul_all_reduce", lambda point: point["fused"]["us"])
        self.assertAlmostEqual(steps["sequence_parallel"]["fused"]["us"], sequence, places=6)
        reduced = total(lambda kind: kind == "matmul_all_reduce", lambda point: point["fused"]["us"])
        gathered = total(lambda kind: kind == "all_gather_matmul", lambda point: point["compute_us"])
        self.assertAlmostEqual(steps["all_reduce"]["fused"]["us"], reduced + gathered, places=6)

    def test_experts_are_planned_where_the_ranks_divide_them(self):
        answer = self.answer("Mixtral-8x7B", "--ranks", 8, "--m", "4096")
        keep_document(answer, "experts")
        experts = {site["layer"]: site for site in answer["sites"] if site["layer"].startswith("expert")}
        self.assertEqual(experts["expert_gate_up"]["op"]["kind"], "all_to_all_matmul")
        self.assertEqual(experts["expert_down"]["op"]["m"], 4096 * 2 // 8)  # a token goes to 2 of 8 experts
        answer = self.answer("Mixtral-8x7B", "--ranks", 4, "--m", "4096")
        keep_document(answer, "several_experts")
        for site in answer["sites"]:
            self.assertEqual(site["op"].get("experts_per_rank", 1), 2 if site["layer"].startswith("expert") else 1)
            if site["layer"] == "expert_down":
                self.assertEqual(site["op"]["m"], 4096 * 2 // 4)
        answer = self.answer("Mixtral-8x7B", "--ranks", 16, "--m", "4096")
        keep_document(answer, "refused_experts")
        for step in answer["steps"]:
            self.assertEqual(step["missing"], ["expert_gate_up", "expert_down"])
        for site in answer["sites"]:
            self.assertEqual("8 experts on 16 ranks" in site.get("reason", ""), site["layer"].startswith("expert"))

    def test_experts_that_are_not_planned_name_what_measures_them(self):
        page = self.succeed("model", "Mixtral-8x7B", "--ranks", 8, "--topology", TOPOLOGY, "--m", "4096")
        self.assertIn("not planned here; mc2 tune --op grouped_matmul_all_reduce measures it", program.unwrapped(page))

    def test_latent_attention(self):
        answer = self.answer("DeepSeek-V3", "--ranks", 8, "--m", "2048")
        keep_document(answer, "latent")
        self.assertEqual(answer["sites"][0]["layer"], "attention_query_up")
        self.assertEqual(answer["sites"][0]["op"]["n"], 128 * 192 // 8)

    def test_described_layers(self):
        file = self.directory / "layers.csv"
        file.write_text("model,layer,parallel,n,k,count\nMine,up,column,1024,512,7\nMine,down,row,512,1024,7\n")
        answer = self.answer(file, "--ranks", 2, "--m", "1024")
        keep_document(answer, "described")
        self.assertEqual(
            [(site["layer"], site["count"]) for site in answer["sites"]], [("up", 7), ("down", 7), ("down", 7)]
        )
        self.assertNotIn("config", answer)

    def test_a_matmul_without_a_gather_is_one_of_the_tokens(self):
        """At an m that the ranks do not divide, to which the gather's rows would be padded."""
        file = self.directory / "layers.csv"
        file.write_text("model,layer,parallel,n,k\nMine,up,column,8192,512\nMine,down,row,512,8192\n")
        answer = self.answer(file, "--ranks", 8, "--m", 1001)
        rate = json.loads(TOPOLOGY.read_text())["compute"]
        matmul_us = rate["launch_us"] + 2 * 1001 * 1024 * 512 / (
            rate["peak_tflop_per_s_16bit"] * rate["efficiency"] * 1e6
        )
        up, down, _ = (site["points"][0] for site in answer["sites"])
        self.assertAlmostEqual(up["compute_us"], matmul_us, places=6)
        self.assertEqual(up["op"]["m"], 1008)
        step = next(step for step in answer["steps"] if step["form"] == "all_reduce")
        self.assertAlmostEqual(step["fused"]["us"], matmul_us + down["fused"]["us"], places=6)

    def test_a_step_has_as_many_tokens_in_layers_that_name_no_experts(self):
        file = self.directory / "layers.csv"
        file.write_text("model,layer,parallel,n,k\nMine,up,dispatch,1024,512\nMine,down,combine,512,1024\n")
        for site in self.answer(file, "--ranks", 8, "--m", 4096)["sites"]:
            self.assertEqual(site["op"]["m"], 4096 // 8)

    def test_few_rows_have_no_time_from_a_topology(self):
        answer = self.answer("Llama-3-8B", "--ranks", 8, "--m", "1:256")
        keep_document(answer, "few_rows")
        self.assertEqual(sorted({step["tokens"] for step in answer["steps"]}), [128, 256])
        for site in answer["sites"]:
            self.assertEqual(site["ranges"]["gaps"][-1]["last_m"], 64)


class PageTest(ModelTest):
    def test_what_has_no_plan_is_unknown(self):
        # Where only more than 64 rows have a plan, and none of these is fused, nothing is known of the others.
        page = self.succeed("model", "Llama-3-8B", "--ranks", 8, "--topology", TOPOLOGY, "--m", "1:256")
        answer = self.answer("Llama-3-8B", "--ranks", 8, "--m", "1:256")
        unfused = sum(not site["fused"] for site in answer["sites"])
        self.assertGreater(unfused, 0)
        self.assertEqual(program.unwrapped(page).count("not at 65:256;"), unfused)
        self.assertNotIn("nowhere", page)

    def test_a_page_is_readable(self):
        page = self.succeed("model", "Llama-3-70B", "--ranks", 8, "--topology", TOPOLOGY)
        self.assertLessEqual(max(map(len, page.splitlines())), 80)
        self.assertLessEqual(len(page.splitlines()), 45)
        self.assertIn("80 layers, hidden 8192, 64 heads of 128 (8 of", page)
        self.assertRegex(page, r"mlp_down +all_reduce +8192x3584 +80 +\d+:16384 +1 to \d+ %")
        self.assertIn("ANALYTIC, from published constants", page)
        self.assertIn(
            "all-reduce: no layer has a plan at m of 1, 2, 4, 8, 16, 32, 64; reason at the first:",
            program.unwrapped(page),
        )
        self.assertIn("not fused: logits", page)

    def test_a_page_says_which_layers_the_ranks_cannot_share(self):
        page = self.succeed("model", "Qwen2-7B", "--ranks", 8, "--topology", TOPOLOGY)
        self.assertIn("not planned: attention_qkv", page)
        self.assertIn("all layers can be shared by 2 or 4 ranks", program.unwrapped(page))
        self.assertIn("28", page)
        self.assertRegex(page, r"\n +1024 +\S+ ms \* ")
        self.assertNotIn("takes less time", page)

    def test_csv_has_a_row_for_each_range(self):
        rows = list(
            csv.DictReader(
                io.StringIO(self.succeed("model", "Mixtral-8x7B", "--ranks", 16, "--topology", TOPOLOGY, "--csv"))
            )
        )
        refused = [row for row in rows if row["reason"] and not row["first_m"]]
        self.assertEqual({row["layer"] for row in refused}, {"expert_gate_up", "expert_down"})
        self.assertEqual({row["model"] for row in rows}, {"Mixtral-8x7B"})
        gaps = [row for row in rows if row["reason"] and row["first_m"]]
        planned = [row for row in rows if not row["reason"]]
        self.assertEqual({row["last_m"] for row in gaps}, {"64"})
        for row in planned:  # 16 ranks share the rows
            step = 1 if row["kind"] == "matmul_all_reduce" else 16
            self.assertEqual(int(row["first_tokens"]), int(row["first_m"]) - step + 1)
            self.assertEqual(row["last_tokens"], row["last_m"])
        self.assertTrue(all(float(row["least_gain"]) <= float(row["most_gain"]) for row in planned))
        self.assertEqual(max(int(row["last_m"]) for row in planned), 16384)

    def test_a_report_is_one_file_that_needs_no_other(self):
        html = self.directory / "report.html"
        page = self.succeed("model", "Llama-3-8B", "--topology", TOPOLOGY, "--html", html)
        self.assertIn(f"report written to {html}", page)
        report = html.read_text()
        for text in (
            "<h1>Llama-3-8B, LlamaForCausalLM",
            "<svg",
            "mlp_down: matmul_all_reduce m=16384 n=4096 k=1792",
            "not fused: logits",
        ):
            self.assertIn(text, report)
        for outside in ("http:", "https:", "src=", "@import"):
            self.assertNotIn(outside, report)

    def test_an_answer_is_written(self):
        out = self.directory / "answer.json"
        self.succeed("model", "Llama-3-8B", "--topology", TOPOLOGY, "--json", "--out", out)
        self.assertEqual(json.loads(out.read_text()), self.answer("Llama-3-8B"))


class FewRowsTest(ModelTest):
    """Steps of few rows of which only some are planned: blocks cut by columns take a model of the same m."""

    def document(self, kind, m, compute_us, communication_us):
        """A model of an operator with n = k = 1024 on 2 ranks. Lanes take a start in us and 0.1 us a row or column."""
        document = json.loads(EXAMPLE_MODEL.read_text())
        lanes = document["variants"][0]
        is_few = kind == "matmul_all_reduce" and m <= 64
        for lane, axis, alpha, beta in (
            ("compute", "columns" if is_few else "rows", compute_us, 0.1),
            ("communication", "bytes", communication_us, 0.1 / (4 * (m if is_few else 1024))),
        ):
            lanes[lane]["curve"].update(
                axis=axis,
                shape={"family": "affine", "alpha_us": alpha, "beta_us_per_x": beta},
                valid_min_x=1,
                valid_max_x=1e9,
                is_analytic=False,
                relative_interval=0.01,
            )
        sizes = {"kind": kind, "m": m, "n": 1024, "k": 1024, "dtype": "f32", "world_size": 2}
        document.update(variants=[lanes], op=sizes, source="a test")
        file = self.directory / f"{kind}{m}.json"
        file.write_text(json.dumps(document))
        return ["--model", file]

    def page(self):
        layers = self.directory / "layers.csv"
        layers.write_text("model,layer,parallel,n,k,dtype\nMine,down,row,1024,2048,f32\n")
        documents = [argument for m in (2, 4, 8, 16, 1024) for argument in self.document("matmul_all_reduce", m, 1, 1)]
        documents += self.document("matmul_reduce_scatter", 1024, 500, 1)
        return program.unwrapped(self.succeed("model", layers, "--ranks", 2, "--m", "2:2000", *documents))

    def test_the_widest_range_of_m_is_named(self):
        self.assertRegex(self.page(), r"down +all_reduce +1024x1024 +1 +2, 4, \d+:2000, \.\.\.")

    def test_a_form_is_faster_only_where_it_is_planned(self):
        self.assertIn("all-reduce takes less time at m of 2, 4, 8, 16, 128:2000 ", self.page())


class ShapesTest(ModelTest):
    def test_shapes_are_those_that_tune_takes(self):
        file = self.directory / "shapes.csv"
        self.succeed("model", "Mixtral-8x7B", "--ranks", 4, "--m", "4096", "--shapes-out", file)
        shapes = list(csv.DictReader(io.StringIO(file.read_text())))
        self.assertEqual({row["op"]: row["experts_per_rank"] for row in shapes}["all_to_all_matmul"], "2")
        self.succeed("model", self.config(), "--ranks", 2, "--m", "32:96", "--shapes-out", file)
        # 4 heads, 2 of keys and 2 of values, of 128 columns: (4 + 4) * 128 / 2 = 512. The steps are 32, 64 and 96 rows;
        # up to 64 rows an all-reduce is cut by columns.
        self.assertEqual(
            file.read_text().splitlines(),
            [
                "op,m,n,k,dtype,ranks,experts_per_rank",
                "all_gather_matmul,96,512,512,f32,2,1",
                *(f"matmul_all_reduce,{m},512,256,f32,2,1" for m in (96, 32, 64)),
                "matmul_reduce_scatter,96,512,256,f32,2,1",
                "all_gather_matmul,96,1024,512,f32,2,1",
                *(f"matmul_all_reduce,{m},512,512,f32,2,1" for m in (96, 32, 64)),
                "matmul_reduce_scatter,96,512,512,f32,2,1",
            ],
        )
        self.refuse(USAGE, ["model", self.config(), "--shapes-out", file, "--json"], "--shapes-out")

    def test_few_rows_are_cut_by_columns(self):
        self.tuned(
            "--op",
            "matmul_all_reduce",
            "--m",
            16,
            "--n",
            192,
            "--k",
            64,
            "--ranks",
            2,
            *MACHINE,
            *QUICK,
            "--align",
            16,
            "--store",
            self.store,
        )
        file = self.directory / "layers.csv"
        file.write_text("model,layer,parallel,n,k,dtype\nMine,down,row,192,128,f32\n")
        answer = json.loads(
            self.succeed("model", file, "--ranks", 2, "--m", "16", *MACHINE, "--json", "--store", self.store)
        )
        keep_document(answer, "columns")
        (reduced,) = (site for site in answer["sites"] if site["kind"] == "matmul_all_reduce")
        self.assertEqual(list(reduced["points"][0]["cut"]), ["block_columns"])

    def test_kept_models_of_this_machine_answer(self):
        self.profiled_and_fitted()  # a model of one all-reduce
        file = self.directory / "layers.csv"
        file.write_text("model,layer,parallel,n,k,dtype\nMine,down,row,64,256,f32\n")
        answer = json.loads(
            self.succeed("model", file, "--ranks", 2, "--m", "70:96", *MACHINE, "--json", "--store", self.store)
        )
        by_kind = {site["kind"]: site for site in answer["sites"]}
        self.assertTrue(by_kind["matmul_all_reduce"]["ranges"]["ranges"])
        self.assertIn("no cost model", by_kind["matmul_reduce_scatter"]["reason"])
        self.assertEqual([step["form"] for step in answer["steps"]], ["all_reduce"] * 2)

    def test_the_document_is_that_of_the_service(self):
        self.profiled_and_fitted()  # a model of one all-reduce
        config = self.config(hidden_size=64, head_dim=64, num_attention_heads=2, intermediate_size=128)
        printed = self.succeed("model", config, "--ranks", 2, "--m", "70:96", *MACHINE, "--json", "--store", self.store)
        service = Service(self.store, self.directory)
        self.addCleanup(service.stop)
        query = "ranks=2&first_m=70&m=96&name=config"
        served = service.json("POST", f"/v1/llms/plan?{query}", json.loads(config.read_text()))
        self.assertEqual(json.loads(printed), served)
        reasons = [site["reason"] for site in served["sites"] if "reason" in site]
        self.assertTrue(reasons)
        for reason in reasons:
            self.assertTrue(reason.startswith("the store has no cost model for "), reason)
            self.assertNotIn(str(self.store), reason)

    def test_without_models_it_says_what_to_do(self):
        done = self.mc2("model", self.config(), "--ranks", 2, *MACHINE)
        self.assertEqual((done.returncode, done.stdout), (NO_ANSWER, ""))
        for text in ("no plan for any layer of config", "--topology FILE", "--shapes-out FILE", "mc2 tune --shapes"):
            self.assertIn(text, done.stderr)


class SettingsTest(ModelTest):
    """Settings that `mc2 model` writes for other programs."""

    # Names from add_ub() and the tables of initialize_ub() in transformer_engine/pytorch/module/base.py, commit
    # d0067d0.
    GATHERS = {"qkv_fprop", "fc1_fprop", "proj_dgrad", "fc2_dgrad"}
    SCATTERS = {"proj_fprop", "fc2_fprop"}
    FIELDS = {"method": str, "num_sm": int, "cga_size": int, "set_sm_margin": bool, "num_splits": int, "use_ce": bool}

    def settings(self, program, model, *arguments):
        return self.succeed("model", model, *arguments, "--topology", TOPOLOGY, "--settings", program)

    def vllm(self, model, *arguments):
        passes = json.loads(self.settings("vllm", model, *arguments))["pass_config"]
        # PassConfig forbids other fields: vllm/config/compilation.py of commit 002284d; sp_min_token_num came later.
        self.assertLessEqual(
            set(passes), {"enable_sp", "fuse_gemm_comms", "sp_min_token_num", "fi_allreduce_fusion_max_size_mb"}
        )
        return passes

    def gain_of_sequence_parallel(self, model, tokens, *arguments):
        steps = {step["form"]: step for step in self.answer(model, *arguments, "--m", tokens)["steps"]}
        return steps["all_reduce"]["serial_us"] / steps["sequence_parallel"]["fused"]["us"]

    def test_vllm_takes_sequence_parallelism_from_where_it_pays(self):
        passes = self.vllm("Llama-3-70B", "--ranks", 8, "--m", "65:16384")
        least = passes["sp_min_token_num"]
        self.assertEqual(passes, {"enable_sp": True, "fuse_gemm_comms": True, "sp_min_token_num": least})
        for tokens in (least, 2 * least, 16384):
            self.assertGreater(self.gain_of_sequence_parallel("Llama-3-70B", tokens, "--ranks", 8), 1.02)
        self.assertLess(self.gain_of_sequence_parallel("Llama-3-70B", round(least / 2 ** (1 / 8)), "--ranks", 8), 1.02)

    def test_vllm_is_told_where_it_does_not_pay(self):
        passes = self.vllm("Llama-3-70B", "--ranks", 8, "--m", "65:512")
        self.assertEqual(passes, {"enable_sp": False, "fuse_gemm_comms": False})

    def test_vllm_ends_its_fused_norms_where_sequence_parallelism_begins(self):
        documents = [
            argument
            for kind in ("matmul_reduce_scatter", "matmul_all_reduce", "all_gather_matmul")
            for file in sorted((SOURCE_DIRECTORY / "data" / "h200_x2" / "models").glob(f"{kind}_*.json"))
            for argument in ("--model", file)
        ]
        text = self.succeed("model", "Llama-3-8B", "--ranks", 2, "--m", "256:8192", *documents, "--settings", "vllm")
        passes = json.loads(text)["pass_config"]
        self.assertTrue(passes["enable_sp"])
        self.assertEqual(passes["fi_allreduce_fusion_max_size_mb"], passes["sp_min_token_num"] * 4096 * 2 / 2**20)

    def test_transformer_engine_reads_its_settings(self):
        import yaml

        cases = (
            ("Llama-3-70B", 8, 7680),
            ("Llama-3-8B", 8, 12288),
            ("Llama-2-7B", 4, 8192),
            ("Gemma-2-9B", 2, 8192),
            ("Mixtral-8x7B", 8, 8192),
        )
        pipelines = 0
        for model, ranks, m in cases:
            text = self.settings("transformer-engine", model, "--ranks", ranks, "--m", m)
            hidden = json.loads((SOURCE_DIRECTORY / "data" / "llm" / f"{model}.json").read_text())["hidden_size"]
            settings = yaml.safe_load(text)
            self.assertTrue(settings, text)
            for name, chosen in settings.items():
                with self.subTest(model, name=name):
                    self.assertIn(name, self.GATHERS | self.SCATTERS)
                    for field, value in chosen.items():
                        self.assertIs(type(value), self.FIELDS[field], field)
                    self.assertIn(chosen["method"], ("ring_exchange", "pipeline"))
                    if chosen["method"] == "pipeline":
                        self.assertIn(name, self.SCATTERS)
                        # A pipeline cuts columns and leaves out a remainder, so there must be none.
                        self.assertEqual(hidden % (16 * chosen["num_splits"]), 0)
                        pipelines += 1
                    self.assertEqual(chosen.get("use_ce", False), not chosen["set_sm_margin"])
                    self.assertIn(f"{name}: {{method", text)
        self.assertGreater(pipelines, 3)

    def test_what_saves_nothing_is_a_remark(self):
        text = self.settings("transformer-engine", "Mixtral-8x7B", "--ranks", 8, "--m", 4096)
        self.assertIn("# proj_fprop: ", text)
        self.assertIn("us one after the other, nothing is saved", text)

    def test_refusals_name_what_is_wrong(self):
        describe = ["model", "Llama-3-70B", "--topology", TOPOLOGY]
        self.refuse(
            USAGE,
            [*describe, "--settings", "sglang"],
            "--settings: unknown name 'sglang'; legal: vllm, transformer-engine",
        )
        self.refuse(
            USAGE,
            [*describe, "--settings", "transformer-engine"],
            "--m: is 1:16384; transformer-engine is set for one number of tokens",
        )
        self.refuse(USAGE, [*describe, "--settings", "vllm", "--csv"], "--settings")
        self.refuse(
            USAGE,
            [*describe, "--settings", "transformer-engine", "--m", 8191],
            "--m: is 8191, which 8 ranks do not divide",
            "is 8192",
        )
        self.refuse(
            NO_ANSWER,
            ["model", "Mixtral-8x7B", "--topology", TOPOLOGY, "--settings", "vllm"],
            "expert_gate_up: is of experts, which have the sequence-parallel form alone",
        )
        file = self.directory / "layers.csv"
        file.write_text("model,layer,parallel,n,k,count\nmine,up,column,4096,1024,24\n")
        self.refuse(
            NO_ANSWER,
            ["model", file, "--m", 8192, "--topology", TOPOLOGY, "--settings", "transformer-engine"],
            "mine: has none of the layers that transformer-engine overlaps",
        )


class RefusalTest(ModelTest):
    def test_models_that_it_does_not_know(self):
        self.refuse(USAGE, ["model", "Llama-9"], "unknown model 'Llama-9'; legal: DeepSeek-V2-Lite")
        self.refuse(
            USAGE,
            ["model", self.config(architectures=["MambaForCausalLM"])],
            "config.json: unknown architecture 'MambaForCausalLM'",
            "model,layer,parallel,n,k",
        )
        self.refuse(USAGE, ["model", self.directory / "absent.json"], "absent.json")

    def test_sizes_that_are_absurd(self):
        self.refuse(USAGE, ["model", self.config(hidden_size=-1)], "config.json: hidden_size: expected")
        self.refuse(USAGE, ["model", self.config(num_key_value_heads=3)], "3 do not divide the 4 heads")

    def test_descriptions_of_two_models(self):
        file = self.directory / "layers.csv"
        file.write_text("model,layer,parallel,n,k\nMine,up,column,1024,512\nYours,down,row,512,1024\n")
        self.refuse(USAGE, ["model", file], "has layers of Mine and of Yours; give one model's")

    def test_two_places_for_costs(self):
        model = EXAMPLE_MODEL
        self.refuse(
            USAGE,
            ["model", "Llama-3-8B", "--model", model, "--topology", TOPOLOGY],
            "--topology: cannot be combined with --model",
        )

    def test_options_that_a_topology_leaves_without_effect(self):
        for asked in (["model", "Llama-3-8B"], ["plan", *operator(4096, 4096, 1024, "bf16", 8)]):
            for given in (["--store", self.store], ["--no-transfer"]):
                self.refuse(
                    USAGE,
                    [*asked, "--topology", TOPOLOGY, *given],
                    "--topology: plans without kept models",
                    f"leave out {given[0]}",
                )

    def test_the_reason_is_that_of_the_most_m(self):
        self.refuse(
            NO_ANSWER,
            ["model", "Llama-3-8B", "--topology", "h800_device_initiated"],
            "topology.algorithms: of h800_device_initiated name none for all_gather",
        )

    def test_no_advice_that_cannot_be_followed(self):
        done = self.mc2("model", "Llama-3-8B", "--topology", TOPOLOGY, "--m", 8)
        self.assertNotIn("add a model", done.stderr)
        self.assertIn("experts,experts_per_token", self.succeed("model", "--help"))

    def test_names_that_a_terminal_would_obey(self):
        file = self.directory / "x\x1b[31mred.json"
        file.write_text(json.dumps(CONFIG))
        done = self.mc2("model", file, "--topology", TOPOLOGY)
        self.assertEqual(done.returncode, USAGE)
        self.assertNotIn("\x1b", done.stderr)

    def test_more_tokens_than_ranges_are_planned_for(self):
        self.refuse(
            USAGE, ["model", "Llama-3-8B", "--m", "1:65537", "--topology", TOPOLOGY], "--m: is 65537; legal: 1 to 65536"
        )

    def test_ranks_that_no_layer_can_be_shared_by(self):
        self.refuse(
            NO_ANSWER,
            ["model", self.config(), "--ranks", 3, "--topology", TOPOLOGY],
            "ranks: 3 ranks do not divide n = 512",
        )


main()
