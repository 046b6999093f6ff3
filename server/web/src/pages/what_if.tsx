import {useId, useState} from "preact/hooks";
import {api} from "../api";
import {Chart} from "../chart";
import {benefit, cutText, percent, time, timeMarks, variantText} from "../format";
import {useLoaded} from "../hooks";
import {maxColumnCutRows} from "../kinds";
import {Facts, ProblemBox, TableOf} from "../parts";
import {planRows, serialRow, TimelineChart} from "../timeline";
import type {Answer, Exploration, LengthEntry, Listed, Op, Plan} from "../types";

interface SliderProps {
  label: string;
  text: string;
  value: number;
  min: number;
  max: number;
  step: number;
  onInput: (value: number) => void;
}

function Slider({label, text, onInput, ...range}: SliderProps) {
  const id = useId();
  return (
    <div class="slider">
      <label for={id}>{label}</label>
      <output for={id}>{text}</output>
      <input
        id={id}
        type="range"
        {...range}
        aria-valuetext={text}
        onInput={(event) => onInput(event.currentTarget.valueAsNumber)}
      />
    </div>
  );
}

const speedText = (speed: number) => (speed === 1 ? "as now" : `× ${speed.toLocaleString("en", {maximumSignificantDigits: 3})}`);

const alignments = ["16", "32", "64", "128", "256", "512"];

/**
 * Range and step of a size's slider. Steps keep the operator legal: ranks hold equally many rows, tables columns.
 * So does the least m: a model whose blocks are rows does not answer for so few rows that blocks are columns.
 */
function sizeRange(op: Op, axis: "m" | "n") {
  const unit = axis === "m" ? op.world_size * (op.experts_per_rank ?? 1) : (op.tables?.count ?? 1);
  const step = Math.max(unit, Math.round(op[axis] / 16 / unit) * unit);
  const least = axis === "m" ? maxColumnCutRows(op.kind) + 1 : unit;
  return {min: op[axis] - Math.floor(Math.max(0, op[axis] - least) / step) * step, max: 4 * op[axis], step};
}

/** The value of a size's slider; where it goes no further although fewer rows are legal, why. */
function sizeText(op: Op, axis: "m" | "n", value: number): string {
  const few = maxColumnCutRows(op.kind);
  const {min, step} = sizeRange(op, axis);
  const isEnd = axis === "m" && few > 0 && value === min && min > step;
  return isEnd ? `${value}, the least: up to ${few} rows, blocks are columns` : String(value);
}

/** Whether two predictions of one time are the same but for rounding. */
const isSame = (us: number, other_us: number) => Math.abs(us - other_us) <= 0.001 * other_us;

/** Why the what-if of the present model is not the answer, although nothing is moved; empty if it is. */
function differenceText({plan, source}: Answer, {best}: Exploration, options: string): string {
  const choice = ({cut, variant}: Plan) => `${cutText(cut)} ${variantText(variant)}`;
  const isSameChoice = choice(best) === choice(plan);
  const isSamePrediction =
    isSame(best.serial_us, plan.serial_us) && (!isSameChoice || isSame(best.makespan.us, plan.makespan.us));
  if (isSameChoice && isSamePrediction) return "";
  if (options) return `It is planned with the usual options, the plan above with ${options}.`;
  if (source !== "stored") return "";
  if (isSamePrediction && plan.validation) return "The plan above was chosen by a race, this one by the model alone.";
  return (
    `The model has changed since the plan above was made, which predicts serial ${time(plan.serial_us)}; ` +
    `the present one predicts ${time(best.serial_us)}.`
  );
}

/** Text of a block length, e.g. "64, odd block 448, the best". */
function lengthText(entry: LengthEntry, {axis_length, best_length}: Exploration): string {
  const parts = [entry.block_length === axis_length ? `${axis_length}, uncut` : String(entry.block_length)];
  if (entry.odd_blocks.length > 0) parts.push(`odd block ${entry.odd_blocks.join(", ")}`);
  if (entry.block_length === best_length) parts.push("the best");
  return parts.join(", ");
}

function LengthChart({answer, onPick}: {answer: Exploration; onPick: (length: number) => void}) {
  const {lengths, chosen, axis} = answer;
  const only = (at: number, us: number) => lengths.map((entry) => (entry.block_length === at ? us : null));
  const constant = (us: number) => lengths.map(() => us);
  return (
    <>
      <Chart
        label="Predicted makespan over the block length"
        x={lengths.map((entry) => entry.block_length)}
        xName={`block length, ${axis}`}
        xText={(value) => String(Math.round(value))}
        yText={time}
        yMarks={timeMarks}
        band={["upper end", "lower end"]}
        onPick={(index) => lengths[index] && onPick(lengths[index].block_length)}
        series={[
          {name: "upper end", values: lengths.map((entry) => entry.high_us), color: "compute", kind: "edge"},
          {name: "lower end", values: lengths.map((entry) => entry.low_us), color: "compute", kind: "edge"},
          {name: "makespan", values: lengths.map((entry) => entry.makespan_us), color: "compute", kind: "line"},
          {name: "serial", values: constant(chosen.serial_us), color: "muted", kind: "dashed"},
          {name: "ideal", values: constant(chosen.ideal_us), color: "good", kind: "dashed"},
          {name: "chosen", values: only(answer.block_length, chosen.makespan.us), color: "accent", kind: "points", size: 11},
        ]}
      />
      <TableOf
        caption="Makespan over the block length"
        rows={lengths}
        columns={[
          {name: "Block length", of: (entry) => entry.block_length, isNumber: true},
          {name: "Odd block", of: (entry) => entry.odd_blocks.join(", ") || "none", isNumber: true},
          {name: "Blocks", of: (entry) => entry.block_count, isNumber: true},
          {name: "Cut", of: (entry) => entry.cut},
          {name: "Makespan", of: (entry) => time(entry.makespan_us), isNumber: true},
          {name: "90 % interval", of: (entry) => `${time(entry.low_us)} to ${time(entry.high_us)}`, isNumber: true},
          {name: "Variant", of: (entry) => entry.variant},
        ]}
      />
    </>
  );
}

