import {percent, sentence, time} from "./format";
import type {ComponentChildren} from "preact";
import {TableOf} from "./parts";
import type {Excursion, Flip, Parameter, Sensitivity} from "./types";

const names: Record<string, string> = {
  compute_time: "compute time",
  communication_time: "communication time",
  communication_latency: "latency of a message",
  compute_slowdown: "compute slow-down",
  communication_slowdown: "communication slow-down",
  compute_block_fixed: "fixed cost of a block's compute",
  communication_block_fixed: "fixed cost of a block's communication",
  rows: "m",
  columns: "n",
  imbalance: "imbalance of the ranks' rows",
};

const nameOf = ({parameter}: Parameter) => names[parameter] ?? parameter.replaceAll("_", " ");

function valueText({unit}: Parameter, value: number): string {
  if (unit === "us") return time(value);
  if (unit !== "x") return String(Math.round(value));
  const digits = Math.abs(value - 1) < 0.01 ? 6 : 3; // so that a change of less than 1 % is visible
  const rounded = value.toLocaleString("en", {maximumSignificantDigits: digits, useGrouping: false});
  return `× ${rounded}`;
}

/** Place of a value between the two end values, from 0 to 1: on a logarithmic scale that becomes linear near 0. */
function placeOf({lower, higher, value: today}: Parameter, value: number): number {
  const [low, high] = [lower.end_value, higher.end_value];
  if (high <= low) return 0.5;
  const small = low > high * 1e-9 ? low / 1000 : Math.max(today, high / 1000); // a fit may leave 1e-313 for nothing
  const scaled = (of: number) => Math.asinh(of / small);
  return Math.min(1, Math.max(0, (scaled(value) - scaled(low)) / (scaled(high) - scaled(low))));
}

const marks: Record<Flip["kind"], string> = {
  other_lengths: "other block lengths",
  other_count: "another number of blocks or another variant",
  cut_or_uncut: "cut instead of uncut, or the reverse",
};

const rowHeight = 52, barTop = 18, barHeight = 14;

/**
 * The value up to which a plan is within 1 % of the best in one direction. For another m or n that is not known, as a plan
 * holds for its own m and n only; there it is the value at which the decision changes first.
 */
const goodUntil = ({parameter}: Parameter, {one_percent_value, flips, end_value}: Excursion) =>
  one_percent_value ?? (parameter === "rows" || parameter === "columns" ? flips[0]?.value : undefined) ?? end_value;

/** A shape for each kind of flip, so that kinds do not differ by colour only. */
const shapes: Record<Flip["kind"], ComponentChildren> = {
  other_lengths: <circle r="5" />,
  other_count: <rect x="-5" y="-5" width="10" height="10" />,
  cut_or_uncut: <path d="M 0 -7 L 7 6 L -7 6 Z" />,
};

function Range({parameter, isGood, y}: {parameter: Parameter; isGood: boolean; y: number}) {
  const {lower, higher, value} = parameter;
  const at = (of: number) => `${(100 * placeOf(parameter, of)).toFixed(2)}%`;
  const low = goodUntil(parameter, lower), high = goodUntil(parameter, higher);
  const width = placeOf(parameter, high) - placeOf(parameter, low);
  return (
    <g data-parameter={parameter.parameter}>
      <text x="0" y={y + 12}>
        {nameOf(parameter)}, {valueText(parameter, value)} today
      </text>
      <rect class="tried" x="0" width="100%" y={y + barTop} height={barHeight} rx="2" />
      {isGood && <rect class="near" x={at(low)} width={`${(100 * width).toFixed(2)}%`} y={y + barTop} height={barHeight} rx="2" />}
      <line class="today" x1={at(value)} x2={at(value)} y1={y + barTop - 3} y2={y + barTop + barHeight + 3} />
      {[...lower.flips, ...higher.flips].map((flip) => (
        <svg key={flip.text} x={at(flip.value)} y={y + barTop + barHeight / 2} overflow="visible">
          <g class={`flip ${flip.kind}`}>
            {shapes[flip.kind]}
            <title>{sentence(flip.text)}</title>
          </g>
        </svg>
      ))}
      <text class="tick" x="0" y={y + 44}>
        {valueText(parameter, lower.end_value)}
      </text>
      <text class="tick" x="100%" y={y + 44} text-anchor="end">
        {valueText(parameter, higher.end_value)}
      </text>
    </g>
  );
}

/** Shows how far each value that a plan was made from may be off before another plan is better. */
export function Decisions({sensitivity}: {sensitivity: Sensitivity}) {
  const {parameters, kept_us, best_us} = sensitivity;
  const loss = best_us > 0 ? kept_us / best_us - 1 : 0;
  const isGood = loss < 0.01;
  const label = "How far each value may be off before another plan is better";
  return (
    <>
      <h3>What would change the decision</h3>
      {!isGood && <p>By the model as it is, this plan already takes {percent(loss)} longer than the best one, so no range is marked as good.</p>}
      <figure class="decisions">
        <svg role="img" aria-label={label} width="100%" height={parameters.length * rowHeight}>
          {parameters.map((parameter, i) => (
            <Range key={parameter.parameter} parameter={parameter} isGood={isGood} y={i * rowHeight} />
          ))}
        </svg>
        <figcaption>
          {isGood && <span class="key near">this plan is within 1 % of the best</span>}
          <span class="key tried">tried</span>
          <span class="key today">today</span>
          {Object.entries(marks).map(([kind, text]) => (
            <span key={kind} class="mark">
              <svg width="16" height="16" viewBox="-8 -8 16 16" aria-hidden="true">
                <g class={`flip ${kind}`}>{shapes[kind as Flip["kind"]]}</g>
              </svg>{" "}
              from here on another plan is best: {text}
            </span>
          ))}
        </figcaption>
      </figure>
      <TableOf
        caption="Decisions that would change"
        rows={parameters}
        columns={[
          {name: "Value", of: nameOf},
          {name: "Today", of: (row) => valueText(row, row.value), isNumber: true},
          {name: "Good from", of: (row) => (isGood ? valueText(row, goodUntil(row, row.lower)) : "–"), isNumber: true},
          {name: "to", of: (row) => (isGood ? valueText(row, goodUntil(row, row.higher)) : "–"), isNumber: true},
          {name: "Next decision below", of: ({lower}) => sentence(lower.flips[0]?.text ?? "none")},
          {name: "above", of: ({higher}) => sentence(higher.flips[0]?.text ?? "none")},
        ]}
      />
      <details class="numbers">
        <summary>In words</summary>
        <ul>
          {parameters.map(({parameter, text}) => (
            <li key={parameter}>{sentence(text)}</li>
          ))}
        </ul>
      </details>
    </>
  );
}
