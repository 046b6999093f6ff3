import type {ComponentChildren} from "preact";
import type {Loaded} from "./hooks";
import type {Problem} from "./api";

export function ProblemBox({problem}: {problem: Problem}) {
  return (
    <div class="problem" role="alert">
      <strong>{problem.title}</strong>
      <p>{problem.field ? `${problem.field}: ${problem.detail}` : problem.detail}</p>
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

export interface Column<Row> {
  name: string;
  of: (row: Row) => ComponentChildren;
  isNumber?: boolean;
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
              {columns.map(({name, of, isNumber}) => (
                <td key={name} class={isNumber ? "number" : ""}>
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
