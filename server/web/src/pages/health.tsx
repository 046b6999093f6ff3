import type {ComponentChildren} from "preact";
import {api} from "../api";
import type {Readiness} from "../api";
import {count, percent, time} from "../format";
import {History, serviceCharts} from "../history";
import {useChanges, useLoaded, useRound} from "../hooks";
import {parseMetrics, total} from "../metrics";
import type {Metric} from "../metrics";
import {Facts, Shown, Table} from "../parts";

const refreshMs = 5000;

const unique = (values: (string | undefined)[]) => [...new Set(values.filter((value) => value !== undefined))].sort() as string[];

function replicaText({connected, behind_ms}: NonNullable<Readiness["replica"]>) {
  const age = time(1e3 * behind_ms);
  if (connected) return `was up to date with its leader ${age} ago`;
  return <strong>its leader does not answer; it was up to date {age} ago at best</strong>;
}

function Routes({metrics}: {metrics: Metric[]}) {
  // Failures are told from 0 on, so routes that nobody has asked are there, too.
  const requests = metrics.filter((metric) => metric.name === "mc2_requests_total" && metric.value > 0);
  const rows = unique(requests.map((metric) => metric.labels.route)).map((route) => {
    const of = (name: string) => total(metrics, name, {route});
    const sum_s = of("mc2_request_seconds_sum"), answered = of("mc2_request_seconds_count");
    const failed = requests.filter((metric) => metric.labels.route === route && Number(metric.labels.status) >= 500);
    return {
      route,
      requests: of("mc2_requests_total"),
      failed: failed.reduce((all, metric) => all + metric.value, 0),
      mean: answered > 0 ? time((1e6 * sum_s) / answered) : "–",
    };
  });
  return (
    <Table
      caption="Requests since the service started"
      rows={rows}
      columns={[
        {name: "Route", of: ({route}) => (route === "none" ? "none: no route has the request's address" : route)},
        {name: "Requests", of: (row) => count(row.requests), isNumber: true},
        {name: "Failed, status 5xx", of: (row) => count(row.failed), isNumber: true},
        {name: "Mean time", of: (row) => row.mean, isNumber: true},
      ]}
    />
  );
}

/** Where answered plans came from, as the metrics name it. */
const sources: Record<string, string> = {
  stored: "Kept plans given",
  model: "Plans made from models",
  what_if: "Plans made for what-if questions",
};

function Counters({metrics}: {metrics: Metric[]}) {
  const hits = total(metrics, "mc2_plan_cache_total", {result: "hit"});
  const asked = total(metrics, "mc2_plan_cache_total");
  const answers = metrics.filter((metric) => metric.name === "mc2_plan_answers_total");
  return (
    <Facts
      facts={[
        ["Plan questions from memory", asked > 0 ? `${count(hits)} of ${count(asked)}, ${percent(hits / asked)}` : "none yet"],
        ["Open connections", count(total(metrics, "mc2_connections"))],
        ["Waiting for changes", count(total(metrics, "mc2_watchers"))],
        ...answers.map((metric): [string, string] => [
          `${sources[metric.labels.source ?? ""] ?? metric.labels.source}, ${metric.labels.provenance}`,
          count(metric.value),
        ]),
      ]}
    />
  );
}

export function HealthPage() {
  const round = useRound(refreshMs);
  const ready = useLoaded(`ready ${round} ${useChanges()}`, () => api.readiness());
  const version = useLoaded("version", () => api.version());
  const metrics = useLoaded(`metrics ${round}`, async () => parseMetrics(await api.metrics()));
  return (
    <>
      <h1>Health</h1>
      <section aria-label="State" class="card">
        <Shown loaded={ready}>
          {({status, revision, replica}) => (
            <Facts
              facts={[
                ["Service", <span class="good">{status}</span>],
                ["Store", `revision ${count(revision)}`],
                ...(replica ? [["Replica", replicaText(replica)] as [string, ComponentChildren]] : []),
                ["Version", version.value ? `${version.value.version}, interface ${version.value.api}` : "…"],
              ]}
            />
          )}
        </Shown>
      </section>
      <Shown loaded={metrics}>
        {(value) => (
          <section aria-label="Metrics" class="card">
            <Counters metrics={value} />
            <Routes metrics={value} />
          </section>
        )}
      </Shown>
      <History charts={serviceCharts} />
    </>
  );
}
