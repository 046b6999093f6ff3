import type {Cut, Op, Plan, Variant} from "./types";

const rounded = (value: number, digits: number) =>
  value.toLocaleString("en", {maximumSignificantDigits: digits, useGrouping: false});

/** Four digits, in the unit that suits. */
export function time(us: number): string {
  if (us >= 1e6) return `${rounded(us / 1e6, 4)} s`;
  if (us >= 1e4) return `${rounded(us / 1e3, 4)} ms`;
  return `${rounded(us, 4)} µs`;
}

export const percent = (ratio: number): string => `${(100 * ratio).toFixed(1)} %`;

export const count = (value: number): string => value.toLocaleString("en").replaceAll(",", " ");

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; value >= 1024 && unit < units.length - 1; ++unit) value /= 1024;
  return `${rounded(value, 4)} ${units[unit]}`;
}

export const size = (value: number, axis: string): string => (axis === "bytes" ? bytes(value) : `${rounded(value, 6)} ${axis}`);

export const opText = (op: Op): string =>
  `${op.kind} m=${op.m} n=${op.n} k=${op.k} ${op.dtype} ×${op.world_size}${op.epilogue ? ` +${op.epilogue}` : ""}`;

export const blocksOf = (cut: Cut): number[] => cut.block_rows ?? cut.block_columns ?? [];

/** "512 + 4 × 896": runs of equal blocks. */
export function cutText(cut: Cut): string {
  const blocks = blocksOf(cut);
  if (blocks.length < 2) return "uncut";
  const runs: {length: number; count: number}[] = [];
  for (const length of blocks) {
    const last = runs[runs.length - 1];
    if (last?.length === length) ++last.count;
    else runs.push({length, count: 1});
  }
  return runs.map((run) => (run.count === 1 ? `${run.length}` : `${run.count} × ${run.length}`)).join(" + ");
}

export function variantText(variant: Variant): string {
  const settings = Object.entries(variant.fields).map(([name, value]) => `${name}=${value}`);
  return settings.length ? `${variant.name}(${settings.join(",")})` : variant.name;
}

/** Of the serial time, as the service has predicted both. */
export const benefit = (plan: Plan): number => (plan.serial_us > 0 ? 1 - plan.makespan.us / plan.serial_us : 0);

export const shortDigest = (digest: string): string => digest.slice(0, 12);

export const date = (iso: string): string => iso.replace("T", " ").replace("Z", " UTC");
