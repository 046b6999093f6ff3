"""One question gets one answer through every door: the program, the service, C (and so C++), Python and what
mc2.torch calls give the same plan, by its digest, or the same error.

    doors_test.py PATH_OF_MC2 PATH_OF_C_DOOR

NOT_ASKED tells which questions a door cannot be asked.
"""

import csv
import io
import json
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
C_DOOR = sys.argv.pop(2)
sys.path += [str(ROOT / "tests" / "cli"), str(ROOT / "tests" / "server")]
import mc2  # noqa: E402
import program  # noqa: E402
import serving  # noqa: E402

KINDS = [
    "matmul_all_reduce",
    "matmul_reduce_scatter",
    "all_gather_matmul",
    "matmul_all_to_all",
    "all_to_all_matmul",
    "embedding_all_to_all",
    "all_gather_grouped_matmul",
    "grouped_matmul_reduce_scatter",
    "grouped_matmul_all_reduce",
]
DTYPES = ["f32", "f16", "bf16", "i8", "f8e4m3"]
# The program's exit code for each name of an error: docs/common_tasks.md.
EXIT_CODES = {
    "invalid_spec": 2,
    "unknown_name": 2,
    "malformed": 2,
    "not_found": 3,
    "stale": 3,
    "out_of_range": 3,
    "infeasible": 3,
    "unsupported": 4,
    "corrupt": 5,
    "newer_version": 5,
    "unreadable": 5,
}
TUNED_BLOCKS = [320, 704]


def op_of(m=1024, n=1024, k=1024, kind="matmul_all_reduce", dtype="f32", ranks=2, **more):
    """An operator, with what its kind needs beside the sizes."""
    if kind == "embedding_all_to_all":
        more.setdefault("tables", mc2.EmbeddingTables(4, 5000))
    if "grouped" in kind:
        more.setdefault("experts", mc2.ChosenExperts(16, 2))
    return mc2.OpSpec(kind, m=m, n=n, k=k, dtype=dtype, ranks=ranks, **more)


def facts_of(op):
    """What describes an operator beside its sizes, named as the service's parameters and the program's options are."""
    has = op.epilogue.split("+")
    facts = {
        "bias": "bias" in has,
        "residual": "residual" in has,
        "norm": "rms" if "rms_norm" in has else "none",
        "experts_per_rank": op.experts_per_rank if op.experts_per_rank > 1 else 0,
    }
    if op.experts:
        facts.update(experts=op.experts.count, top_k=op.experts.top_k)
    if op.tables:
        facts.update(tables=op.tables.table_count, table_rows=op.tables.row_count, pooling=op.tables.pooling)
    return {name: fact for name, fact in facts.items() if fact not in (False, 0, "none")}


def document_of(op):
    document = {"dtype": op.dtype, "k": op.k, "kind": op.kind, "m": op.m, "n": op.n, "world_size": op.ranks}
    if op.epilogue != "none":
        document["epilogue"] = op.epilogue
    if op.experts_per_rank > 1:
        document["experts_per_rank"] = op.experts_per_rank
    if op.experts:
        document["experts"] = {"count": op.experts.count, "top_k": op.experts.top_k}
    if op.tables:
        tables = op.tables
        document["tables"] = {"count": tables.table_count, "row_count": tables.row_count, "pooling": tables.pooling}
    return document


class Asked:
    """A question, and what the store behind every door holds."""

    def __init__(
        self,
        op,
        *,
        tuned=(),
        models=(),
        machine="here",
        transfer="yes",
        given=False,
        damage=(),
        is_read_only=False,
        service=None,
        max_blocks=None,
        variant=None,
        counts=None,
        purpose=None,
    ):
        self.op, self.tuned, self.models, self.machine = op, tuned, models, machine
        self.transfer, self.given, self.damage = transfer, given, damage
        self.is_read_only, self.service, self.max_blocks, self.variant = is_read_only, service, max_blocks, variant
        self.counts, self.purpose = counts, purpose


