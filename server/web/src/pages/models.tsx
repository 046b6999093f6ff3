import {useState} from "preact/hooks";
import {api, longestPage, query} from "../api";
import {Chart} from "../chart";
import {bytes, count, counted, date, opText, percent, sentence, shortDigest, size, time, timeMarks} from "../format";
import {useChanges, useLoaded, useTitle} from "../hooks";
import {Facts, MachineLink, machineOf, Shown, Table, TableOf} from "../parts";
import type {Curve, CurvePoint, CurveSample, Machine, Model} from "../types";
import {optionsKey} from "./plans";

export function ModelsPage() {
  const loaded = useLoaded(`models ${useChanges()}`, async () => {
    const [{items}, machines] = await Promise.all([api.models({limit: longestPage}), api.machines()]);
    return {items, machines};
  });
  return (
    <>
      <h1>Cost models</h1>
      <Shown loaded={loaded}>
        {({items, machines}) =>
          items.length === 0 ? (
            <p class="muted">
              The store has no cost model: <code>mc2 tune</code> or <code>mc2 fit</code> on a machine keeps one.
            </p>
          ) : (
            <Table
              caption={`${counted(items.length, "kept model")}, newest first`}
              rows={items}
              columns={[
                {name: "Model", of: (model) => <a href={`#/models/${model.digest}`}>{shortDigest(model.digest)}</a>},
                {name: "Operator", of: (model) => opText(model.op)},
                {name: "Machine", of: (model) => <MachineLink machines={machines} digest={model.machine} />},
                {name: "Kept", of: (model) => date(model.created_at)},
              ]}
              isStacked
            />
          )
        }
      </Shown>
    </>
  );
}

const axisName = (curve: Curve) => (curve.axis === "bytes" ? "bytes of a block's message" : `${curve.axis} of a block`);
const xText = (curve: Curve) => (x: number) => (curve.axis === "bytes" ? bytes(x) : String(Math.round(x)));

/** Joins points and samples in one list, ascending by x, because uPlot takes one list of x for all series. */
function merged(curve: Curve) {
  const rows = [
    ...curve.points.map((point) => ({x: point.x, point, sample: undefined as CurveSample | undefined})),
    ...curve.samples.map((sample) => ({x: sample.x, point: undefined, sample})),
  ].sort((a, b) => a.x - b.x);
  const of = (isWanted: (sample: CurveSample) => boolean, value: (sample: CurveSample) => number) =>
    rows.map(({sample}) => (sample && isWanted(sample) ? value(sample) : null));
  return {rows, of, x: rows.map((row) => row.x)};
}

const groups: {name: string; color: string; is: (sample: CurveSample) => boolean}[] = [
  {name: "alone", color: "compute", is: (sample) => !sample.is_co_run && !sample.is_outlier},
  {name: "beside the other lane", color: "communication", is: (sample) => sample.is_co_run && !sample.is_outlier},
  {name: "outlier, not fitted", color: "muted", is: (sample) => sample.is_outlier},
];

function CurveCharts({curve}: {curve: Curve}) {
  const {rows, of, x} = merged(curve);
  const line = (value: (point: CurvePoint) => number) => rows.map(({point}) => (point ? value(point) : null));
  const present = groups.filter((group) => curve.samples.some(group.is));
  const half = 100 * curve.relative_interval;
  return (
    <>
      <Chart
        label={`Cost of a block, ${curve.lane}`}
        x={x}
        xName={axisName(curve)}
        xText={xText(curve)}
        yText={time}
        yMarks={timeMarks}
        logarithmic="xy"
        band={["upper end", "lower end"]}
        series={[
          {name: "upper end", values: line((point) => point.high_us), color: "accent", kind: "edge"},
          {name: "lower end", values: line((point) => Math.max(point.low_us, point.us / 100)), color: "accent", kind: "edge"},
          {name: "curve", values: line((point) => point.us), color: "accent", kind: "line"},
          ...present.map((group) => ({...group, values: of(group.is, (sample) => sample.us), kind: "points" as const})),
        ]}
      />
      {curve.samples.length > 0 && (
        <Chart
          label={`Residuals, ${curve.lane}`}
          height={180}
          x={x}
          xName={axisName(curve)}
          xText={xText(curve)}
          yText={(value) => `${value} %`}
          logarithmic="x"
          band={["interval", "interval, lower"]}
          series={[
            {name: "interval", values: rows.map(() => half), color: "accent", kind: "edge"},
            {name: "interval, lower", values: rows.map(() => -half), color: "accent", kind: "edge"},
            {name: "curve", values: rows.map(() => 0), color: "accent", kind: "line"},
            ...present.map((group) => ({...group, values: of(group.is, (s) => 100 * s.residual), kind: "points" as const})),
          ]}
        />
      )}
    </>
  );
}

