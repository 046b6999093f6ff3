import {render} from "preact";
import {useEffect, useRef, useState} from "preact/hooks";
import {token} from "./api";
import {ChangesProvider, useChangeCount, usePlace} from "./hooks";
import type {Place} from "./hooks";
import {HealthPage} from "./pages/health";
import {LlmPage} from "./pages/llms";
import {MachinesPage} from "./pages/machines";
import {ModelPage, ModelsPage} from "./pages/models";
import {PlanPage} from "./pages/plan";
import {PlansPage} from "./pages/plans";
import {QueryPage} from "./pages/query";

/** Shown for an address that belongs to no page, e.g. from an old link or mistyped. */
function NoPage() {
  return (
    <>
      <h1>No such page</h1>
      <p>
        The part of the address behind "#" names no page of this dashboard. Its pages are above; a plan or a model has its
        digest behind <code>#/plans/</code> or <code>#/models/</code>.
      </p>
    </>
  );
}

const noPage = {path: null, title: "No such page", depth: 0, show: () => <NoPage />};

/** The pages. `depth` is the most parts that an address may have behind the page's own name. */
const pages = [
  {path: "", title: "Ask", depth: 0, show: (place: Place) => <QueryPage given={place.parameters} />},
  {
    path: "plans",
    title: "Plans",
    depth: 1,
    show: ({path, parameters}: Place) =>
      path[1] ? <PlanPage key={path[1]} digest={path[1]} /> : <PlansPage key={parameters.toString()} given={parameters} />,
  },
  {
    path: "models",
    title: "Models",
    depth: 1,
    show: ({path}: Place) => (path[1] ? <ModelPage key={path[1]} digest={path[1]} /> : <ModelsPage />),
  },
  {path: "llms", title: "Whole models", depth: 0, show: ({parameters}: Place) => <LlmPage given={parameters} />},
  {path: "machines", title: "Machines", depth: 0, show: ({parameters}: Place) => <MachinesPage given={parameters} />},
  {path: "health", title: "Health", depth: 0, show: () => <HealthPage />},
];

const pageAt = ({path}: Place) =>
  pages.find((page) => page.path === (path[0] ?? "") && path.length <= page.depth + 1) ?? noPage;

function TokenForm({onChange}: {onChange: () => void}) {
  const save = (event: Event) => {
    event.preventDefault();
    const input = new FormData(event.target as HTMLFormElement).get("token");
    token.set(String(input ?? "").trim());
    onChange();
  };
  return (
    <details class="token">
      <summary>Token{token.get() ? " ✓" : ""}</summary>
      <form onSubmit={save}>
        <label>
          Bearer token, kept until this tab is closed
          <input name="token" type="password" autocomplete="off" defaultValue={token.get()} />
        </label>
        <button type="submit">Use it</button>
      </form>
    </details>
  );
}

function App() {
  const place = usePlace();
  const [visit, setVisit] = useState(0); // counts new tokens; a token may change every answer
  const changes = useChangeCount(visit);
  const main = useRef<HTMLElement>(null);
  const isFirst = useRef(true);
  const current = pageAt(place);
  const address = place.path.join("/");

  useEffect(() => {
    document.title = `${current.title} · mc2`;
    // Moves the focus to the new page, so that keyboards and screen readers go on there, as after any other link.
    if (!isFirst.current) main.current?.focus();
    isFirst.current = false;
  }, [address]);

  return (
    <>
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), main.current?.focus())}>
        Skip to the content
      </a>
      <header>
        <span class="name">mc2</span>
        <nav aria-label="Pages">
          {pages.map((page) => (
            <a key={page.path} href={`#/${page.path}`} aria-current={page === current ? "page" : undefined}>
              {page.title}
            </a>
          ))}
        </nav>
        <TokenForm key={visit} onChange={() => setVisit(visit + 1)} />
      </header>
      <main id="main" ref={main} tabIndex={-1} key={visit}>
        <ChangesProvider value={changes}>{current.show(place)}</ChangesProvider>
      </main>
    </>
  );
}

const root = document.getElementById("app")!;
root.replaceChildren();
render(<App />, root);
