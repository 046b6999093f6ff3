import {parameters} from "./types";
import type {
  Answer, Curves, Exploration, Explanation, History, List, LlmList, LlmPlan, MachineList, Model, Plan, Problem as Refusal, Races,
} from "./types";

/** What went wrong: the service's problem document, or the part of one that the page can fill in without the service. */
export type Problem = Pick<Refusal, "status" | "title" | "detail"> & Partial<Refusal>;

/** A refusal by the service; with status 0, no answer at all. */
export class ApiError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
  }
}

export type Parameters = Record<string, string | number | boolean | null | undefined>;

/** Most entries of one answer of a list. */
export const longestPage = parameters.Limit.maximum;

const tokenKey = "mc2.token";
/** The bearer token. It is kept in the tab only, until the tab is closed. */
export const token = {
  get: () => sessionStorage.getItem(tokenKey) ?? "",
  set: (value: string) => (value ? sessionStorage.setItem(tokenKey, value) : sessionStorage.removeItem(tokenKey)),
};

/** The query part of an address, "" or "?m=64&n=64". Parameters without a value are left out. */
export function query(parameters: Parameters): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text && `?${text}`;
}

async function problemOf(response: Response): Promise<Problem> {
  try {
    return (await response.json()) as Problem;
  } catch {
    return {status: response.status, title: response.statusText, detail: "the answer cannot be read"};
  }
}

function headersFor(accept: string): Record<string, string> {
  return {Accept: accept, ...(token.get() ? {Authorization: `Bearer ${token.get()}`} : {})};
}

async function ask(path: string, accept: string, body?: string): Promise<Response> {
  const headers = headersFor(accept);
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response: Response;
  try {
    response = await fetch(path, {headers, cache: "no-cache", ...(body === undefined ? {} : {method: "POST", body})});
  } catch {
    throw new ApiError({status: 0, title: "No answer", detail: "the service does not answer; is mc2 serve still running?"});
  }
  if (!response.ok) throw new ApiError(await problemOf(response));
  return response;
}

/** Reads a stream of events until it ends. Whenever a chunk arrives, calls `tell` with the last id in it. */
async function readIds(stream: ReadableStream<Uint8Array>, tell: (id: number) => void): Promise<void> {
  const reader = stream.getReader(), decoder = new TextDecoder();
  for (let rest = ""; ; ) {
    const {done, value} = await reader.read();
    if (done) return;
    const lines = (rest + decoder.decode(value, {stream: true})).split("\n");
    rest = lines.pop()!;
    const last = lines.reverse().find((line) => line.startsWith("id: "));
    if (last) tell(Number(last.slice("id: ".length)));
  }
}

/**
 * Calls `tell` with the store's present epoch, and with the new one after every change, until `stop` aborts. It does not
 * use EventSource because that cannot send the token.
 */
export async function followEpochs(tell: (epoch: number) => void, stop: AbortSignal): Promise<void> {
  const pauseMs = 5000;
  while (!stop.aborted) {
    try {
      const response = await fetch("/v1/changes", {headers: headersFor("text/event-stream"), cache: "no-store", signal: stop});
      if (response.status === 401 || response.status === 403) return; // another token starts this function anew
      if (response.ok && response.body) await readIds(response.body, tell);
    } catch {
      // the service is away, or `stop` has aborted
    }
    if (!stop.aborted) await new Promise((next) => setTimeout(next, pauseMs));
  }
}

const get = async <T>(path: string): Promise<T> => (await (await ask(path, "application/json")).json()) as T;
const post = async <T>(path: string, body: string): Promise<T> =>
  (await (await ask(path, "application/json", body)).json()) as T;
const id = encodeURIComponent;

export interface Readiness {
  status: string;
  revision: number;
  replica?: {connected: boolean; behind_ms: number; leader_revision: number};
}

export const api = {
  plan: (question: Parameters) => get<Answer>(`/v1/plan${query(question)}`),
  plans: (filter: Parameters) => get<List>(`/v1/plans${query(filter)}`),
  keptPlan: (digest: string) => get<Plan>(`/v1/plans/${id(digest)}`),
  explanation: (digest: string) => get<Explanation>(`/v1/plans/${id(digest)}/explanation`),
  races: (digest: string) => get<Races>(`/v1/plans/${id(digest)}/races`),
  models: (filter: Parameters) => get<List>(`/v1/models${query(filter)}`),
  model: (digest: string) => get<Model>(`/v1/models/${id(digest)}`),
  curves: (digest: string, variant?: string) => get<Curves>(`/v1/models/${id(digest)}/curves${query({variant})}`),
  exploration: (digest: string, change: Parameters) =>
    get<Exploration>(`/v1/models/${id(digest)}/exploration${query(change)}`),
  llms: async () => (await get<LlmList>("/v1/llms")).items,
  llmPlan: (name: string, question: Parameters) => get<LlmPlan>(`/v1/llms/${id(name)}/plan${query(question)}`),
  ownLlmPlan: (config: string, question: Parameters) => post<LlmPlan>(`/v1/llms/plan${query(question)}`, config),
  machines: async () => (await get<MachineList>("/v1/fingerprints")).items,
  history: (after: string) => get<History>(`/v1/history${query({after})}`),
  readiness: () => get<Readiness>("/readyz"),
  version: () => get<{version: string; api: string}>("/version"),
  metrics: async () => (await ask("/metrics", "text/plain")).text(),
};
