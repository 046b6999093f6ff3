import {useEffect, useState} from "preact/hooks";
import {api, longestPage, query} from "../api";
import type {Parameters} from "../api";
import {count, cutText, opText, percent, sentence, shortDigest} from "../format";
import {useChanges, useLoaded} from "../hooks";
import {choosesExperts, dtypes, hasExperts, kinds, poolings, pools} from "../kinds";
import {
  Choice, Facts, machineChoices, MachineLink, machineName, machineOf, NumberField, ProblemBox, Shown, wholeDigest,
} from "../parts";
import {optionNames} from "../purpose";
import {measuredOf, planFacts} from "../summary";
import type {Answer, List, Listed, Machine, Op} from "../types";
import {WhatIf} from "./what_if";

/** Content of the form. Every field is a parameter of GET /v1/plan with the same name. */
type Question = Record<"op" | "m" | "n" | "k" | "dtype" | "ranks" | "machine", string> & Record<string, string>;

const fieldNames = ["op", "m", "n", "k", "dtype", "ranks", "machine", "bias", "residual", "norm", "experts_per_rank", "experts", "top_k", "tables",
  "table_rows", "pooling", ...optionNames];

export function questionOf(op: Op, machine: string): Question {
  const epilogue = (op.epilogue ?? "").split("+");
  return {
    op: op.kind,
    m: String(op.m),
    n: String(op.n),
    k: String(op.k),
    dtype: op.dtype,
    ranks: String(op.world_size),
    machine,
    ...(epilogue.includes("bias") ? {bias: "true"} : {}),
    ...(epilogue.includes("residual") ? {residual: "true"} : {}),
    ...(epilogue.includes("rms_norm") ? {norm: "rms"} : {}),
    ...(op.experts_per_rank ? {experts_per_rank: String(op.experts_per_rank)} : {}),
    ...(op.experts ? {experts: String(op.experts.count), top_k: String(op.experts.top_k)} : {}),
    ...(op.tables
      ? {tables: String(op.tables.count), table_rows: String(op.tables.row_count), pooling: op.tables.pooling}
      : {}),
  };
}

function fromParameters(given: URLSearchParams): Question | null {
  if (!given.has("m")) return null;
  return Object.fromEntries(fieldNames.filter((name) => given.has(name)).map((name) => [name, given.get(name)!])) as Question;
}

/** Asks a question by going to its address, so that readers can bookmark it, send it and go back to it. */
const ask = (question: Question) => {
  const {tables, table_rows, pooling, bias, residual, norm, experts_per_rank, experts, top_k, ...common} = question;
  const ofExperts = hasExperts(question.op) ? {experts_per_rank} : choosesExperts(question.op) ? {experts, top_k} : {};
  const own = pools(question.op) ? {tables, table_rows, pooling} : {bias, residual, norm, ...ofExperts};
  location.hash = `#/${query({...common, ...own})}`;
};

/**
 * Fills in the form with a kept operator and asks at once. A button does this, not the change of the list, because the
 * list changes at every step of a reader who goes through it by keyboard.
 */
function KeptOperators({models, machines}: {models: Listed[]; machines: Machine[]}) {
  const submit = (event: Event) => {
    event.preventDefault();
    const model = models[Number(new FormData(event.target as HTMLFormElement).get("kept"))];
    if (model) ask(questionOf(model.op, model.machine));
  };
  if (models.length === 0) return null;
  return (
    <form class="kept" aria-label="Kept operators" onSubmit={submit}>
      <label>
        A kept operator
        <select name="kept">
          {models.map((model, i) => (
            <option key={model.digest} value={String(i)}>
              {opText(model.op) + (machines.length > 1 ? ` · ${machineName(machines, model.machine)}` : "")}
            </option>
          ))}
        </select>
      </label>
      <button type="submit">Take it</button>
    </form>
  );
}

/** The form. Typed values stay until another question is asked, by the form or by an address. */
function QuestionForm({question, machines}: {question: Question; machines: Machine[]}) {
  const [draft, setDraft] = useState(question);
  useEffect(() => setDraft(question), [query(question)]);
  const set = (name: string, value: string) => setDraft({...draft, [name]: value});
  const submit = (event: Event) => {
    event.preventDefault();
    ask(draft);
  };
  const flag = (name: string) => (
    <label class="flag">
      <input
        type="checkbox"
        checked={draft[name] === "true"}
        onChange={(event) => set(name, event.currentTarget.checked ? "true" : "")}
      />
      {name}
    </label>
  );
  const number = (name: string) => (
    <NumberField key={name} label={name} value={draft[name] ?? ""} onInput={(value) => set(name, value)} />
  );
  const choice = (name: string, label: string, values: [value: string, text: string][]) => (
    <Choice label={label} value={draft[name] || values[0]![0]} values={values} onChange={(value) => set(name, value)} />
  );
  // Planning options are rare: only those that the question has are there to be changed or emptied.
  const option = (name: string) => (
    <label key={name}>
      {name}
      <input
        value={draft[name] ?? ""}
        placeholder="the usual"
        onInput={(event) => set(name, event.currentTarget.value.trim())}
      />
    </label>
  );
  const same = (values: string[]): [string, string][] => values.map((value) => [value, value]);
  const ofTables = ["tables", "table_rows", "pooling"];
  const hasTables = pools(draft.op);
  return (
    <form class="question" aria-label="Question" onSubmit={submit}>
      {choice("op", "Operator", same(kinds))}
      {["m", "n", "k"].map(number)}
      {hasTables && ofTables.slice(0, 2).map(number)}
      {hasTables && choice("pooling", "pooling", same(poolings))}
      {hasExperts(draft.op) && number("experts_per_rank")}
      {choosesExperts(draft.op) && ["experts", "top_k"].map(number)}
      {choice("dtype", "Element type", same(dtypes))}
      {number("ranks")}
      {choice("machine", "Machine", machineChoices(machines))}
      {!hasTables && ["bias", "residual"].map(flag)}
      {!hasTables && choice("norm", "norm", same(["none", "rms"]))}
      {optionNames.filter((name) => question[name]).map(option)}
      <button type="submit">Ask for the plan</button>
    </form>
  );
}

