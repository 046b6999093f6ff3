import {percent, time} from "./format";
import {TableOf} from "./parts";
import type {Excursion, Flip, Parameter, Sensitivity} from "./types";

const names: Record<string, string> = {
  compute_time: "compute",
  communication_time: "communication",
  communication_latency: "latency of a message",
  compute_slowdown: "compute slow-down",
  communication_slowdown: "communication slow-down",
  compute_block_fixed: "fixed cost of a block's compute",
  communication_block_fixed: "fixed cost of a block's communication",
  rows: "m",
  columns: "n",
};

const nameOf = ({parameter}: Parameter) => names[parameter] ?? parameter.replaceAll("_", " ");

function valueText({unit}: Parameter, value: number): string {
  if (unit === "us") return time(value);
  if (unit !== "x") return String(Math.round(value));
  const rounded = value.toLocaleString("en", {maximumSignificantDigits: 3, useGrouping: false});
  return `× ${rounded}`;
}

/** Where a value stands between the furthest that were tried, 0 to 1: by ratios, but near 0 by differences. */
function placeOf({lower, higher, value: today}: Parameter, value: number): number {
  const [low, high] = [lower.end_value, higher.end_value];
  if (high <= low) return 0.5;
  const small = low > 0 ? low / 1000 : Math.max(today, high / 1000);
  const scaled = (of: number) => Math.asinh(of / small);
  return Math.min(1, Math.max(0, (scaled(value) - scaled(low)) / (scaled(high) - scaled(low))));
}

const marks: Record<Flip["kind"], string> = {other_lengths: "other lengths", other_count: "another number of blocks", cut_or_uncut: "cut or not"};

const rowHeight = 52, barTop = 18, barHeight = 14;

/** Up to where a plan is good enough in one direction; a plan is of one m and n, so there up to the next decision. */
const goodUntil = ({parameter}: Parameter, {one_percent_value, flips, end_value}: Excursion) =>
  one_percent_value ?? (parameter === "rows" || parameter === "columns" ? flips[0]?.value : undefined) ?? end_value;

function Range({parameter, y}: {parameter: Parameter; y: number}) {
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
      <rect class="near" x={at(low)} width={`${(100 * width).toFixed(2)}%`} y={y + barTop} height={barHeight} rx="2">
        <title>{`good from ${valueText(parameter, low)} to ${valueText(parameter, high)}`}</title>
      </rect>
      <line class="today" x1={at(value)} x2={at(value)} y1={y + barTop - 3} y2={y + barTop + barHeight + 3} />
      {[...lower.flips, ...higher.flips].map((flip) => (
        <circle key={flip.text} class={`flip ${flip.kind}`} cx={at(flip.value)} cy={y + barTop + barHeight / 2} r="5">
          <title>{flip.text}</title>
        </circle>
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

const flipRows = (parameters: Parameter[]) =>
  parameters.flatMap((parameter) => [...parameter.lower.flips, ...parameter.higher.flips].map((flip) => ({parameter, flip})));

/** How far each thing that a plan was made from may be off before another plan is better. */
export function Decisions({sensitivity}: {sensitivity: Sensitivity}) {
  const {parameters} = sensitivity;
  const label = "How far each value may be off before another plan is better";
  return (
    <>
      <h3>What would change the decision</h3>
      <figure class="decisions">
        <svg role="img" aria-label={label} width="100%" height={parameters.length * rowHeight}>
          {parameters.map((parameter, i) => (
            <Range key={parameter.parameter} parameter={parameter} y={i * rowHeight} />
          ))}
        </svg>
        <figcaption>
          <span class="key near">this plan is within 1 % of the best</span>
          <span class="key tried">tried</span>
          <span class="key today">today</span>
          {Object.entries(marks).map(([kind, text]) => (
            <span key={kind} class={`key flip ${kind}`}>
              from here on best: {text}
            </span>
          ))}
        </figcaption>
      </figure>
      <TableOf
        caption="Decisions that would change"
        rows={flipRows(parameters)}
        columns={[
          {name: "Value", of: ({parameter}) => nameOf(parameter)},
          {name: "From", of: ({parameter, flip}) => valueText(parameter, flip.value), isNumber: true},
          {name: "Keeping the plan costs", of: ({flip}) => (flip.kept_us ? percent(flip.kept_us / flip.best_us - 1) : "–"), isNumber: true},
          {name: "What", of: ({flip}) => flip.text},
        ]}
      />
      <details class="numbers">
        <summary>In words</summary>
        <ul>
          {parameters.map(({parameter, text}) => (
            <li key={parameter}>{text}</li>
          ))}
        </ul>
      </details>
    </>
  );
}
