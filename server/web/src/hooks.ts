import {useEffect, useRef, useState} from "preact/hooks";
import {ApiError, type Problem} from "./api";

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
 * What `load` answers; asked again whenever `key` changes. While an answer is on its way no second question is sent: of
 * those that come up meanwhile only the last is asked, so that dragging a slider neither floods the service nor stalls.
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

/** True while the reader prefers dark. */
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

/** The part of the address behind "#", split: "#/plans/abc?op=x" is {path: ["plans", "abc"], parameters}. */
export interface Place {
  path: string[];
  parameters: URLSearchParams;
}

function currentPlace(): Place {
  const [path = "", search = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return {path: path.split("/").filter(Boolean).map(decoded), parameters: new URLSearchParams(search)};
}

/** As it stands where it is not percent-encoded as it should be: no page is called so. */
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
