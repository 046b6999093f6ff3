import {api, longestPage, query} from "../api";
import {Decisions} from "../decisions";
import {cutText, opText, percent, sentence, shortDigest, signedTime, time, variantText} from "../format";
import {useChanges, useLoaded, useTitle} from "../hooks";
import {Facts, MachineLink, Shown, Table} from "../parts";
import {askedFor, isTuned, purposeOf, purposeText} from "../purpose";
import {measuredOf, planFacts} from "../summary";
import {planRows, serialRow, TimelineChart, wholeRow} from "../timeline";
import type {Account, Explanation, Loss, Op, Plan, Race, Races} from "../types";
import {questionOf} from "./query";

/** Whether a measured time lies in the interval of the prediction. */
const isAsPredicted = ({makespan}: Plan, us: number) => us >= makespan.low_us && us <= makespan.high_us;

/** What the blocks beside a measured time are, or why there are none. */
const blocksText = ({makespan}: Plan, isShown: boolean): string =>
  "The blocks are predicted by the model, scaled so that its uncut parts take the measured times" +
  (isShown
    ? "."
    : `. They are left out: they would end after ${time(makespan.us)}, and the measured time lies outside the ` +
      "interval of that prediction.");

function Timelines({plan, races}: {plan: Plan; races: Races}) {
  const {anchored, first_lane: lane} = races;
  const race = races.items.filter((item) => item.is_of_plan).pop();
  const isNear = race !== undefined && anchored !== null && isAsPredicted(anchored, race.fused_us);
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
            The last race of this cut. Times of single blocks are not kept. {anchored && blocksText(anchored, isNear)}
          </p>
          <TimelineChart
            label="Measured timeline"
            rows={[
              wholeRow("measured fused", race.fused_us),
              serialRow("measured parts", lane, race.compute_us, race.communication_us),
              ...(isNear ? planRows(anchored, lane, "predicted blocks") : []),
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

const sumOf = (account: Account) => accountParts.reduce((sum, [part]) => sum + (account[part] as number), 0);

/** How much slower a runner-up is: by the present model where that predicts both cuts, as `mc2 explain` has it. */
const lostUs = ({difference, lost_us}: Loss) => (difference ? sumOf(difference) : lost_us);

function Why({explanation}: {explanation: Explanation}) {
  const {account, plan} = explanation;
  return (
    <section aria-labelledby="why-title" class="card">
      <h2 id="why-title">Why</h2>
      <p>{sentence(explanation.bound_text)}</p>
      <p>{sentence(plan.reason)}</p>
      {plan.certificate && <p>{sentence(plan.certificate.text)}</p>}
      {explanation.notes.map((note) => (
        <p key={note} class="muted">
          {sentence(note)}
        </p>
      ))}
      <Table
        caption={`The makespan, seen from the ${account.lane} lane`}
        rows={accountParts}
        columns={[
          {name: "Part", of: ([, name]) => name},
          {
            name: "Time",
            of: ([part]) => (part === "uncut_us" ? time : signedTime)(account[part] as number),
            isNumber: true,
          },
        ]}
      />
      <Table
        caption="Runners-up, against this plan"
        rows={plan.runners_up.map((runnerUp, i) => ({...runnerUp, loss: explanation.losses[i]}))}
        columns={[
          {name: "Blocks", of: (row) => cutText(row.cut)},
          {name: "Variant", of: (row) => variantText(row.variant)},
          {name: "Predicted", of: (row) => time(row.makespan_us), isNumber: true},
          {name: "Slower by", of: (row) => (row.loss ? signedTime(lostUs(row.loss)) : ""), isNumber: true},
          {name: "Why", of: (row) => sentence(row.reason)},
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

/** The purposes for which a plan is kept. Only lists name them. */
async function purposesOf(digest: string, op: Op, machine: string): Promise<string[]> {
  const {items} = await api.plans({
    op: op.kind,
    m: op.m,
    n: op.n,
    k: op.k,
    dtype: op.dtype,
    ranks: op.world_size,
    machine,
    limit: longestPage,
  });
  return items.filter((item) => item.digest === digest).map(({purpose}) => purpose ?? "");
}

/** The way to the question that this plan answers. */
function AskLink({op, machine, purpose}: {op: Op; machine: string; purpose: string}) {
  const {parameters, missing} = isTuned(purpose)
    ? askedFor(purposeOf(purpose))
    : {parameters: {}, missing: [purposeText(purpose)]};
  return (
    <>
      <a href={`#/${query({...questionOf(op, machine), ...parameters})}`}>Ask and explore</a>
      {missing.length > 0 && `, which cannot ask for ${missing.join(" and ")}`}
    </>
  );
}

export function PlanPage({digest}: {digest: string}) {
  const plan = useLoaded(digest, () => api.keptPlan(digest));
  const explanation = useLoaded(digest, () => api.explanation(digest));
  const races = useLoaded(`${digest} ${useChanges()}`, () => api.races(digest));
  const machines = useLoaded("machines", () => api.machines());
  const machine = races.value?.machine;
  const purposes = useLoaded(plan.value && machine ? digest : null, () => purposesOf(digest, plan.value!.op, machine!));
  const hasPurposes = [purposes.value, purposes.problem, races.problem].some((each) => each !== undefined);
  useTitle(plan.value && `${opText(plan.value.op)}, plan ${shortDigest(digest)}`);
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
                  ["Made for", purposes.value?.map(purposeText).join("; ") || (hasPurposes ? "unknown" : "…")],
                  ...planFacts(kept, measuredOf(kept, races.value?.items)),
                  ["Strategy", kept.strategy],
                  ["Bound", kept.bound],
                ]}
              />
              {machine && (
                <p>
                  Made on <MachineLink machines={machines.value ?? []} digest={machine} />.{" "}
                  {hasPurposes && <AskLink op={kept.op} machine={machine} purpose={purposes.value?.[0] ?? ""} />}
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