const sources: Record<string, string> = {
  stored: "kept: it was raced on that machine",
  model: "made from the kept model just now",
  what_if: "what if",
};

function AnswerCard({answer, machines}: {answer: Answer; machines: Machine[]}) {
  const {plan} = answer;
  const machine = machineOf(plan.fingerprint, machines);
  return (
    <section aria-labelledby="answer-title" class="card">
      <h2 id="answer-title">{cutText(plan.cut)}</h2>
      <p>{sentence(plan.reason)}</p>
      {answer.stale && (
        <p>
          <strong>Worth tuning again</strong>: {sentence(answer.stale.why)}. It is predicted{" "}
          {percent(answer.stale.loss)} slower than {answer.stale.best_blocks} with {answer.stale.best_variant}.
        </p>
      )}
      <Facts
        facts={[
          ...planFacts(plan, measuredOf(plan), answer.source === "stored" ? undefined : "not run: the plan was made just now"),
          ["From", sources[answer.source] ?? answer.source],
          ["Machine", machine ? <MachineLink machines={machines} digest={machine.digest} /> : "not in the store"],
          [
            "Digest",
            answer.source === "stored" ? (
              <a href={`#/plans/${answer.digest}`}>{shortDigest(answer.digest)}</a>
            ) : (
              shortDigest(answer.digest)
            ),
          ],
          ["Epoch", count(answer.epoch)],
        ]}
      />
    </section>
  );
}

/**
 * The kept model to explore for an operator: one whose operator differs at most in m or in n, preferably not in n. The
 * service says which other m and n the model answers for.
 */
function modelFor(op: Op, models: Listed[]): Listed | undefined {
  const near = (model: Listed) => Number(model.op.n === op.n) * 2 + Number(model.op.m === op.m);
  const parts = ["k", "epilogue", "experts_per_rank", "experts", "tables"] as const;
  const isSame = ({op: other}: Listed) => parts.every((part) => JSON.stringify(other[part]) === JSON.stringify(op[part]));
  return models.filter((model) => isSame(model) && near(model) > 0).sort((a, b) => near(b) - near(a))[0];
}

function Explorer({answer, options}: {answer: Answer; options: string}) {
  const {op} = answer.plan;
  const machine = answer.plan.fingerprint;
  const filter = {op: op.kind, k: op.k, dtype: op.dtype, ranks: op.world_size, limit: longestPage};
  const found = useLoaded(JSON.stringify([filter, machine]), async () => {
    const [models, machines] = await Promise.all([api.models(filter), api.machines()]);
    const digest = machineOf(machine, machines)?.digest;
    return {model: modelFor(op, models.items.filter((model) => model.machine === digest))};
  });
  return (
    <Shown loaded={found}>
      {({model}) =>
        model ? (
          <WhatIf model={model} answer={answer} options={options} />
        ) : (
          <p class="muted">The plan's cost model is not kept here, so there is nothing to explore.</p>
        )
      }
    </Shown>
  );
}

/** The planning options of a question in words, "max_block_count=4"; empty if it has none. */
const optionsOf = (question: Question | null): string =>
  optionNames.filter((name) => question?.[name]).map((name) => `${name}=${question![name]}`).join(", ");

const withWholeDigest = (question: Question, machines: Machine[]): Question => ({
  ...question,
  machine: wholeDigest(machines, question.machine ?? ""),
});

const noQuestion: Question = {op: kinds[0]!, m: "", n: "", k: "", dtype: "f32", ranks: "2", machine: ""};

export function QueryPage({given}: {given: URLSearchParams}) {
  const loaded = useLoaded("kept", async () => {
    const [models, machines]: [List, Machine[]] = await Promise.all([api.models({limit: longestPage}), api.machines()]);
    return {models: models.items, machines};
  });
  const newest = loaded.value?.models[0];
  const question = fromParameters(given) ?? (newest ? questionOf(newest.op, newest.machine) : null);
  const key = question && loaded.value ? query(question) : null;
  const changes = useChanges();
  const answer = useLoaded(key && `${key} ${changes}`, () => api.plan(question as Parameters));
  return (
    <>
      <h1>Ask for a plan</h1>
      <Shown loaded={loaded}>
        {({models, machines}) => (
          <>
            <KeptOperators models={models} machines={machines} />
            <QuestionForm question={withWholeDigest(question ?? noQuestion, machines)} machines={machines} />
            {!question && (
              <p class="muted">
                The store is empty: <code>mc2 tune</code> or <code>mc2 profile</code> on a machine fills it.
              </p>
            )}
          </>
        )}
      </Shown>
      <div aria-live="polite" aria-busy={answer.isLoading}>
        {answer.problem ? <ProblemBox problem={answer.problem} /> : answer.value && <AnswerCard answer={answer.value} machines={loaded.value?.machines ?? []} />}
      </div>
      {answer.value && (
        <Explorer key={`${key} ${answer.value.digest}`} answer={answer.value} options={optionsOf(question)} />
      )}
    </>
  );
}
