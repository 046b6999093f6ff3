import {api, query} from "../api";
import {useChanges, useLoaded} from "../hooks";
import {Facts, Shown} from "../parts";

export function MachinesPage() {
  const loaded = useLoaded(`machines ${useChanges()}`, () => api.machines());
  return (
    <>
      <h1>Machines</h1>
      <p>Measurements are comparable only where everything in a fingerprint is equal.</p>
      <Shown loaded={loaded}>
        {(machines) =>
          machines.length === 0 ? (
            <p class="muted">The store knows no machine yet.</p>
          ) : (
            machines.map((machine) => (
              <section key={machine.digest} class="card" aria-labelledby={machine.digest}>
                <h2 id={machine.digest}>{machine.label}</h2>
                <p class="digest">{machine.digest}</p>
                <Facts facts={Object.entries(machine.fields)} />
                <p>
                  <a href={`#/plans${query({machine: machine.digest})}`}>Its plans</a>
                </p>
              </section>
            ))
          )
        }
      </Shown>
    </>
  );
}