function Outcome({answer, isBusy}: {answer: Exploration; isBusy: boolean}) {
  const {best, chosen} = answer;
  return (
    <>
      <p role="status" aria-busy={isBusy} class="hidden">
        {`Makespan ${time(chosen.makespan.us)}, gain ${percent(benefit(chosen))}, ${cutText(chosen.cut)}`}
      </p>
      <Facts
        facts={[
          ["Makespan", <b data-testid="makespan">{time(chosen.makespan.us)}</b>],
          ["90 % interval", `${time(chosen.makespan.low_us)} to ${time(chosen.makespan.high_us)}`],
          ["Serial", <span data-testid="serial">{time(chosen.serial_us)}</span>],
          ["Ideal", time(chosen.ideal_us)],
          ["Gain", percent(benefit(chosen))],
          ["Blocks", cutText(chosen.cut)],
          ["Variant", variantText(chosen.variant)],
          ["Bound", chosen.bound],
          ["mc2 would choose", `${cutText(best.cut)}, ${time(best.makespan.us)}`],
        ]}
      />
    </>
  );
}

/** Explores plans for another size, a faster or slower machine, or other blocks. The service computes them and keeps nothing. */
export function WhatIf({model, answer: asked, options}: {model: Listed; answer: Answer; options: string}) {
  const {op} = asked.plan;
  const [size, setSize] = useState<{m: number; n: number}>({m: op.m, n: op.n});
  const [compute, setCompute] = useState(0); // exponent of 2, as of link
  const [link, setLink] = useState(0);
  const [length, setLength] = useState<number | null>(null); // null: the planner's own choice
  const [alignment, setAlignment] = useState(""); // "": the machine's own
  const change = {
    ...size,
    compute_speed: 2 ** compute,
    link_speed: 2 ** link,
    block_length: length,
    alignment,
  };
  const loaded = useLoaded(JSON.stringify(change), () => api.exploration(model.digest, change));
  const answer = loaded.value;
  const [last, setLast] = useState<Exploration>();
  if (answer && answer !== last) setLast(answer);
  const shown = answer ?? last; // the last answer stays if a question has none, so that the sliders do too
  const axis = shown?.axis === "columns" ? "n" : "m";
  const range = sizeRange(op, axis);
  const lengths = shown?.lengths ?? [];
  // The slider stays where it was moved to, so that it does not jump back while the answer is on its way.
  const at = lengths.findIndex((entry) => entry.block_length === (length ?? shown?.block_length));
  const index = Math.max(0, at < 0 ? lengths.findIndex((entry) => entry.block_length === shown?.block_length) : at);
  const entry = lengths[index];
  const isChanged = size.m !== op.m || size.n !== op.n || compute !== 0 || link !== 0 || length !== null || alignment !== "";
  const reset = () => {
    setSize({m: op.m, n: op.n});
    setCompute(0);
    setLink(0);
    setLength(null);
    setAlignment("");
  };
  return (
    <section aria-labelledby="what-if-title" class="card">
      <h2 id="what-if-title">What if</h2>
      <p class="muted">
        What the present cost model predicts. {!isChanged && answer && !loaded.isLoading && differenceText(asked, answer, options)}
      </p>
      <form class="sliders" aria-label="What if" onSubmit={(event) => event.preventDefault()}>
        <Slider
          label={axis}
          text={sizeText(op, axis, size[axis])}
          value={size[axis]}
          {...range}
          onInput={(value) => setSize({...size, [axis]: value})}
        />
        <Slider label="Link speed" text={speedText(2 ** link)} value={link} min={-4} max={4} step={0.25} onInput={setLink} />
        <Slider label="Compute speed" text={speedText(2 ** compute)} value={compute} min={-4} max={4} step={0.25} onInput={setCompute} />
        <Slider
          label="Block length"
          text={shown && entry ? lengthText(entry, shown) : "…"}
          value={index}
          min={0}
          max={Math.max(1, lengths.length - 1)}
          step={1}
          onInput={(at) => setLength(lengths[at]?.block_length ?? null)}
        />
        <label class="steps">
          Long blocks are multiples of
          <select value={alignment} onChange={(event) => setAlignment(event.currentTarget.value)}>
            <option value="">the machine's own alignment</option>
            {alignments.map((steps) => (
              <option key={steps} value={steps}>
                {steps}
              </option>
            ))}
          </select>
        </label>
        <button type="button" onClick={() => setLength(null)} disabled={length === null}>
          Best block length
        </button>
        <button type="button" onClick={reset} disabled={!isChanged}>
          Reset
        </button>
      </form>
      {loaded.problem && <ProblemBox problem={loaded.problem} />}
      {shown && (
        <div class={loaded.problem ? "stale" : ""}>
          <Outcome answer={shown} isBusy={loaded.isLoading} />
          <TimelineChart
            label="Predicted timeline"
            rows={[
              ...planRows(shown.chosen, shown.first_lane),
              serialRow("serial", shown.first_lane, shown.chosen.compute_us, shown.chosen.communication_us),
            ]}
          />
          <LengthChart answer={shown} onPick={setLength} />
        </div>
      )}
    </section>
  );
}