def questions():
    """Yields at least a hundred pairs (name, question)."""
    here, wide, narrow, far = op_of(), op_of(n=2048), op_of(k=512), op_of(n=65536)
    yield "nothing kept", Asked(here)
    yield "nothing kept, no transfer", Asked(here, transfer="no")
    for m in (512, 1000, 1024, 1536, 4096, 100_000):
        yield f"model, m={m}", Asked(op_of(m), models=[here])
        yield f"tuned and model, m={m}", Asked(op_of(m), tuned=[here], models=[here])
        yield f"neighbour's model, m={m}", Asked(op_of(m, n=2048), models=[here])
        yield f"neighbour's model, m={m}, no transfer", Asked(op_of(m, n=2048), models=[here], transfer="no")
    yield "tuned alone", Asked(here, tuned=[here])
    yield "tuned alone, another m", Asked(op_of(2048), tuned=[here])
    yield "tuned alone, no transfer", Asked(here, tuned=[here], transfer="no")
    yield "two models, one near", Asked(narrow, models=[here, wide])
    yield "own model beside a neighbour's", Asked(here, models=[wide, here])
    yield "neighbour too far", Asked(far, models=[here])
    yield "neighbour of another type", Asked(op_of(dtype="bf16"), models=[here])
    yield "neighbour of more ranks", Asked(op_of(ranks=4), models=[here])
    for kind in KINDS[1:]:
        own = op_of(2048, kind=kind)
        yield f"{kind}, model", Asked(own, models=[own])
        yield f"{kind}, tuned", Asked(own, tuned=[own], models=[own])
        yield f"{kind}, another kind's model", Asked(own, models=[here])
        yield f"{kind}, neighbour's model", Asked(op_of(2048, k=512, kind=kind), models=[own])
    for name, more in (
        ("bias", {"epilogue": "bias"}),
        ("norm", {"epilogue": "residual+rms_norm"}),
        ("i8", {"dtype": "i8"}),
        ("f8", {"dtype": "f8e4m3"}),
    ):
        own = op_of(**more)
        yield f"{name}, model", Asked(own, models=[own])
        yield f"{name}, tuned", Asked(own, tuned=[own], models=[here])
        yield f"{name}, the plain one's model", Asked(own, models=[here])
        yield f"plain, the model of one with {name}", Asked(here, models=[own])
    for kind in ("all_to_all_matmul", "matmul_all_to_all"):
        own = op_of(2048, kind=kind, experts_per_rank=4)
        yield f"{kind} of 4 experts, model", Asked(own, models=[own])
        yield f"{kind} of 4 experts, another m", Asked(op_of(4096, kind=kind, experts_per_rank=4), models=[own])
        wider = op_of(2048, n=2048, kind=kind, experts_per_rank=4)
        yield f"{kind} of 4 experts, another n", Asked(wider, tuned=[own], models=[own])
        yield f"{kind} of 4 experts, one's model", Asked(own, models=[op_of(2048, kind=kind)])
        for routed, counts in (
            ("skewed", [1000, 24, 500, 1024]),
            ("empty", [0, 0, 0, 0]),
            ("two routings", [8, 900, 7, 6, 5, 4, 3, 2]),
            ("too many", [1025, 1, 1, 1]),
        ):
            yield f"{kind}, {routed} counts", Asked(own, tuned=[own], models=[own], counts=counts)
    yield "counts of a kind without", Asked(here, models=[here], counts=[1, 2, 3, 4])
    grouped = op_of(kind="grouped_matmul_all_reduce")
    for name, experts in (
        ("other experts", mc2.ChosenExperts(32, 2)),
        ("more experts a row", mc2.ChosenExperts(16, 4)),
    ):
        yield f"{name} than the model's", Asked(op_of(kind=grouped.kind, experts=experts), models=[grouped])
    pooled = op_of(kind="embedding_all_to_all")
    more_tables = op_of(kind=pooled.kind, tables=mc2.EmbeddingTables(8, 5000))
    yield "other tables than the model's", Asked(more_tables, models=[pooled])
    yield "few rows", Asked(op_of(8), models=[op_of(8)])
    yield "few rows, model of many", Asked(op_of(8), models=[here])
    yield "another machine's plan", Asked(here, tuned=[here], machine="elsewhere")
    yield "another machine's model", Asked(here, models=[here], machine="elsewhere")
    yield "damaged plan, model", Asked(here, tuned=[here], models=[here], damage=["plan"])
    yield "damaged plan alone", Asked(here, tuned=[here], damage=["plan"])
    yield "damaged model, tuned", Asked(here, tuned=[here], models=[here], damage=["model"])
    yield "damaged model alone", Asked(here, models=[here], damage=["model"])
    yield "damaged plan and model", Asked(here, tuned=[here], models=[here], damage=["plan", "model"])
    yield "damaged model, another n", Asked(wide, models=[here], damage=["model"])
    yield "read-only store, tuned", Asked(here, tuned=[here], models=[here], is_read_only=True)
    yield "read-only store, neighbour", Asked(wide, models=[here], is_read_only=True)
    yield "service away, tuned", Asked(here, tuned=[here], service="away")
    yield "service away, model", Asked(here, models=[here], service="away")
    yield "service away, neighbour", Asked(wide, models=[here], service="away")
    yield "service away, nothing kept", Asked(op_of(96), models=[], service="away")
    yield "given model", Asked(here, models=[here], given=True)
    yield "given model, another m", Asked(op_of(2000), models=[here], given=True)
    yield "given model, another n", Asked(op_of(n=2048), models=[here], given=True)
    yield "given model, another n, no transfer", Asked(op_of(n=2048), models=[here], given=True, transfer="no")
    for count in (1, 2, 5):
        yield f"options: at most {count} blocks", Asked(here, tuned=[here], models=[here], max_blocks=count)
    tuned_with = {"tuned": [here], "models": [here], "max_blocks": 2, "purpose": "tuned max_block_count=2"}
    yield "options: tuned with them", Asked(here, **tuned_with)
    yield "options: tuned with them, of a variant", Asked(
        here, **{**tuned_with, "purpose": "tuned direct max_block_count=2"}, variant="direct"
    )
    yield "options: tuned with others", Asked(here, **{**tuned_with, "purpose": "tuned max_block_count=3"})
    yield "options: 2 blocks, neighbour", Asked(wide, models=[here], max_blocks=2)
    yield "options: the defaults", Asked(here, tuned=[here], models=[here], max_blocks=64)
    yield "a variant", Asked(here, tuned=[here], models=[here], variant="direct")
    yield "a variant that the model does not know", Asked(here, models=[here], variant="push")
    yield "larger than this machine, nothing kept", Asked(op_of(10**8, n=2**16))
    yield "illegal operator", Asked((0, 1024, 1024), models=[here])
    yield "huge m", Asked((2**40, 1024, 1024), models=[here])


