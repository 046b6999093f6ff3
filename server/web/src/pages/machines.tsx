import {api, query} from "../api";
import {useChanges, useLoaded} from "../hooks";
import {Facts, Shown} from "../parts";
import type {Machine} from "../types";

function Machines({machines, isAsked}: {machines: Machine[]; isAsked: boolean}) {
  if (machines.length === 0) return <p class="muted">The store knows no {isAsked ? "such machine" : "machine yet"}.</p>;
  return (
    <>
      {machines.map((machine) => (
        <section key={machine.digest} class="card" aria-labelledby={machine.digest}>
          <h2 id={machine.digest}>{machine.label}</h2>
          <p class="digest">{machine.digest}</p>
          <Facts facts={Object.entries(machine.fields)} />
          <p>
            <a href={`#/plans${query({machine: machine.digest})}`}>Its plans</a>
          </p>
        </section>
      ))}
    </>
  );
}

/** All machines, or those whose digest begins with the parameter "machine". */
export function MachinesPage({given}: {given: URLSearchParams}) {
  const asked = (given.get("machine") ?? "").toLowerCase();
  const loaded = useLoaded(`machines ${useChanges()}`, () => api.machines());
  return (
    <>
      <h1>Machines</h1>
      <p>Measurements are comparable only where everything in a fingerprint is equal.</p>
      {asked && (
        <p>
          <a href="#/machines">All machines</a>
        </p>
      )}
      <Shown loaded={loaded}>
        {(all) => <Machines machines={all.filter(({digest}) => digest.startsWith(asked))} isAsked={asked !== ""} />}
      </Shown>
    </>
  );
}
