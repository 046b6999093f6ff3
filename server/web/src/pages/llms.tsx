import {useEffect, useState} from "preact/hooks";
import {api, query} from "../api";
import type {Parameters} from "../api";
import {Chart} from "../chart";
import {count, percent, sentence, time} from "../format";
import {useLoaded} from "../hooks";
import {dtypes} from "../kinds";
import {Choice, machineChoices, NumberField, ProblemBox, Shown, Table, wholeDigest} from "../parts";
import {parameters} from "../types";
import type {Llm, LlmPlan, LlmSite, LlmStep, Machine, Provenance} from "../types";

/** Content of the form. Every field but `llm` is a query parameter of the same name. */
type Question = Record<"llm" | "ranks" | "first_m" | "m" | "dtype" | "machine", string>;

const {LlmRanks: legalRanks, LlmFirst: legalFirst, LlmLast: legalLast} = parameters;
const usual: Question = {
  llm: "",
  ranks: String(legalRanks.default),
  first_m: String(legalFirst.default),
  m: String(legalLast.default),
  dtype: "",
  machine: "",
};
const fieldNames = Object.keys(usual) as (keyof Question)[];

const fromParameters = (given: URLSearchParams): Question =>
  Object.fromEntries(fieldNames.map((name) => [name, given.get(name) ?? usual[name]])) as Question;

/** A configuration from the reader's own files. No address contains it. */
interface OwnConfig {
  name: string;
  text: string;
}

/** Planning the ranges of all operators takes longer than the default deadline of one plan. */
const deadlineMs = 30_000;

const ask = ({llm, ...parameters}: Question, own: OwnConfig | null): Promise<LlmPlan> => {
  const given: Parameters = {...parameters, deadline_ms: deadlineMs};
  return own ? api.ownLlmPlan(own.text, {...given, name: own.name}) : api.llmPlan(llm, given);
};

interface FormProps {
  question: Question;
  own: OwnConfig | null;
  llms: Llm[];
  machines: Machine[];
  onOwn: (own: OwnConfig | null) => void;
}

function QuestionForm({question, own, llms, machines, onOwn}: FormProps) {
  const [draft, setDraft] = useState(question);
  useEffect(() => setDraft(question), [query(question)]);
  const set = (name: keyof Question, value: string) => setDraft({...draft, [name]: value});
  const submit = (event: Event) => {
    event.preventDefault();
    location.hash = `#/llms${query(draft)}`;
  };
  const takeFile = async (file: File | undefined) => {
    if (!file) return;
    onOwn({name: file.name.replace(/\.json$/, ""), text: await file.text()});
    location.hash = `#/llms${query(draft)}`;
  };
  const number = (name: keyof Question, label: string, {minimum, maximum}: {minimum: number; maximum: number}) => (
    <NumberField label={label} value={draft[name]} min={minimum} max={maximum} onInput={(value) => set(name, value)} />
  );
  const choice = (name: keyof Question, label: string, values: [value: string, text: string][]) => (
    <Choice label={label} value={draft[name]} values={values} onChange={(value) => set(name, value)} />
  );
  return (
    <form class="question" aria-label="Question" onSubmit={submit}>
      {own ? (
        <button type="button" onClick={() => onOwn(null)}>
          {own.name}: take a built-in model instead
        </button>
      ) : (
        choice("llm", "Model", llms.map(({name}): [string, string] => [name, name]))
      )}
      <label>
        or a config.json
        <input
          type="file"
          accept="application/json,.json"
          onChange={(event) => void takeFile(event.currentTarget.files?.[0])}
        />
      </label>
      {number("ranks", "ranks", legalRanks)}
      {number("first_m", "m from", legalFirst)}
      {number("m", "to", legalLast)}
      {choice("dtype", "Element type", [["", "the model's"], ...dtypes.map((name): [string, string] => [name, name])])}
      {choice("machine", "Machine", machineChoices(machines))}
      <button type="submit">Ask for its layers</button>
    </form>
  );
}

const between = (first: string, last: string) => (first === last ? first : `${first} to ${last}`);
const few = (texts: string[]) => texts.slice(0, 3).join(", ") + (texts.length > 3 ? ", …" : "");

