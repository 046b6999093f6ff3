import {api, query} from "../api";
import {benefit, cutText, opText, percent, time, variantText} from "../format";
import {useLoaded} from "../hooks";
import {Facts, Shown, Table} from "../parts";
import {planRows, serialRow, TimelineChart, wholeRow} from "../timeline";
import type {Account, Explanation, Plan, Race, Races} from "../types";
import {questionOf} from "./query";

function range(ends: {low: number; high: number} | undefined, text: (value: number) => string): string {
  return ends ? ` (${text(ends.low)} to ${text(ends.high)})` : "";
}

function measuredText({fused_us, serial_us, spread, measured_at}: NonNullable<Plan["validation"]>): string {
  const fused = spread && {low: spread.fused_low_us, high: spread.fused_high_us};
  const serial = spread && {low: spread.serial_low_us, high: spread.serial_high_us};
  const when = measured_at ? `, ${measured_at}` : "";
  return `${time(fused_us)}${range(fused, time)} of ${time(serial_us)}${range(serial, time)} serial${when}`;
}

function Summary({plan}: {plan: Plan}) {
  const measured = plan.validation;
  return (
    <Facts
      facts={[
        ["Operator", opText(plan.op)],
        ["Blocks", cutText(plan.cut)],
        ["Variant", variantText(plan.variant)],
        ["Strategy", plan.strategy],
        ["Bound", plan.bound],
        ["Predicted", `${time(plan.makespan.us)} (${time(plan.makespan.low_us)} to ${time(plan.makespan.high_us)})`],
        ["Predicted serial", time(plan.serial_us)],
        ["Predicted gain", `${percent(benefit(plan))}${range(plan.benefit_interval, percent)}`],
        ["Measured", measured ? measuredText(measured) : "not run yet"],
        [
          "Measured gain",
          measured
            ? `${percent(measured.benefit)} (${percent(measured.benefit_low)} to ${percent(measured.benefit_high)}, ${measured.pair_count} pairs)`
            : "–",
        ],
        ["Prediction", `${plan.makespan.provenance}: ${plan.makespan.reason}`],
      ]}
    />
  );
}

function Timelines({plan, races}: {plan: Plan; races: Races}) {
  const {anchored, first_lane: lane} = races;
  const race = races.items.filter((item) => item.is_of_plan).pop();
  return (
    <section aria-labelledby="timeline-title" class="card">
      <h2 id="timeline-title">Timeline</h2>
      <h3>Predicted</h3>
      <TimelineChart
        label="Predicted timeline"
        rows={[...planRows(plan, lane), serialRow("serial", lane, plan.compute_us, plan.communication_us)]}
      />
      {race && (
        <>
          <h3>Measured</h3>
          <p class="muted">
            The last race of this cut. What single blocks took is not kept; the blocks are those of the model when its uncut
            parts take the measured times.
          </p>
          <TimelineChart
            label="Measured timeline"
            rows={[
              wholeRow("measured fused", race.fused_us),
              serialRow("measured parts", lane, race.compute_us, race.communication_us),
              ...(anchored ? planRows(anchored, lane, "blocks") : []),
            ]}
          />
        </>
      )}
    </section>
  );
}

const accountParts: [keyof Account, string][] = [
  ["uncut_us", "uncut time of the lane"],
  ["cutting_us", "its blocks cost beyond that"],
  ["contention_us", "slowed by the other lane"],
  ["before_us", "waits before its first block"],
  ["between_us", "waits between blocks"],
  ["after_us", "waits after its last block"],
];

function Why({explanation}: {explanation: Explanation}) {
  const {account, plan} = explanation;
  return (
    <section aria-labelledby="why-title" class="card">
      <h2 id="why-title">Why</h2>
      <p>{explanation.bound_text}</p>
      <p>{plan.reason}</p>
      {plan.certificate && <p>{plan.certificate.text}</p>}
      {explanation.notes.map((note) => (
        <p key={note} class="muted">
          {note}
        </p>
      ))}
      <Table
        caption={`The makespan, told from the ${account.lane} lane`}
        rows={accountParts}
        columns={[
          {name: "Part", of: ([, name]) => name},
          {name: "Time", of: ([part]) => time(account[part] as number), isNumber: true},
        ]}
      />
      <Table
        caption="Runners-up, best first"
        rows={plan.runners_up.map((runnerUp, i) => ({...runnerUp, lost_us: explanation.losses[i]?.lost_us}))}
        columns={[
          {name: "Blocks", of: (row) => cutText(row.cut)},
          {name: "Variant", of: (row) => variantText(row.variant)},
          {name: "Predicted", of: (row) => time(row.makespan_us), isNumber: true},
          {name: "Lost by", of: (row) => (row.lost_us === undefined ? "" : time(row.lost_us)), isNumber: true},
          {name: "Why", of: (row) => row.reason},
        ]}
      />
      {explanation.sensitivity && (
        <>
          <h3>What would change the decision</h3>
          <ul>
            {explanation.sensitivity.parameters.map(({parameter, text}) => (
              <li key={parameter}>{text}</li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}

function RaceTable({races}: {races: Race[]}) {
  if (races.length === 0) return null;
  return (
    <section aria-labelledby="races-title" class="card">
      <h2 id="races-title">Races</h2>
      <Table
        caption="Every measured cut of this operator on this machine, oldest first"
        rows={races}
        columns={[
          {name: "Blocks", of: (race) => race.cut},
          {name: "Variant", of: (race) => race.variant},
          {name: "Fused", of: (race) => time(race.fused_us), isNumber: true},
          {name: "Predicted", of: (race) => (race.predicted_us > 0 ? time(race.predicted_us) : "-"), isNumber: true},
          {name: "Serial", of: (race) => (race.serial_us > 0 ? time(race.serial_us) : "not timed"), isNumber: true},
          {
            name: "Gain",
            of: (race) =>
              race.serial_us > 0
                ? `${percent(race.benefit)} (${percent(race.benefit_low)} to ${percent(race.benefit_high)})`
                : "-",
            isNumber: true,
          },
          {name: "Pairs", of: (race) => race.pair_count, isNumber: true},
        ]}
      />
    </section>
  );
}

export function PlanPage({digest}: {digest: string}) {
  const plan = useLoaded(digest, () => api.keptPlan(digest));
  const explanation = useLoaded(digest, () => api.explanation(digest));
  const races = useLoaded(digest, () => api.races(digest));
  const machines = useLoaded("machines", () => api.machines());
  return (
    <>
      <h1>Plan</h1>
      <p class="digest">{digest}</p>
      <Shown loaded={plan}>
        {(kept) => (
          <>
            <section aria-label="Summary" class="card">
              <Summary plan={kept} />
              {races.value && (
                <p>
                  Made on {machines.value?.find((one) => one.digest === races.value!.machine)?.label ?? "a machine"}.{" "}
                  <a href={`#/${query(questionOf(kept.op, races.value.machine))}`}>Ask and explore</a>
                </p>
              )}
            </section>
            <Shown loaded={races}>{(value) => <Timelines plan={kept} races={value} />}</Shown>
          </>
        )}
      </Shown>
      {plan.value && <Shown loaded={explanation}>{(value) => <Why explanation={value} />}</Shown>}
      {plan.value && races.value && <RaceTable races={races.value.items} />}
    </>
  );
}
