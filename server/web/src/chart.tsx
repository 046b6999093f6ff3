import {useEffect, useLayoutEffect, useRef, useState} from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import {useDark} from "./hooks";

export interface Series {
  name: string;
  values: (number | null)[];
  /** Name of a colour in style.css. */
  color: string;
  kind: "line" | "dashed" | "points" | "edge";
  size?: number;
}

export interface ChartProps {
  label: string;
  x: number[];
  series: Series[];
  /** Names of two "edge" series between which the interval is shaded. */
  band?: [upper: string, lower: string];
  xName: string;
  xText: (value: number) => string;
  yText: (value: number) => string;
  /** Texts for all marks of the y axis together, e.g. times in one unit. Absent: each mark's yText. */
  yMarks?: (values: number[]) => string[];
  /** Whether y is a share, of which 1 is 100 %. */
  isShare?: boolean;
  logarithmic?: "x" | "xy";
  /** Whether x is a time, in seconds since 1970. */
  isOverTime?: boolean;
  height?: number;
  onPick?: (index: number) => void;
}

/** Shares that are all 0 get an axis up to this one. */
const shareOfZeros = 0.1;

const colorOf = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function uplotSeries(series: Series): uPlot.Series {
  const color = colorOf(series.color);
  const size = series.size ?? 4;
  const isAlone = (of: uPlot, index: number) =>
    Array.from(of.data[index]!).filter((value) => value != null).length === 1;
  const common = {label: series.name, stroke: color, points: {show: false}, spanGaps: true, pxAlign: 0};
  if (series.kind === "points") return {...common, paths: () => null, points: {show: true, size, fill: color, stroke: color}};
  if (series.kind === "edge") return {...common, width: 0};
  const dash = series.kind === "dashed" ? {dash: [6, 5]} : {};
  return {...common, width: 2, points: {show: isAlone, size: 7, fill: color}, ...dash}; // a line needs two points
}

/** Powers of two from low to high, at most about ten of them. */
function powersOfTwo(low: number, high: number): number[] {
  const first = Math.ceil(Math.log2(low)), last = Math.floor(Math.log2(high));
  const step = Math.ceil((last - first + 1) / 10);
  const powers = [];
  for (let power = first; power <= last; power += step) powers.push(2 ** power);
  return powers;
}

/** Texts for moments that are `step` seconds apart: the part of date or time that tells them apart, in UTC. */
function timeMarks(seconds: number[], step: number): string[] {
  const day = 86400, minute = 60;
  const [from, to] = step >= day ? [5, 10] : step >= minute ? [11, 16] : [11, 19]; // positions in 2026-01-31T23:59:59
  return seconds.map((second) => new Date(second * 1000).toISOString().slice(from, to));
}

/** The values of all series at one index as text; those of the band as an interval. */
function valuesAt(props: ChartProps, index: number): string {
  const at = (name: string) => props.series.find((series) => series.name === name)?.values[index] ?? null;
  const shown = props.series
    .filter((series) => series.kind !== "edge" && series.values[index] != null)
    .map((series) => `${series.name} ${props.yText(series.values[index]!)}`);
  const [high, low] = (props.band ?? []).map(at);
  if (low != null && high != null) shown.push(`90 % interval ${props.yText(low)} to ${props.yText(high)}`);
  return `${props.xName} ${props.xText(props.x[index]!)}: ${shown.join(", ")}`;
}

function options(props: ChartProps, width: number): uPlot.Options {
  const find = (name: string) => props.series.findIndex((series) => series.name === name) + 1;
  const axis = {
    stroke: colorOf("muted"),
    font: "12px system-ui, sans-serif",
    grid: {stroke: colorOf("grid"), width: 1},
    ticks: {stroke: colorOf("grid"), width: 1},
  };
  const texts = (format: (values: number[]) => string[]) => (_: uPlot, splits: (number | null)[]) => {
    const written = format(splits.filter((value) => value !== null));
    return splits.map((value) => (value === null ? "" : (written.shift() ?? "")));
  };
  const isLogarithmic = (axis: string) => props.logarithmic?.includes(axis) ?? false;
  const xScale: uPlot.Scale = isLogarithmic("x")
    ? {distr: 3, log: 2, range: (_, low, high) => [low / 1.05, high * 1.05]}
    : {range: (_, low, high) => (low === high ? [low / 2, high * 1.5] : [low, high])};
  const shares: uPlot.Scale = {
    range: (_, low, high) => (low === 0 && high === 0 ? [0, shareOfZeros] : uPlot.rangeNum(low, high, 0.1, true)),
  };
  const yScale: uPlot.Scale = isLogarithmic("y") ? {distr: 3} : props.isShare ? shares : {};
  return {
    width,
    height: props.height ?? 260,
    tzDate: (second) => uPlot.tzDate(new Date(second * 1000), "Etc/UTC"),
    scales: {x: props.isOverTime ? {time: true} : {time: false, ...xScale}, y: yScale},
    series: [{label: props.xName, value: (_, v) => (v === null ? "" : props.xText(v))}, ...props.series.map(uplotSeries)],
    axes: [
      {
        ...axis,
        label: props.xName,
        labelFont: axis.font,
        labelSize: 20,
        values: props.isOverTime
          ? (_, splits, __, ___, step) => timeMarks(splits, step)
          : texts((values) => values.map(props.xText)),
        space: 70,
        ...(isLogarithmic("x") ? {splits: (_: uPlot, __: number, low: number, high: number) => powersOfTwo(low, high)} : {}),
      },
      {...axis, size: 74, values: texts(props.yMarks ?? ((values) => values.map(props.yText)))},
    ],
    ...(props.band ? {bands: [{series: [find(props.band[0]), find(props.band[1])], fill: colorOf("band")}]} : {}),
    legend: {show: false},
    cursor: {drag: {x: false, y: false}, points: {show: false}},
  };
}

/** Lines and points over one axis. A line below tells the values that are pointed at or touched. Callers add a TableOf. */
export function Chart(props: ChartProps) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const pick = useRef(props.onPick);
  pick.current = props.onPick;
  const isDark = useDark();
  const [pointed, setPointed] = useState<number | null>(null);
  const data: uPlot.AlignedData = [props.x, ...props.series.map((series) => series.values)];
  const form = JSON.stringify([isDark, props.label, props.logarithmic, props.series.map((series) => series.name)]);

  useLayoutEffect(() => {
    const element = host.current!;
    const hooks = {setCursor: [(of: uPlot) => setPointed(of.cursor.idx ?? null)]};
    const made = new uPlot({...options(props, element.clientWidth), hooks}, data, element);
    plot.current = made;
    const onClick = () => made.cursor.idx != null && pick.current?.(made.cursor.idx);
    made.over.addEventListener("click", onClick);
    const observer = new ResizeObserver(() => made.setSize({width: element.clientWidth, height: made.height}));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, [form]);

  useEffect(() => plot.current?.setData(data), [JSON.stringify(data)]);

  return (
    <figure class="chart">
      <div ref={host} class={props.onPick ? "pickable" : ""} role="img" aria-label={props.label} />
      <figcaption>
        {props.series
          .filter((series) => series.kind !== "edge")
          .map((series) => (
            <span key={series.name} class={`key ${series.kind} c-${series.color}`}>
              {series.name}
            </span>
          ))}
        {props.band && <span class="key band">90 % interval</span>}
      </figcaption>
      <p class="pointed" aria-hidden="true">
        {pointed !== null && pointed < props.x.length ? valuesAt(props, pointed) : "Point at the chart for its values."}
      </p>
    </figure>
  );
}