/** Where to fuse. Where nothing is to be fused but not all m have a plan, that is unknown but for the planned steps. */
function fusedText({fused, ranges, points}: LlmSite): string {
  if (fused.length > 0) return few(fused.map((run) => between(count(run.first_tokens), count(run.last_tokens))));
  if (!ranges?.gaps.length) return "nowhere";
  return points.length === 0 ? "unknown" : `not at ${few(points.map(({tokens}) => count(tokens)))}; else unknown`;
}

function gainText({fused}: LlmSite): string {
  if (fused.length === 0) return "";
  const least = Math.min(...fused.map((run) => run.least_benefit));
  const most = Math.max(...fused.map((run) => run.most_benefit));
  return between(percent(least), percent(most));
}

const nameOf = ({layer, kind}: LlmSite) => `${layer} (${kind})`;

type Keyed<T> = [key: string, value: T];

/** What belongs to each key, in the order in which keys first come. */
function grouped<T>(entries: Keyed<T>[]): Keyed<T[]>[] {
  const groups = new Map<string, T[]>();
  for (const [key, value] of entries) groups.set(key, [...(groups.get(key) ?? []), value]);
  return [...groups];
}

/** The m of a site that have no plan, by reason. */
const gapsOf = ({ranges}: LlmSite): Keyed<string>[] =>
  (ranges?.gaps ?? []).map(({reason, first_m, last_m}) => [reason, between(count(first_m), count(last_m))]);

/** What has no plan and why, each reason once. */
function missingTexts(sites: LlmSite[]): string[] {
  const refused = sites.filter((site) => !site.ranges).map((site): Keyed<string> => [site.reason ?? "", nameOf(site)]);
  const gaps = sites.flatMap((site) =>
    grouped(gapsOf(site)).map(([reason, all_m]): Keyed<Keyed<string>> => [reason, [few(all_m), nameOf(site)]]),
  );
  const places = (found: Keyed<string>[]) =>
    grouped(found).map(([all_m, names]) => `${names.join(", ")} at m of ${all_m}`).join("; ");
  return [
    ...grouped(refused).map(([reason, names]) => `Not planned: ${names.join(", ")}: ${reason}`),
    ...grouped(gaps).map(([reason, found]) => `No plan: ${places(found)}: ${reason}`),
  ].map(sentence);
}

/** From strong to weak, with what `mc2 model` says of predictions of each. */
const provenances: [Provenance, string][] = [
  ["measured", "Predicted from what was measured on that machine."],
  ["interpolated", "Predicted from what was measured on that machine."],
  ["extrapolated", "EXTRAPOLATED in part: blocks or sizes lie outside what was measured."],
  [
    "analytic",
    "ANALYTIC, from published constants: nothing was measured; they leave out memory bandwidth, so that few rows may " +
      "take longer.",
  ],
];

/** The text of the weakest provenance. */
const provenanceText = (steps: LlmStep[]): string =>
  provenances.filter(([name], i) => i === 0 || steps.some((step) => step.fused.provenance === name)).pop()![1];

const forms = {all_reduce: "all-reduce", sequence_parallel: "sequence parallel"};

const benefit = ({serial_us, fused}: LlmStep) => (serial_us > 0 ? 1 - fused.us / serial_us : 0);

function savedText(step: LlmStep | undefined): string {
  if (!step) return "";
  const interval = step.benefit_interval;
  return percent(benefit(step)) + (interval ? ` (${percent(interval.low)} to ${percent(interval.high)})` : "");
}

/** One row per number of tokens, with the steps of both forms side by side. */
function rowsOf(steps: LlmStep[]) {
  const at = (tokens: number, form: LlmStep["form"]) =>
    steps.find((step) => step.tokens === tokens && step.form === form);
  return [...new Set(steps.map((step) => step.tokens))].map((tokens) => ({
    tokens,
    all_reduce: at(tokens, "all_reduce"),
    sequence_parallel: at(tokens, "sequence_parallel"),
  }));
}

const timeText = (step: LlmStep | undefined) =>
  !step ? "no plan" : time(step.fused.us) + (step.missing.length > 0 ? ` without ${step.missing.join(", ")}` : "");

