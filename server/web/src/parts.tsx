import type {ComponentChildren} from "preact";
import type {Loaded} from "./hooks";
import {query} from "./api";
import type {Problem} from "./api";
import {shortDigest} from "./format";
import type {Fingerprint, Machine} from "./types";

/** The text of a problem, beginning with its field: "ranks is 1; legal: 2 to 1024", "machine: no machine has ...". */
function problemText({field, detail}: Problem): string {
  if (!field) return detail;
  return /^(is|are|has|have|must|needs|differs|does|cannot|takes|names|ends)\b/.test(detail) ? `${field} ${detail}` : `${field}: ${detail}`;
}

export function ProblemBox({problem}: {problem: Problem}) {
  return (
    <div class="problem" role="alert">
      <strong>{problem.title}</strong>
      <p>{problemText(problem)}</p>
      {problem.status === 401 && <p>Enter a token at the top of the page.</p>}
    </div>
  );
}

/** Shows the loaded value, or the problem. The old value stays visible while the next one is loading. */
export function Shown<T>({loaded, children}: {loaded: Loaded<T>; children: (value: T) => ComponentChildren}) {
  if (loaded.problem) return <ProblemBox problem={loaded.problem} />;
  if (loaded.value === undefined) return <p class="muted">{loaded.isLoading ? "Loading …" : ""}</p>;
  return <>{children(loaded.value)}</>;
}

/** A machine's label, followed by its digest if another machine has the same label. */
export function machineName(machines: Machine[], digest: string): string {
  const label = machines.find((machine) => machine.digest === digest)?.label;
  const isAlone = machines.filter((machine) => machine.label === label).length === 1;
  return label && isAlone ? label : `${label ?? "machine"} (${shortDigest(digest)})`;
}

/** A machine's name, which leads to all that is known of it. */
export const MachineLink = ({machines, digest}: {machines: Machine[]; digest: string}) => (
  <a href={`#/machines${query({machine: digest})}`}>{machineName(machines, digest)}</a>
);

/** The machine whose digest begins so. Returns the beginning itself if there is no such machine, or several. */
export function wholeDigest(machines: Machine[], beginning: string): string {
  const found = beginning ? machines.filter(({digest}) => digest.startsWith(beginning.toLowerCase())) : [];
  return found.length === 1 ? found[0]!.digest : beginning;
}

const sorted = (fields: Fingerprint) => JSON.stringify(Object.entries(fields).sort());

export const machineOf = (fingerprint: Fingerprint, machines: Machine[]): Machine | undefined =>
  machines.find((machine) => sorted(machine.fields) === sorted(fingerprint));

/** A list of names with their values. */
export function Facts({facts}: {facts: [name: string, value: ComponentChildren][]}) {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A form field for a whole number. */
export function NumberField(props: {
  label: string;
  value: string;
  min?: number;
  max?: number;
  onInput: (value: string) => void;
}) {
  const {label, value, min = 1, max, onInput} = props;
  return (
    <label>
      {label}
      <input
        type="number"
        min={min}
        max={max}
        step="1"
        required
        inputMode="numeric"
        value={value}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
    </label>
  );
}

/** The class of a field that shows one of these texts: fields are wider where a text is longer. */
export function widthFor(texts: string[]): string {
  const longest = Math.max(...texts.map((text) => text.length));
  return longest > 40 ? "widest" : longest > 14 ? "wide" : "";
}

/** A form field for one of several values. */
export function Choice(props: {
  label: string;
  value: string;
  values: [value: string, text: string][];
  onChange: (value: string) => void;
}) {
  const {label, value: chosen, values, onChange} = props;
  return (
    <label class={widthFor(values.map(([, text]) => text))}>
      {label}
      <select value={chosen} onChange={(event) => onChange(event.currentTarget.value)}>
        {values.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Machines to choose from. The first choice names none and leaves it to the service. */
export const machineChoices = (machines: Machine[]): [value: string, text: string][] => [
  ["", "the only one that can answer"],
  ...machines.map(({digest}): [string, string] => [digest, machineName(machines, digest)]),
];

export interface Column<Row> {
  name: string;
  of: (row: Row) => ComponentChildren;
  isNumber?: boolean;
  /** Whether cells stay on one line; a wide table then scrolls. */
  isOneLine?: boolean;
  /** The value to sort rows by when the column's name is pressed. Absent: rows cannot be sorted by this column. */
  key?: (row: Row) => string | number;
}

interface TableProps<Row> {
  caption: string;
  columns: Column<Row>[];
  rows: Row[];
  sorted?: {name: string; isDescending: boolean};
  onSort?: (name: string) => void;
  isCaptionHidden?: boolean;
  /** Whether each row becomes a block of named values on a narrow screen, so that nothing lies beyond its edge. */
  isStacked?: boolean;
}

export function Table<Row>({caption, columns, rows, sorted, onSort, isCaptionHidden, isStacked}: TableProps<Row>) {
  const direction = (name: string) =>
    sorted?.name === name ? (sorted.isDescending ? "descending" : "ascending") : undefined;
  const arrow = (name: string) => (direction(name) === "ascending" ? " ▲" : direction(name) === "descending" ? " ▼" : "");
  return (
    <div class="scroll" role="region" aria-label={caption} tabIndex={0}>
      <table class={isStacked ? "stacked" : ""}>
        <caption class={isCaptionHidden ? "hidden" : ""}>{caption}</caption>
        <thead>
          <tr>
            {columns.map(({name, key, isNumber}) => (
              <th key={name} scope="col" class={isNumber ? "number" : ""} aria-sort={direction(name)}>
                {key && onSort ? (
                  <button type="button" class="plain" onClick={() => onSort(name)}>
                    {name}
                    <span aria-hidden="true">{arrow(name)}</span>
                  </button>
                ) : (
                  name
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, i) => (
            <tr key={i}>
              {columns.map(({name, of, isNumber, isOneLine}) => (
                <td key={name} data-name={name} class={isNumber ? "number" : isOneLine ? "one-line" : ""}>
                  {of(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A chart's numbers as a table, for readers who cannot see the chart. */
export function TableOf<Row>(props: TableProps<Row>) {
  return (
    <details class="numbers">
      <summary>{props.caption} as a table</summary>
      <Table {...props} isCaptionHidden />
    </details>
  );
}
