import type {
  Answer, Curves, Exploration, Explanation, List, LlmList, LlmPlan, MachineList, Model, Plan, Problem as Refusal, Races,
} from "./types";

/** What went wrong, as the service says it, or as much as is known without its word. */
export type Problem = Pick<Refusal, "status" | "title" | "detail"> & Partial<Refusal>;

/** A refusal, or no answer at all (status 0). */
export class ApiError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
  }
}

export type Parameters = Record<string, string | number | boolean | null | undefined>;

const tokenKey = "mc2.token";
/** Kept until the tab is closed, and nowhere else. */
export const token = {
  get: () => sessionStorage.getItem(tokenKey) ?? "",
  set: (value: string) => (value ? sessionStorage.setItem(tokenKey, value) : sessionStorage.removeItem(tokenKey)),
};

/** Without parameters that are empty. */
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

async function ask(path: string, accept: string, body?: string): Promise<Response> {
  const headers: Record<string, string> = {Accept: accept};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  let response: Response;
  try {
    response = await fetch(path, {headers, cache: "no-cache", ...(body === undefined ? {} : {method: "POST", body})});
  } catch {
    throw new ApiError({status: 0, title: "No answer", detail: "the service does not answer; is mc2 serve still running?"});
  }
  if (!response.ok) throw new ApiError(await problemOf(response));
  return response;
}

const get = async <T>(path: string): Promise<T> => (await (await ask(path, "application/json")).json()) as T;
const post = async <T>(path: string, body: string): Promise<T> =>
  (await (await ask(path, "application/json", body)).json()) as T;
const id = encodeURIComponent;

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
  readiness: () => get<{status: string; revision: number}>("/readyz"),
  version: () => get<{version: string; api: string}>("/version"),
  metrics: async () => (await ask("/metrics", "text/plain")).text(),
};