function Steps({plan}: {plan: LlmPlan}) {
  const rows = rowsOf(plan.steps);
  if (rows.length === 0) return null;
  return (
    <>
      <h3>What fusing saves in a step</h3>
      <p>
        Predicted time of all these layers together in one step of m tokens: a decode step of m sequences, or a prefill of
        m tokens. Where every rank has m / ranks rows, m is rounded up to a multiple of the ranks. Attention, norms and
        everything else are left out. The 90 % interval in brackets assumes that all layers are fast together or slow
        together.
      </p>
      <p>{provenanceText(plan.steps)}</p>
      <Chart
        label="Share of the time that fusing saves, by tokens of a step"
        x={rows.map((row) => row.tokens)}
        xName="m"
        xText={count}
        yText={percent}
        isShare
        logarithmic="x"
        series={[
          {
            name: forms.all_reduce,
            values: rows.map(({all_reduce}) => (all_reduce ? benefit(all_reduce) : null)),
            color: "compute",
            kind: "line",
          },
          {
            name: forms.sequence_parallel,
            values: rows.map(({sequence_parallel}) => (sequence_parallel ? benefit(sequence_parallel) : null)),
            color: "communication",
            kind: "line",
          },
        ]}
      />
      <Table
        caption="Steps"
        rows={rows}
        columns={[
          {name: "m", of: ({tokens}) => count(tokens), isNumber: true},
          {name: forms.all_reduce, of: ({all_reduce}) => timeText(all_reduce), isNumber: true},
          {name: "saved", of: ({all_reduce}) => savedText(all_reduce), isNumber: true},
          {name: forms.sequence_parallel, of: ({sequence_parallel}) => timeText(sequence_parallel), isNumber: true},
          {name: "saved ", of: ({sequence_parallel}) => savedText(sequence_parallel), isNumber: true},
        ]}
      />
    </>
  );
}

function AnswerCard({plan}: {plan: LlmPlan}) {
  const planned = plan.sites.filter((site) => site.ranges);
  const missing = missingTexts(plan.sites);
  return (
    <section aria-labelledby="answer-title" class="card">
      <h2 id="answer-title">
        {plan.name} on {plan.ranks} ranks
      </h2>
      <Table
        caption="Layers that ranks share, and where fusing pays"
        rows={planned}
        columns={[
          {name: "layer", of: ({layer}) => layer, isOneLine: true},
          {name: "operator", of: ({kind}) => kind, isOneLine: true},
          {name: "n x k", of: ({op}) => (op ? `${count(op.n)} x ${count(op.k)}` : ""), isNumber: true},
          {name: "count", of: (site) => count(site.count), isNumber: true},
          {name: "fuse at m", of: fusedText, isOneLine: true},
          {name: "gain", of: gainText, isNumber: true},
        ]}
      />
      {missing.length > 0 && (
        <ul>
          {missing.map((text) => (
            <li key={text}>{text}</li>
          ))}
        </ul>
      )}
      <Steps plan={plan} />
      <ul class="muted">
        {plan.rest.map(({what, why}) => (
          <li key={what}>
            Not fused: {what}: {why}
          </li>
        ))}
      </ul>
    </section>
  );
}

export function LlmPage({given}: {given: URLSearchParams}) {
  const [own, setOwn] = useState<OwnConfig | null>(null);
  const loaded = useLoaded("llms", async () => {
    const [llms, machines] = await Promise.all([api.llms(), api.machines()]);
    return {llms, machines};
  });
  const question = fromParameters(given);
  const isAsked = given.has("llm") || own !== null;
  const key = isAsked ? JSON.stringify([question, own]) : null;
  const answer = useLoaded(key, () => ask(question, own));
  return (
    <>
      <h1>Plan a whole model</h1>
      <p>
        Which layers of a language model to fuse at which m, and what that saves, by the cost models that are kept here.
      </p>
      <Shown loaded={loaded}>
        {({llms, machines}) => (
          <QuestionForm
            question={{
              ...question,
              llm: question.llm || llms[0]!.name,
              machine: wholeDigest(machines, question.machine),
            }}
            own={own}
            llms={llms}
            machines={machines}
            onOwn={setOwn}
          />
        )}
      </Shown>
      <div aria-live="polite" aria-busy={answer.isLoading}>
        {answer.problem ? <ProblemBox problem={answer.problem} /> : answer.value && <AnswerCard plan={answer.value} />}
      </div>
    </>
  );
}
