import {ticks} from "d3-array";
import {useState} from "preact/hooks";
import {blocksOf, time, timeMarks} from "./format";
import {TableOf} from "./parts";
import type {Lane, Plan, Span} from "./types";

/** One bar of a row: when it starts and ends, on which lane, and what it stands for. */
export interface Bar extends Span {
  lane: Lane | "whole";
  name: string;
  text?: string;
}

export interface Row {
  name: string;
  bars: Bar[];
}

const other = (lane: Lane): Lane => (lane === "compute" ? "communication" : "compute");

/** Two rows, one for each lane of a plan. If the local part comes first, the first bar is the local part. */
export function planRows(plan: Plan, firstLane: Lane, title = ""): Row[] {
  const lengths = blocksOf(plan.cut);
  const names = plan.is_local_first ? ["own shard", ...lengths.map(String)] : lengths.map(String);
  const bars = (spans: Span[], lane: Lane): Bar[] =>
    spans.map((span, i) => ({...span, lane, name: `block ${i + 1} of ${spans.length}: ${names[i] ?? ""}`, text: names[i] ?? ""}));
  const named = (lane: Lane) => (title ? `${title}: ${lane}` : lane);
  return [
    {name: named(firstLane), bars: bars(plan.timeline.first, firstLane)},
    {name: named(other(firstLane)), bars: bars(plan.timeline.second, other(firstLane))},
  ];
}

/** One row for the serial operator: the uncut parts one after the other. */
export function serialRow(name: string, firstLane: Lane, compute_us: number, communication_us: number): Row {
  const first_us = firstLane === "compute" ? compute_us : communication_us;
  const end_us = compute_us + communication_us;
  return {
    name,
    bars: [
      {lane: firstLane, name: `uncut ${firstLane}`, start_us: 0, end_us: first_us},
      {lane: other(firstLane), name: `uncut ${other(firstLane)}`, start_us: first_us, end_us},
    ],
  };
}

export const wholeRow = (name: string, end_us: number): Row => ({
  name,
  bars: [{lane: "whole", name, start_us: 0, end_us}],
});

const rowHeight = 44, barTop = 17, barHeight = 22;
const textWidth = 7; // pixels of a digit
const wideWidth = 640, narrowWidth = 300; // least pixels of a row on a wide and on a narrow screen

const barText = (bar: Bar) => `${bar.name}, ${time(bar.start_us)} to ${time(bar.end_us)}`;

/** Rows of bars over one time axis. A line below tells the bar that is pointed at or touched. */
export function TimelineChart({rows, label}: {rows: Row[]; label: string}) {
  const end_us = Math.max(1e-9, ...rows.flatMap((row) => row.bars.map((bar) => bar.end_us)));
  const height = rows.length * rowHeight + 22;
  const at = (us: number) => `${((100 * us) / end_us).toFixed(3)}%`;
  const fits = (bar: Bar, width: number) =>
    ((bar.end_us - bar.start_us) / end_us) * width > textWidth * (bar.text?.length ?? 0) + 6;
  const [pointed, setPointed] = useState<{row: string; name: string} | null>(null);
  const marks = ticks(0, end_us, 5).filter((us) => us < 0.94 * end_us);
  const markTexts = timeMarks(marks);
  const visible = rows.map((row) => ({...row, bars: row.bars.filter((bar) => bar.end_us > bar.start_us)}));
  const told = visible.find((row) => row.name === pointed?.row)?.bars.find((bar) => bar.name === pointed?.name);
  return (
    <figure class="timeline">
      <svg role="img" aria-label={label} width="100%" height={height}>
        {marks.map((us, i) => (
          <g key={us} class={i % 2 ? "between" : ""}>
            <line class="grid" x1={at(us)} x2={at(us)} y1="0" y2={height - 18} />
            <text class="tick" x={at(us)} y={height - 4} text-anchor={us === 0 ? "start" : "middle"}>
              {markTexts[i]}
            </text>
          </g>
        ))}
        {visible.map((row, i) => (
          <g key={row.name} data-row={row.name}>
            <text class="lane" x="0" y={i * rowHeight + barTop - 5}>
              {row.name} · ends {time(Math.max(0, ...row.bars.map((bar) => bar.end_us)))}
            </text>
            {row.bars.map((bar) => (
              <g key={bar.name}>
                <rect
                  class={`bar ${bar.lane}`}
                  x={at(bar.start_us)}
                  y={i * rowHeight + barTop}
                  width={at(bar.end_us - bar.start_us)}
                  height={barHeight}
                  rx="2"
                  onPointerEnter={() => setPointed({row: row.name, name: bar.name})}
                  onPointerDown={() => setPointed({row: row.name, name: bar.name})}
                >
                  <title>{barText(bar)}</title>
                </rect>
                {bar.text && fits(bar, wideWidth) && (
                  <text
                    class={fits(bar, narrowWidth) ? "block" : "block tight"}
                    x={at((bar.start_us + bar.end_us) / 2)}
                    y={i * rowHeight + barTop + 15}
                    text-anchor="middle"
                    aria-hidden="true"
                  >
                    {bar.text}
                  </text>
                )}
              </g>
            ))}
          </g>
        ))}
      </svg>
      <p class="pointed" aria-hidden="true">
        {told ? `${pointed!.row}: ${barText(told)}` : "Point at a bar for its times."}
      </p>
      <TableOf
        caption={label}
        rows={visible.flatMap((row) => row.bars.map((bar) => ({row: row.name, bar})))}
        columns={[
          {name: "Row", of: ({row}) => row},
          {name: "What", of: ({bar}) => bar.name},
          {name: "Start", of: ({bar}) => time(bar.start_us), isNumber: true},
          {name: "End", of: ({bar}) => time(bar.end_us), isNumber: true},
        ]}
      />
    </figure>
  );
}