function CurveSection({curve}: {curve: Curve}) {
  const title = `${curve.lane.replace("_", " ")} lane`;
  return (
    <section class="card" aria-label={title}>
      <h2>{title}</h2>
      <Facts
        facts={[
          ["Family", curve.family],
          ["Formula", sentence(curve.formula)],
          ["Measured range", `${size(curve.valid_min_x, curve.axis)} to ${size(curve.valid_max_x, curve.axis)}`],
          ["90 % interval", `± ${percent(curve.relative_interval)}`],
          ["Residuals", `${percent(curve.quality.relative_rms)} rms, at most ${percent(curve.quality.relative_worst)}`],
          ["Cross-validated error", `${percent(curve.quality.cross_validated_rms)} rms`],
          ["Slow-down beside the other lane", `× ${curve.slowdown.toFixed(3)}`],
          ["Added to each block of a cut", `+ ${time(curve.fixed_us)}`],
          ["Samples", curve.sample_count ? count(curve.sample_count) : curve.is_analytic ? "none: analytic" : "not kept here"],
        ]}
      />
      {curve.quality.reason && <p class="muted">{sentence(curve.quality.reason)}</p>}
      <CurveCharts curve={curve} />
      <TableOf
        caption={`Curve of the ${title}`}
        rows={curve.points.filter((_, i) => i % 10 === 0)}
        columns={[
          {name: "Block", of: (point) => size(point.x, curve.axis), isNumber: true},
          {name: "Time", of: (point) => time(point.us), isNumber: true},
          {name: "90 % interval", of: (point) => `${time(point.low_us)} to ${time(point.high_us)}`, isNumber: true},
        ]}
      />
      {curve.samples.length > 0 && (
        <TableOf
          caption={`Samples of the ${title}`}
          rows={curve.samples}
          columns={[
            {name: "Block", of: (sample) => size(sample.x, curve.axis), isNumber: true},
            {name: "Time", of: (sample) => time(sample.us), isNumber: true},
            {name: "Residual", of: (sample) => percent(sample.residual), isNumber: true},
            {name: "Taken", of: (sample) => groups.find((group) => group.is(sample))!.name},
          ]}
        />
      )}
    </section>
  );
}

function Summary({model: {op, source, fingerprint}, machines}: {model: Model; machines: Machine[]}) {
  const machine = machineOf(fingerprint, machines)?.digest;
  const {kind, n, k, dtype, world_size: ranks} = op;
  const plans = {op: kind, n, k, dtype, ranks, machine, options: optionsKey(op)};
  return (
    <section aria-label="Summary" class="card">
      <Facts
        facts={[
          ["Operator", opText(op)],
          ["Machine", machine ? <MachineLink machines={machines} digest={machine} /> : "not in the store"],
          ["Source", sentence(source)],
        ]}
      />
      <p>
        <a href={`#/plans${query(plans)}`}>Its plans</a>
      </p>
    </section>
  );
}

export function ModelPage({digest}: {digest: string}) {
  const [variant, setVariant] = useState<string>();
  const model = useLoaded(digest, () => api.model(digest));
  const machines = useLoaded("machines", () => api.machines());
  const curves = useLoaded(model.value ? JSON.stringify([digest, variant]) : null, () => api.curves(digest, variant));
  useTitle(model.value && `${opText(model.value.op)}, model ${shortDigest(digest)}`);
  return (
    <>
      <h1>Cost model</h1>
      <p class="digest">{digest}</p>
      <Shown loaded={model}>{(value) => <Summary model={value} machines={machines.value ?? []} />}</Shown>
      <Shown loaded={curves}>
        {(value) => (
          <>
            <label class="choice">
              Variant
              <select onChange={(event) => setVariant(event.currentTarget.value)}>
                {value.variants.map((name) => (
                  <option key={name} value={name} selected={name === value.variant}>
                    {name}
                  </option>
                ))}
              </select>
            </label>
            {value.curves.map((curve) => (
              <CurveSection key={curve.lane} curve={curve} />
            ))}
          </>
        )}
      </Shown>
    </>
  );
}
