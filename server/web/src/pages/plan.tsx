import {api, query} from "../api";
import {Decisions} from "../decisions";
import {cutText, opText, percent, time, variantText} from "../format";
import {useChanges, useLoaded} from "../hooks";
import {Facts, machineName, Shown, Table} from "../parts";
import {measuredOf, planFacts} from "../summary";
import {planRows, serialRow, TimelineChart, wholeRow} from "../timeline";
import type {Account, Explanation, Plan, Race, Races} from "../types";
import {questionOf} from "./query";

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
            The last race of this cut. Times of single blocks are not kept: the blocks are predicted by the model, scaled so
            that its uncut parts take the measured times.
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
  ["cutting_us", "extra cost of its blocks"],
  ["contention_us", "slow-down by the other lane"],
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
        caption={`The makespan, seen from the ${account.lane} lane`}
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
          {name: "Slower by", of: (row) => (row.lost_us === undefined ? "" : time(row.lost_us)), isNumber: true},
          {name: "Why", of: (row) => row.reason},
        ]}
      />
      {explanation.sensitivity && <Decisions sensitivity={explanation.sensitivity} />}
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
  const races = useLoaded(`${digest} ${useChanges()}`, () => api.races(digest));
  const machines = useLoaded("machines", () => api.machines());
  return (
    <>
      <h1>Plan</h1>
      <p class="digest">{digest}</p>
      <Shown loaded={plan}>
        {(kept) => (
          <>
            <section aria-label="Summary" class="card">
              <Facts
                facts={[
                  ["Operator", opText(kept.op)],
                  ...planFacts(kept, measuredOf(kept, races.value?.items)),
                  ["Strategy", kept.strategy],
                  ["Bound", kept.bound],
                ]}
              />
              {races.value && (
                <p>
                  Made on {machineName(machines.value ?? [], races.value.machine)}.{" "}
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
