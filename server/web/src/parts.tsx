import type {ComponentChildren} from "preact";
import type {Loaded} from "./hooks";
import type {Problem} from "./api";
import {shortDigest} from "./format";
import type {Machine} from "./types";

/** Begins with its subject: "ranks is 1; legal: 2 to 1024", "machine: no machine has ...". */
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

/** What was loaded, or why not. What is shown stays while its successor is on its way. */
export function Shown<T>({loaded, children}: {loaded: Loaded<T>; children: (value: T) => ComponentChildren}) {
  if (loaded.problem) return <ProblemBox problem={loaded.problem} />;
  if (loaded.value === undefined) return <p class="muted">{loaded.isLoading ? "Loading …" : ""}</p>;
  return <>{children(loaded.value)}</>;
}

/** A machine's label, with its digest where another one has the same. */
export function machineName(machines: Machine[], digest: string): string {
  const label = machines.find((machine) => machine.digest === digest)?.label;
  const isAlone = machines.filter((machine) => machine.label === label).length === 1;
  return label && isAlone ? label : `${label ?? "machine"} (${shortDigest(digest)})`;
}

/** Names with their values. */
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

/** A whole number of a form. */
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

/** One of some values of a form. */
export function Choice(props: {
  label: string;
  value: string;
  values: [value: string, text: string][];
  onChange: (value: string) => void;
}) {
  const {label, value: chosen, values, onChange} = props;
  return (
    <label>
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

/** Machines to choose from, or none where there is only one. */
export const machineChoices = (machines: Machine[]): [value: string, text: string][] => [
  ["", "the only one"],
  ...machines.map(({digest}): [string, string] => [digest, machineName(machines, digest)]),
];

export interface Column<Row> {
  name: string;
  of: (row: Row) => ComponentChildren;
  isNumber?: boolean;
  /** Not to be wrapped: a wide table scrolls instead. */
  isOneLine?: boolean;
  /** By what rows are sorted when the column's name is pressed. */
  key?: (row: Row) => string | number;
}

interface TableProps<Row> {
  caption: string;
  columns: Column<Row>[];
  rows: Row[];
  sorted?: {name: string; isDescending: boolean};
  onSort?: (name: string) => void;
  isCaptionHidden?: boolean;
}

export function Table<Row>({caption, columns, rows, sorted, onSort, isCaptionHidden}: TableProps<Row>) {
  const direction = (name: string) =>
    sorted?.name === name ? (sorted.isDescending ? "descending" : "ascending") : undefined;
  const arrow = (name: string) => (direction(name) === "ascending" ? " ▲" : direction(name) === "descending" ? " ▼" : "");
  return (
    <div class="scroll" role="region" aria-label={caption} tabIndex={0}>
      <table>
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
                <td key={name} class={isNumber ? "number" : isOneLine ? "one-line" : ""}>
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

/** The numbers of a chart for those who do not see it. */
export function TableOf<Row>(props: TableProps<Row>) {
  return (
    <details class="numbers">
      <summary>{props.caption} as a table</summary>
      <Table {...props} isCaptionHidden />
    </details>
  );
}
