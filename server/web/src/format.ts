import type {Cut, Op, Plan, PlanResult, Variant} from "./types";

const rounded = (value: number, digits: number) =>
  value.toLocaleString("en", {maximumSignificantDigits: digits, useGrouping: false});

interface Unit {
  name: string;
  us: number;
}

const unitOf = (us: number): Unit =>
  us >= 1e6 ? {name: "s", us: 1e6} : us >= 1e4 ? {name: "ms", us: 1e3} : {name: "µs", us: 1};

const inUnit = (us: number, unit: Unit): string => `${rounded(us / unit.us, 4)} ${unit.name}`;

/** A time with four digits in s, ms or µs. Times below 1e-6 µs are rounding errors and become 0. */
export const time = (us: number): string => inUnit(Math.abs(us) < 1e-6 ? 0 : us, unitOf(us));

/** A difference of times with its sign. Differences below 0.05 µs are rounding errors and become 0. */
export const signedTime = (us: number): string =>
  Math.abs(us) < 0.05 ? "0" : (us < 0 ? "−" : "+") + time(Math.abs(us));

/** A sentence or formula of the service, which writes "us", with the unit as it is written on the page. */
export const sentence = (text: string): string => text.replace(/(\d )us\b/g, "$1µs");

/** Texts for the marks of one axis, all in the unit of the largest mark. Marks that are rounding errors beside it become 0. */
export function timeMarks(marks: number[]): string[] {
  const largest = Math.max(0, ...marks);
  return marks.map((us) => inUnit(Math.abs(us) < 1e-9 * largest ? 0 : us, unitOf(largest)));
}

/** The gain of a kept plan, for lists. */
export const gainText = ({benefit, is_measured}: PlanResult): string =>
  `${percent(benefit)}${is_measured ? "" : " predicted"}`;

export const percent = (ratio: number): string => `${(100 * ratio).toFixed(1)} %`;

export const count = (value: number): string => value.toLocaleString("en").replaceAll(",", " ");

/** "1 plan", "12 plans". */
export const counted = (value: number, noun: string): string => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; value >= 1024 && unit < units.length - 1; ++unit) value /= 1024;
  return `${rounded(value, 4)} ${units[unit]}`;
}

export const size = (value: number, axis: string): string => (axis === "bytes" ? bytes(value) : `${rounded(value, 6)} ${axis}`);

/** What an operator has beside kind, sizes, type and ranks: " experts=8 top_k=2 +bias", " tables=4x10000 mean". */
export const optionsText = (op: Op): string =>
  (op.experts_per_rank ? ` experts=${op.experts_per_rank}/rank` : "") +
  (op.experts ? ` experts=${op.experts.count} top_k=${op.experts.top_k}` : "") +
  (op.tables ? ` tables=${op.tables.count}x${op.tables.row_count} ${op.tables.pooling}` : "") +
  (op.epilogue ? ` +${op.epilogue}` : "");

export const opText = (op: Op): string =>
  `${op.kind} m=${op.m} n=${op.n} k=${op.k} ${op.dtype} x${op.world_size}` + optionsText(op);

export const blocksOf = (cut: Cut): number[] => cut.block_rows ?? cut.block_columns ?? [];

/** "512 + 4 x 896": runs of equal blocks. */
export function cutText(cut: Cut): string {
  const blocks = blocksOf(cut);
  if (blocks.length < 2) return "uncut";
  const runs: {length: number; count: number}[] = [];
  for (const length of blocks) {
    const last = runs[runs.length - 1];
    if (last?.length === length) ++last.count;
    else runs.push({length, count: 1});
  }
  return runs.map((run) => (run.count === 1 ? `${run.length}` : `${run.count} x ${run.length}`)).join(" + ");
}

export function variantText(variant: Variant): string {
  const settings = Object.entries(variant.fields).map(([name, value]) => `${name}=${value}`);
  return settings.length ? `${variant.name}(${settings.join(",")})` : variant.name;
}

/** The predicted share of the serial time that the plan saves. */
export const benefit = (plan: Plan): number => (plan.serial_us > 0 ? 1 - plan.makespan.us / plan.serial_us : 0);

export const shortDigest = (digest: string): string => digest.slice(0, 12);

export const date = (iso: string): string => iso.replace("T", " ").replace("Z", " UTC");

/** A moment to the minute, in UTC like all moments on the page. */
export const minute = (iso: string): string => iso.slice(0, "2026-01-31T23:59".length).replace("T", " ");
