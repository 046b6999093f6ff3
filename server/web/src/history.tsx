import {api} from "./api";
import {Chart} from "./chart";
import {count, minute, percent} from "./format";
import {useLoaded, useRound} from "./hooks";
import {Shown, TableOf} from "./parts";
import type {HistoryPoint} from "./types";

interface Line {
  name: string;
  of: string;
  color: string;
  kind: "line" | "dashed";
}

interface HistoryChart {
  title: string;
  lines: Line[];
  text: (value: number) => string;
}

/** Most rows of a table, the newest ones. /v1/history has all. */
const shownRows = 300;

const secondsOf = (point: HistoryPoint) => Date.parse(point.moment) / 1000;
const momentOf = (seconds: number) => minute(new Date(seconds * 1000).toISOString());

function OverTime({chart, points}: {chart: HistoryChart; points: HistoryPoint[]}) {
  const has = ({of}: Line) => points.some((point) => point.numbers[of] !== undefined);
  const lines = chart.lines.filter(has);
  const known = points.filter((point) => lines.some(({of}) => point.numbers[of] !== undefined));
  if (known.length < 2) return null;
  const shown = (point: HistoryPoint, {of}: Line) => (point.numbers[of] === undefined ? "–" : chart.text(point.numbers[of]!));
  return (
    <>
      <h3>{chart.title}</h3>
      <Chart
        label={`${chart.title} over time`}
        x={known.map(secondsOf)}
        series={lines.map((line) => ({...line, values: known.map((point) => point.numbers[line.of] ?? null)}))}
        xName="time, UTC"
        xText={momentOf}
        yText={chart.text}
        isShare={chart.text === percent}
        isOverTime
        height={180}
      />
      <TableOf
        caption={chart.title}
        rows={[...known].reverse().slice(0, shownRows)}
        columns={[
          {name: "Until", of: (point) => minute(point.moment)},
          ...lines.map((line) => ({name: line.name, of: (point: HistoryPoint) => shown(point, line), isNumber: true})),
        ]}
      />
    </>
  );
}

/** Charts of the service's history over the last week. */
export function History({charts}: {charts: HistoryChart[]}) {
  const refreshMs = 60_000, weekMs = 7 * 24 * 3600 * 1000;
  const round = useRound(refreshMs);
  const after = () => new Date(Date.now() - weekMs).toISOString().replace(/\.\d+Z/, "Z");
  const loaded = useLoaded(`history ${round}`, () => api.history(after()));
  return (
    <section aria-label="History" class="card">
      <h2>History</h2>
      <Shown loaded={loaded}>
        {({points}) =>
          points.length < 2 ? (
            <p class="muted">
              A point is kept every five minutes (<code>mc2 serve --history-interval</code>); so far there is{" "}
              {points.length === 1 ? "one" : "none"}.
            </p>
          ) : (
            <>
              {charts.map((chart) => (
                <OverTime key={chart.title} chart={chart} points={points} />
              ))}
            </>
          )
        }
      </Shown>
    </section>
  );
}

const colors = ["compute", "communication", "muted"];
type LineRow = [name: string, of: string, kind?: Line["kind"]];

const chart = (title: string, text: HistoryChart["text"], rows: LineRow[]): HistoryChart => {
  return {title, text, lines: rows.map(([name, of, kind = "line"], i) => ({name, of, color: colors[i]!, kind}))};
};

export const serviceCharts = [
  chart("Questions for plans per interval", count, [
    ["asked", "questions"],
    ["answered from memory", "questions_from_memory", "dashed"],
  ]),
  chart("Models that drift, plans that are stale, requests that failed", count, [
    ["drifted models", "drifted_models"],
    ["stale plans", "stale_plans"],
    ["failed requests", "failed_requests", "dashed"],
  ]),
];

export const planCharts = [
  chart("Gain of the raced plans, and what stale ones lose", percent, [
    ["gain over serial, median", "gain"],
    ["predicted loss of the worst stale plan", "worst_loss"],
  ]),
  chart("Error of the predicted time of raced plans", percent, [
    ["median", "prediction_error"],
    ["0.9 quantile", "prediction_error_p90", "dashed"],
  ]),
];