# Some calls take no options or no variants. A service takes no model, and none is started on an empty store.
NOT_ASKED = {
    "service": lambda asked: (
        asked.given or asked.variant or asked.service or asked.machine != "here" or not (asked.tuned or asked.models)
    ),
    "c": lambda asked: asked.max_blocks or asked.variant or asked.counts,
    "python": lambda asked: asked.max_blocks or asked.counts,
    "core": lambda asked: asked.service,
    "program": lambda asked: False,
}


class DoorsTest(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.template = json.loads((ROOT / "data" / "worked_example_model.json").read_text())
        cls.machines = {}

    def machine(self, ranks):
        """The fingerprint that the program has of this machine for this number of ranks."""
        if ranks not in self.machines:
            world = mc2.Communicator(ranks)
            self.machines[ranks] = world.fingerprint
            world.close()
        return self.machines[ranks]

    def model(self, op, machine):
        """A model: compute takes 15 us and 1 us a row (or column), communication 20 us and 1 us for each 4 KiB."""
        lanes = json.loads(json.dumps(self.template["variants"][0]))
        axis = "columns" if op.cut_axis == "columns" else "rows"
        for lane, curve in (
            ("compute", {"alpha_us": 15, "beta_us_per_x": 1}),
            ("communication", {"alpha_us": 20, "beta_us_per_x": 1 / 4096}),
        ):
            lanes[lane]["curve"].update(
                axis=axis if lane == "compute" else "bytes",
                shape={"family": "affine", **curve},
                valid_min_x=1,
                valid_max_x=1e9,
                is_analytic=False,
                relative_interval=0.01,
            )
        if op.has_local_part:
            lanes["local_compute"] = json.loads(json.dumps(lanes["compute"]["curve"]))
        document = {
            **self.template,
            "source": "a test",
            "variants": [lanes],
            "fingerprint": machine,
            "op": document_of(op),
        }
        return mc2.CostModel.from_json(json.dumps(document))

    def prepare(self, name, asked):
        """Makes the store that is behind all doors. Returns its path."""
        folder = self.directory / "".join(c if c.isalnum() else "_" for c in name)
        folder.mkdir()
        store = folder / "store.db"
        with mc2.Store(store) as kept:
            for op in (*asked.models, *asked.tuned):
                machine = dict(self.machine(op.ranks).fields)
                if asked.machine != "here":
                    machine["cpu_model"] = "another"
                model = self.model(op, machine)
                if op in asked.models and not asked.given:
                    kept.put_model(model)
                if op in asked.tuned:
                    blocks = TUNED_BLOCKS if op.cut_axis_length == 1024 else [op.cut_axis_length // 4] * 4
                    plan = mc2.predict(op, model, blocks)
                    kept.put_plan(plan)
                    if asked.variant or asked.purpose:
                        kept.put_plan(mc2.predict(op, model, blocks[::-1]), asked.purpose or f"tuned {asked.variant}")
        for table in asked.damage:
            connection = sqlite3.connect(store)
            connection.execute(f"UPDATE {table} SET document = replace(document, '0', '1')")
            connection.commit()
            connection.close()
        return store

    def service_url(self, asked):
        return "http://127.0.0.1:1" if asked.service == "away" else ""

    # Each of these functions asks one door. It returns ("plan", digest) or ("error", name).

    def ask_program(self, asked, store):
        m, n, k = asked.op if isinstance(asked.op, tuple) else (asked.op.m, asked.op.n, asked.op.k)
        arguments = ["plan", "--m", m, "--n", n, "--k", k, "--store", store, "--json"]
        if not isinstance(asked.op, tuple):
            arguments += ["--op", asked.op.kind, "--dtype", asked.op.dtype, "--ranks", asked.op.ranks]
            for name, fact in facts_of(asked.op).items():
                arguments += ["--" + name.replace("_", "-"), *([] if fact is True else [fact])]
        if asked.given:
            arguments += ["--model", self.given_file(asked)]
        if asked.transfer == "no":
            arguments.append("--no-transfer")
        if self.service_url(asked):
            arguments += ["--server", self.service_url(asked)]
        if asked.max_blocks:
            arguments += ["--max-blocks", asked.max_blocks]
        if asked.variant:
            arguments += ["--variant", asked.variant]
        if asked.counts:
            arguments += ["--counts"]
            for i in range(0, len(asked.counts), 4):
                table = self.directory / f"counts{i}.csv"
                # A file has a number for each expert. The first expert gets all rows.
                others = ",0" * (asked.op.experts_per_rank - 1)
                cells = [f"{count}{others}" for count in asked.counts[i : i + 4]]
                table.write_text("{},{}\n{},{}\n".format(*cells))
                arguments.append(table)
        done = self.mc2(*arguments)
        if done.returncode != 0:
            return "exit", done.returncode
        return "plan", mc2.Plan.from_json(done.stdout).digest

    def ask_service(self, asked, store):
        m, n, k = asked.op if isinstance(asked.op, tuple) else (asked.op.m, asked.op.n, asked.op.k)
        service = serving.Service(store, self.directory)
        try:
            target = f"/v1/plan?m={m}&n={n}&k={k}"
            if not isinstance(asked.op, tuple):
                machine = self.machine(asked.op.ranks).digest if asked.op.ranks == 2 else ""
                target += f"&op={asked.op.kind}&dtype={asked.op.dtype}&ranks={asked.op.ranks}&machine={machine}"
                target += "".join(f"&{name}={str(fact).lower()}" for name, fact in facts_of(asked.op).items())
            if asked.transfer == "no":
                target += "&transfer=no"
            if asked.max_blocks:
                target += f"&max_block_count={asked.max_blocks}"
            if asked.counts:
                question = {"schema": "mc2.request/1", "op": document_of(asked.op), "options": {"counts": asked.counts}}
                target = f"/v1/plan?machine={self.machine(2).digest}"
                _, _, body = service.request("POST", target, json.dumps(question).encode())
            else:
                _, _, body = service.request("GET", target)
        finally:
            service.process.terminate()
            service.process.wait(20)
        answer = json.loads(body)
        return ("plan", answer["digest"]) if "digest" in answer else ("error", answer["code"])

    def c_door(self, asked, store):
        op = asked.op
        m, n, k, kind, dtype, ranks = (
            (*op, "matmul_all_reduce", "f32", 2)
            if isinstance(op, tuple)
            else (op.m, op.n, op.k, op.kind, op.dtype, op.ranks)
        )
        machine = self.directory / "machine.json"
        machine.write_text(self.machine(ranks).to_json())
        model = self.given_file(asked) or "-"
        facts = {} if isinstance(op, tuple) else facts_of(op)
        names = "bias residual norm experts_per_rank experts top_k tables table_rows pooling".split()
        more = [facts.get(name, 0) for name in names]
        numbers = {"rms": 1, "sum": 1, "mean": 2}
        return [
            C_DOOR,
            str(store),
            self.service_url(asked),
            str(machine),
            asked.transfer,
            str(model),
            str(KINDS.index(kind) + 1),
            str(m),
            str(n),
            str(k),
            str(DTYPES.index(dtype) + 1),
            str(ranks),
            *(str(int(numbers.get(fact, fact))) for fact in more),
        ]

    def ask_c(self, asked, store):
        done = subprocess.run(
            self.c_door(asked, store), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        word, value = done.stdout.split("\n")[0].split(" ")
        return word, value

    def given(self, asked):
        return [self.model(asked.models[0], dict(self.machine(2).fields))] if asked.given else []

    def given_file(self, asked):
        if not asked.given:
            return None
        file = self.directory / "given.json"
        file.write_text(self.given(asked)[0].to_json())
        return file

    def op_or_refusal(self, asked):
        return op_of(*asked.op) if isinstance(asked.op, tuple) else asked.op

    def ask_python(self, asked, store):
        try:
            op = self.op_or_refusal(asked)
            finder = mc2.PlanFinder(store=store, server=self.service_url(asked) or None, models=self.given(asked))
            variant = mc2.Variant(asked.variant) if asked.variant else None
            return (
                "plan",
                finder.find(op, self.machine(op.ranks), variant=variant, may_transfer=asked.transfer == "yes").digest,
            )
        except mc2.Error as error:
            return "error", error.code

    def ask_core(self, asked, store):
        """Asks as mc2.torch does."""
        try:
            op = self.op_or_refusal(asked)
            options = {"max_block_count": asked.max_blocks} if asked.max_blocks else {}
            if asked.counts:
                options["counts"] = asked.counts
            variant = mc2.Variant(asked.variant) if asked.variant else None
            with mc2.Store(store, read_only=True) as kept:
                return (
                    "plan",
                    mc2.find_plan(
                        op,
                        self.machine(op.ranks),
                        store=kept,
                        models=self.given(asked),
                        variant=variant,
                        may_transfer=asked.transfer == "yes",
                        **options,
                    ).digest,
                )
        except mc2.Error as error:
            return "error", error.code

    def test_every_door_gives_the_same_answer(self):
        count = 0
        for name, asked in questions():
            with self.subTest(name):
                count += 1
                store = self.prepare(name, asked)
                if asked.is_read_only:
                    store.chmod(0o444)
                answers = {}
                for door in ("core", "python", "c", "service", "program"):
                    if not NOT_ASKED[door](asked):
                        answers[door] = getattr(self, "ask_" + door)(asked, store)
                told = {answer for answer in answers.values() if answer[0] != "exit"}
                self.assertEqual(len(told), 1, answers)
                answer = told.pop()
                if "program" in answers:
                    wanted = answer if answer[0] == "plan" else ("exit", EXIT_CODES[answer[1]])
                    self.assertEqual(answers["program"], wanted, answers)
                shutil.rmtree(store.parent)
        self.assertGreaterEqual(count, 100)

    def test_every_door_sees_what_another_program_has_changed(self):
        asked = Asked(op_of(), tuned=[op_of()], models=[op_of()])
        store, machine = self.prepare("changed", asked), self.machine(2)
        model = self.model(asked.op, dict(machine.fields))
        changes = [
            lambda kept: None,
            lambda kept: kept.put_plan(mc2.predict(asked.op, model, [512, 512])),
            lambda kept: kept.remove_plan(mc2.predict(asked.op, model, [512, 512]).digest),
            lambda kept: kept.put_model(self.model(op_of(1024, 2048), dict(machine.fields))),
            lambda kept: kept.put_plan(mc2.predict(asked.op, model, TUNED_BLOCKS[::-1])),
        ]
        c = subprocess.Popen(self.c_door(asked, store), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(c.stdout.close)
        self.addCleanup(c.kill)
        service = serving.Service(store, self.directory)
        target = f"/v1/plan?m=1024&n=1024&k=1024&machine={machine.digest}"
        digests = []
        try:
            with mc2.Store(store, read_only=True) as opened:
                for i, change in enumerate(changes):
                    with mc2.Store(store) as kept:
                        change(kept)
                    if i > 0:
                        c.stdin.write("again\n")
                        c.stdin.flush()
                    # A PlanFinder that has answered gives the same plan for 30 s, so each question goes to a new one.
                    answers = {
                        "python": mc2.PlanFinder(store=store).find(asked.op, machine).digest,
                        "core": mc2.find_plan(asked.op, machine, store=opened).digest,
                        "c": c.stdout.readline().strip().removeprefix("plan "),
                        "program": self.ask_program(asked, store)[1],
                        "service": json.loads(service.request("GET", target)[2]).get("digest"),
                    }
                    for _ in range(100):  # on a quiet machine a service sees within 50 ms what another program keeps
                        if answers["service"] == answers["core"]:
                            break
                        time.sleep(0.05)
                        answers["service"] = json.loads(service.request("GET", target)[2]).get("digest")
                    self.assertEqual(len(set(answers.values())), 1, (i, answers))
                    digests.append(answers["core"])
        finally:
            service.process.terminate()
            service.process.wait(20)
        c.stdin.close()
        self.assertEqual(c.wait(20), 0)
        self.assertEqual(len(set(digests)), 4, digests)
        self.assertEqual(digests[2], digests[3])  # a neighbour's model changes nothing

    # Machines that are not here. Python takes cuts of the operator itself that ran there through mc2.refine() only.

    def test_a_model_alone_plans_alike(self):
        """Also at an m where blocks are longer than was measured."""
        store = self.directory / "none.db"
        mc2.Store(store).close()
        layers = self.directory / "layers.csv"
        layers.write_text("model,layer,parallel,n,k\na,down,row,1024,2048\n")
        op = op_of()
        document = json.loads(self.model(op, dict(self.machine(2).fields)).to_json())
        document["variants"][0]["compute"]["curve"]["valid_max_x"] = 512
        file = self.directory / "given.json"
        file.write_text(json.dumps(document))
        model = mc2.CostModel.from_json(file.read_text())
        service = serving.Service(store, self.directory)
        self.addCleanup(service.process.wait, 20)
        self.addCleanup(service.process.terminate)
        for m in (1024, 4096):
            asked = op_of(m)
            shape = ["--m", m, "--n", asked.n, "--k", asked.k]
            planned = json.loads(self.mc2("plan", "--model", file, *shape, "--store", store, "--json").stdout)
            request = {"schema": "mc2.request/1", "op": document_of(asked)}
            what_if = {"schema": "mc2.what_if/1", "model": document, "request": request}
            answer = json.loads(service.request("POST", "/v1/what-if", json.dumps(what_if))[2])
            self.assertEqual(answer.get("plan"), planned, answer)
            self.assertEqual(json.loads(mc2.plan(asked, model).to_json()), planned)
            blocks = planned["cut"]["block_rows"]
            named = self.mc2("plan", "--model", file, *shape, "--blocks", ",".join(map(str, blocks)), "--json")
            predicted = json.loads(mc2.predict(asked, model, blocks).to_json())
            self.assertEqual(predicted["makespan"], json.loads(named.stdout)["makespan"])
            interval = [planned["makespan"][end] for end in ("low_us", "high_us")]
            for table in (
                self.mc2("export", "--model", file, "--rows", m, "--format", "csv").stdout,
                self.mc2(
                    *("sweep", "--shapes", layers, "--kinds", asked.kind, "--ranks", 2, "--dtype", "f32"),
                    *("--model", file, "--m", m, "--csv"),
                ).stdout,
            ):
                lines = [line for line in table.splitlines() if line and not line.startswith("#")]
                row = dict(zip(lines[0].split(","), lines[1].split(",")))
                shown = [float(row[name]) for name in row if name.endswith(("low_us", "high_us"))]
                self.assertEqual(len(shown), 2, row)
                for end, value in zip(interval, shown):
                    self.assertAlmostEqual(value, end, delta=0.01 * end)

    def test_several_models_plan_alike(self):
        """Of one operator at several m and of others near it, in whatever order."""
        folder = ROOT / "data" / "h200_x4" / "models"
        files = [
            folder / f"matmul_all_reduce_{name}.json"
            for name in ("m4096_n8192_k2048", "m8192_n8192_k7168", "m1024_n8192_k7168")
        ]
        models = [mc2.CostModel.from_json(file.read_text()) for file in files]
        layers = self.directory / "layers.csv"
        sizes = {"own": 2048, "several": 7168, "another": 3072}
        lines = [f"a,{layer},row,8192,{4 * k},bf16" for layer, k in sizes.items()]
        layers.write_text("\n".join(["model,layer,parallel,n,k,dtype", *lines]) + "\n")
        for order in (files, files[::-1]):
            given = [argument for file in order for argument in ("--model", file)]
            for m in (128, 512, 1024, 8192, 16384):
                table = self.mc2(
                    *("sweep", "--shapes", layers, "--kinds", "matmul_all_reduce", "--ranks", 4, "--m", m, "--csv"),
                    *given,
                ).stdout
                swept = {row["layer"]: float(row["makespan_us"]) for row in csv.DictReader(io.StringIO(table))}
                answer = json.loads(self.mc2("model", layers, "--ranks", 4, "--m", f"{m}:{m}", *given, "--json").stdout)
                planned = {
                    site["layer"]: site["points"][0]["fused"]["us"]
                    for site in answer["sites"]
                    if site["kind"] == "matmul_all_reduce"
                }
                for layer, k in sizes.items():
                    op = op_of(m, 8192, k, dtype="bf16", ranks=4)
                    asked = mc2.find_plan(op, models[0].fingerprint, models=models)
                    us = json.loads(asked.plan.to_json())["makespan"]["us"]
                    self.assertAlmostEqual(planned[layer], us, delta=1e-6 * us)
                    self.assertAlmostEqual(swept[layer], us, delta=1e-6 * us)

    def imported(self, device, m=4096, k=3072, matmuls=(), collectives=(), cuts=()):
        """A store in which the program keeps logs of these sizes and times in us. Returns its path."""
        store = self.directory / f"{device}.db"
        matmul, collective, cut = (self.directory / name for name in ("op_summary.csv", "all_reduce.txt", "cuts.csv"))
        matmul.write_text(
            "Op Name,OP Type,Task Duration(us),Input Shapes,Input Data Types,Output Shapes\n"
            + "".join(
                f'x,MatMulV3,{us},"""{rows},{k};{k},8192""",FLOAT16;FLOAT16,"""{rows},8192"""\n' for rows, us in matmuls
            )
        )
        collective.write_text(
            "mpirun -n 8 ./bin/all_reduce_test -d fp16\ndata_size(Bytes): | aveg_time(us): | alg_bandwidth(GB/s): | "
            "check_result:\n" + "".join(f"{size} | {us} | 1 | success\n" for size, us in collectives)
        )
        cut.write_text(
            "blocks,fused_us,serial_us\n" + "".join(f"{blocks},{us},{serial}\n" for blocks, us, serial in cuts)
        )
        files = [file for file, rows in ((matmul, matmuls), (collective, collectives), (cut, cuts)) if rows]
        shape = ["--m", m, "--n", 8192, "--k", k, "--dtype", "f16", "--ranks", 8]
        self.succeed("import", *files, "--op", "matmul_all_reduce", "--device", device, "--store", store, *shape)
        return store

    def ask_of_a_machine(self, option, name, op, store):
        """By door, the digest of the plan or the error."""
        shape = ["--op", op.kind, "--m", op.m, "--n", op.n, "--k", op.k, "--dtype", op.dtype, "--ranks", op.ranks]
        kept = ["--store", store] if option == "device" else []  # no kept model answers for a topology
        done = self.mc2("plan", f"--{option}", name, *shape, *kept, "--json")
        answers = {
            "program": mc2.Plan.from_json(done.stdout).digest if done.returncode == 0 else ("exit", done.returncode)
        }
        service = serving.Service(store, self.directory)
        try:
            target = (
                f"/v1/plan?{option}={name}&op={op.kind}&m={op.m}&n={op.n}&k={op.k}&dtype={op.dtype}&ranks={op.ranks}"
            )
            answer = json.loads(service.request("GET", target)[2])
        finally:
            service.process.terminate()
            service.process.wait(20)
        answers["service"] = answer["digest"] if "digest" in answer else answer["code"]
        try:
            with mc2.Store(store, read_only=True) as kept:
                model = mc2.device_model(name, op, store=kept) if option == "device" else mc2.topology_model(name, op)
            answers["python"] = mc2.find_plan(op, model.fingerprint, models=[model]).digest
        except mc2.Error as error:
            answers["python"] = error.code
        return answers

    def test_every_door_plans_alike_for_machines_that_are_not_here(self):
        both = {
            "matmuls": [(512, 110), (1024, 210), (2048, 410), (4096, 810)],
            "collectives": [(2**i, 2**i / 61000) for i in (22, 23, 24, 25, 26)],
        }
        alone = self.imported("npu", **both)
        corrected = self.imported("ascend-910b", matmuls=[(4096, 803)], collectives=[(2**26, 1071)])
        nearby = self.imported("ascend-950-8p", cuts=[("512+4x896", 1262, 1874)])
        op = op_of(4096, 8192, 3072, dtype="f16", ranks=8)
        for name, option, machine, store, asked in (
            ("published, nothing imported", "device", "ascend-910b", alone, op),
            ("published and imported", "device", "ascend-910b", corrected, op),
            (
                "published and imported, another m",
                "device",
                "ascend-910b",
                corrected,
                op_of(1024, 8192, 3072, dtype="f16", ranks=8),
            ),
            ("imported alone", "device", "npu", alone, op),
            ("imported, but not of these ranks", "device", "npu", alone, op_of(4096, 8192, 64, dtype="f16", ranks=4)),
            (
                "published, cuts of another m",
                "device",
                "ascend-950-8p",
                nearby,
                op_of(2048, 8192, 3072, dtype="f16", ranks=8),
            ),
            (
                "ranks of which nothing is published",
                "device",
                "ascend-910b",
                alone,
                op_of(4096, 8192, 3072, dtype="f16", ranks=16),
            ),
            ("a cluster", "topology", "dgx_h100", alone, op_of(8192, 8192, 8192, dtype="bf16", ranks=256)),
            ("a cluster, few rows", "topology", "dgx_h100", alone, op_of(16, 8192, 8192, dtype="bf16", ranks=256)),
            ("no such cluster", "topology", "dgx", alone, op),
        ):
            with self.subTest(name):
                answers = self.ask_of_a_machine(option, machine, asked, store)
                self.assertEqual(answers["service"], answers["python"], answers)
                wanted = EXIT_CODES.get(answers["python"])
                self.assertEqual(answers["program"], ("exit", wanted) if wanted else answers["python"], answers)
        # The plan is the best of the cuts that ran there.
        measured = self.imported("ascend-910b", cuts=[("512+4x896", 1262, 1874), ("4x1024", 1190, 1874)])
        answers = self.ask_of_a_machine("device", "ascend-910b", op, measured)
        self.assertEqual(answers["service"], answers["program"])


if __name__ == "__main__":
    program.main()
