import {useState} from "preact/hooks";
import {api, longestPage, query} from "../api";
import {counted, gainText, minute, optionsText, shortDigest} from "../format";
import {History, planCharts} from "../history";
import {useChanges, useLoaded} from "../hooks";
import {dtypes, kinds} from "../kinds";
import {machineName, MachineLink, Shown, Table, wholeDigest, widthFor} from "../parts";
import type {Column} from "../parts";
import {purposeText} from "../purpose";
import type {Listed, Machine, Op} from "../types";

const pageSize = 50;
const fields = ["op", "m", "n", "k", "dtype", "ranks", "machine"];

/** The text of an operator's options in an address: "none" where it has none. */
export const optionsKey = (op: Op) => optionsText(op).trim() || "none";

/** A moment whose date and time may stand below each other. */
function Moment({iso}: {iso: string}) {
  const [day, hour] = minute(iso).split(" ");
  return (
    <time dateTime={iso}>
      <span class="one-line">{day}</span> <span class="one-line">{hour}</span>
    </time>
  );
}

const columnsFor = (machines: Machine[]): Column<Listed>[] => [
  {name: "Plan", of: (plan) => <a href={`#/plans/${plan.digest}`}>{shortDigest(plan.digest)}</a>},
  {name: "Operator", of: ({op}) => op.kind + optionsText(op), key: ({op}) => op.kind},
  {name: "m", of: ({op}) => op.m, key: ({op}) => op.m, isNumber: true},
  {name: "n", of: ({op}) => op.n, key: ({op}) => op.n, isNumber: true},
  {name: "k", of: ({op}) => op.k, key: ({op}) => op.k, isNumber: true},
  {name: "Type", of: ({op}) => op.dtype, key: ({op}) => op.dtype},
  {name: "Ranks", of: ({op}) => op.world_size, key: ({op}) => op.world_size, isNumber: true},
  {name: "Cut", of: ({result}) => result?.cut ?? "unreadable", key: ({result}) => result?.cut ?? "", isOneLine: true},
  {
    name: "Gain",
    of: ({result}) => result && gainText(result),
    key: ({result}) => result?.benefit ?? -Infinity,
    isNumber: true,
  },
  {name: "Made for", of: ({purpose}) => purposeText(purpose), key: ({purpose}) => purposeText(purpose)},
  {
    name: "Kept",
    of: ({created_at}) => <Moment iso={created_at} />,
    key: ({created_at}) => created_at,
  },
  {
    name: "Machine",
    of: ({machine}) => <MachineLink machines={machines} digest={machine} />,
    key: ({machine}) => machineName(machines, machine),
  },
];

function sortedBy(rows: Listed[], columns: Column<Listed>[], name: string, isDescending: boolean): Listed[] {
  const key = columns.find((column) => column.name === name)?.key;
  if (!key) return rows;
  const compare = (a: Listed, b: Listed) => {
    const [x, y] = [key(a), key(b)];
    return typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
  };
  const ascending = [...rows].sort(compare);
  return isDescending ? ascending.reverse() : ascending;
}

function NoPlan({isFiltered, isPage}: {isFiltered: boolean; isPage: boolean}) {
  if (isFiltered) return <p>No kept plan {isPage && "of this page "}matches.</p>;
  return (
    <p class="muted">
      The store has no plan: <code>mc2 tune</code> on a machine keeps one.
    </p>
  );
}

/** Goes to the first page of a search. */
const search = (parameters: Record<string, string>) => {
  location.hash = `#/plans${query(parameters)}`;
};

function SearchForm({given, machines}: {given: URLSearchParams; machines: Machine[]}) {
  const submit = (event: Event) => {
    event.preventDefault();
    const form = new FormData(event.target as HTMLFormElement);
    search(Object.fromEntries([...form].map(([name, value]) => [name, String(value).trim()])));
  };
  const machine = wholeDigest(machines, given.get("machine") ?? "");
  const chosen = (name: string) => (name === "machine" ? machine : given.get(name));
  const choice = (name: string, label: string, values: [value: string, text: string][]) => (
    <label class={widthFor(values.map(([, text]) => text))}>
      {label}
      <select name={name}>
        <option value="">any</option>
        {values.map(([value, text]) => (
          <option key={value} value={value} selected={value === chosen(name)}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
  return (
    <form class="question" role="search" aria-label="Plans" onSubmit={submit}>
      {choice("op", "Operator", kinds.map((kind) => [kind, kind]))}
      {["m", "n", "k", "ranks"].map((name) => (
        <label key={name}>
          {name}
          <input name={name} type="number" min="1" defaultValue={given.get(name) ?? ""} placeholder="any" />
        </label>
      ))}
      {choice("dtype", "Element type", dtypes.map((dtype) => [dtype, dtype]))}
      {choice("machine", "Machine", machines.map(({digest}) => [digest, machineName(machines, digest)]))}
      <button type="submit">Search</button>
    </form>
  );
}

export function PlansPage({given}: {given: URLSearchParams}) {
  const filter = Object.fromEntries(fields.filter((name) => given.get(name)).map((name) => [name, given.get(name)!]));
  const before = given.get("before"), options = given.get("options");
  const [sorted, setSorted] = useState({name: "Kept", isDescending: true});
  const changes = useChanges();
  const loaded = useLoaded(`${given} ${changes}`, async () => {
    const {items, next} = await api.plans({...filter, before, limit: options ? longestPage : pageSize});
    return {items: items.filter(({op}) => !options || optionsKey(op) === options), next};
  });
  const machines = useLoaded(`machines ${changes}`, () => api.machines());
  const columns = columnsFor(machines.value ?? []);
  const sort = (name: string) =>
    setSorted({name, isDescending: sorted.name === name ? !sorted.isDescending : false});
  return (
    <>
      <h1>Plans</h1>
      <SearchForm given={given} machines={machines.value ?? []} />
      {options && (
        <p>
          Only operators {options === "none" ? "without experts, tables and epilogue" : `with ${options}`}.{" "}
          <a href={`#/plans${query(filter)}`}>Show all</a>
        </p>
      )}
      <div aria-live="polite">
        <Shown loaded={loaded}>
          {({items, next}) => (
            <>
              {items.length === 0 ? (
                <NoPlan isFiltered={options !== null || Object.keys(filter).length > 0} isPage={before !== null || next !== null} />
              ) : (
                <Table
                  caption={
                    `${counted(items.length, "plan")}${before || next !== null ? " of this page" : ""}, ` +
                    `sorted by ${sorted.name}`
                  }
                  columns={columns}
                  rows={sorted.name === "Kept" && sorted.isDescending ? items : sortedBy(items, columns, sorted.name, sorted.isDescending)}
                  sorted={sorted}
                  onSort={sort}
                  isStacked
                />
              )}
              <nav aria-label="Pages of plans" class="pages">
                {before && <a href={`#/plans${query({...filter, options})}`}>Newest</a>}
                {next !== null && <a href={`#/plans${query({...filter, options, before: next})}`}>Older</a>}
              </nav>
            </>
          )}
        </Shown>
      </div>
      <History charts={planCharts} />
    </>
  );
}
