import {createContext} from "preact";
import {useContext, useEffect, useRef, useState} from "preact/hooks";
import {ApiError, followEpochs, type Problem} from "./api";

export interface Loaded<T> {
  value?: T;
  problem?: Problem;
  isLoading: boolean;
}

const problemOf = (error: unknown): Problem =>
  error instanceof ApiError
    ? error.problem
    : {status: 0, title: "The page failed", detail: error instanceof Error ? error.message : String(error)};

/**
 * The result of `load`, which is called again whenever `key` changes; never while `key` is null. Only one call runs at a
 * time. Of the changes of `key` meanwhile only the last one leads to a call, so that dragging a slider neither floods the
 * service nor stalls.
 */
export function useLoaded<T>(key: string | null, load: () => Promise<T>): Loaded<T> {
  const [state, setState] = useState<Loaded<T>>({isLoading: key !== null});
  const latest = useRef({key, load});
  latest.current = {key, load};
  const isBusy = useRef(false);
  const isGone = useRef(false);

  useEffect(() => {
    isGone.current = false;
    return () => {
      isGone.current = true;
    };
  }, []);

  useEffect(() => {
    if (isBusy.current) return;
    const run = async () => {
      isBusy.current = true;
      for (let asked: string | null = null; !isGone.current && latest.current.key !== null && asked !== latest.current.key; ) {
        asked = latest.current.key;
        setState((before) => ({...before, isLoading: true}));
        const outcome = await latest.current.load().then(
          (value): Loaded<T> => ({value, isLoading: false}),
          (error: unknown): Loaded<T> => ({problem: problemOf(error), isLoading: false}),
        );
        if (!isGone.current) setState(outcome);
      }
      isBusy.current = false;
    };
    void run();
  }, [key]);
  return state;
}

const ChangeCount = createContext(0);
export const ChangesProvider = ChangeCount.Provider;
/** Number of the store's changes since the page was opened. Views of the store's present content make it part of their key. */
export const useChanges = (): number => useContext(ChangeCount);

/** The number for ChangesProvider. A hidden tab holds no connection, since browsers allow six for a service. */
export function useChangeCount(visit: number): number {
  const gatherMs = 300; // counts changes within this time as one, as they may come by the hundred
  const [count, setCount] = useState(0);
  useEffect(() => {
    let known: number | undefined, timer: ReturnType<typeof setTimeout> | undefined, stop = new AbortController();
    const tell = (epoch: number) => {
      const isNews = known !== undefined && epoch !== known;
      known = epoch;
      if (!isNews || timer !== undefined) return;
      timer = setTimeout(() => {
        timer = undefined;
        setCount((before) => before + 1);
      }, gatherMs);
    };
    const follow = () => {
      stop.abort();
      stop = new AbortController();
      if (!document.hidden) void followEpochs(tell, stop.signal);
    };
    follow();
    document.addEventListener("visibilitychange", follow);
    return () => {
      document.removeEventListener("visibilitychange", follow);
      stop.abort();
      clearTimeout(timer);
    };
  }, [visit]);
  return count;
}

/** Names the page in the browser's tab and history, as soon as the name is known. */
export function useTitle(name: string | undefined): void {
  useEffect(() => {
    if (name) document.title = `${name} · mc2`;
  }, [name]);
}

/** Whether the reader prefers the dark colour scheme. */
export function useDark(): boolean {
  const [query] = useState(() => matchMedia("(prefers-color-scheme: dark)"));
  const [isDark, setDark] = useState(query.matches);
  useEffect(() => {
    const follow = () => setDark(query.matches);
    query.addEventListener("change", follow);
    return () => query.removeEventListener("change", follow);
  }, [query]);
  return isDark;
}

/** The part of the address behind "#", split: "#/plans/abc?op=x" is {path: ["plans", "abc"], parameters: {op: "x"}}. */
export interface Place {
  path: string[];
  parameters: URLSearchParams;
}

function currentPlace(): Place {
  const [path = "", search = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return {path: path.split("/").filter(Boolean).map(decoded), parameters: new URLSearchParams(search)};
}

/** Decodes a percent-encoded part. A part with invalid encoding is returned as it is; no page has such a name. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function usePlace(): Place {
  const [place, setPlace] = useState(currentPlace);
  useEffect(() => {
    const follow = () => setPlace(currentPlace());
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return place;
}

/** Counts up at this interval. In a key of useLoaded, it loads again. */
export function useRound(intervalMs: number): number {
  const [round, setRound] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setRound((n) => n + 1), intervalMs);
    return () => clearInterval(timer);
  }, [intervalMs]);
  return round;
}
