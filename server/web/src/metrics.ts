/** One sample line of the Prometheus text format. */
export interface Metric {
  name: string;
  labels: Record<string, string>;
  value: number;
}

const label = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;
const unescape = (text: string) => text.replace(/\\(.)/g, (_, c: string) => (c === "n" ? "\n" : c));

/** Parses the Prometheus text format. Comments and lines without a number are left out. */
export function parseMetrics(text: string): Metric[] {
  const metrics: Metric[] = [];
  for (const line of text.split("\n")) {
    const found = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!found || line.startsWith("#")) continue;
    const labels = Object.fromEntries([...(found[2] ?? "").matchAll(label)].map((m) => [m[1]!, unescape(m[2]!)]));
    metrics.push({name: found[1]!, labels, value: Number(found[3])});
  }
  return metrics;
}

export const total = (metrics: Metric[], name: string, labels: Record<string, string> = {}): number =>
  metrics
    .filter((metric) => metric.name === name && Object.entries(labels).every(([key, value]) => metric.labels[key] === value))
    .reduce((sum, metric) => sum + metric.value, 0);
