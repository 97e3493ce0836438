import { ApiError, hopOf } from "./errors";

export type Query = Record<string, string | number | undefined>;

const BASE = "/api/v1";
const TIMEOUT_MS = 15_000;

export async function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return call<T>("GET", path + queryString(query), undefined, signal);
}

export async function post<T>(path: string, body: unknown): Promise<T> {
  return call<T>("POST", path, body);
}

/** Path of one topic below /api/v1; each part is one path segment, whatever characters it has. */
export function topicPath(domain: string, tenant: string, namespace: string, topic: string): string {
  return `/topics/${[domain, tenant, namespace, topic].map(encodeURIComponent).join("/")}`;
}

export function queryString(query: Query): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") search.set(key, String(value));
  }
  const text = search.toString();
  return text ? `?${text}` : "";
}

async function call<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const name = `${method} ${BASE}${path.split("?")[0]}`;
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  const init: RequestInit = {
    method,
    credentials: "same-origin",
    headers: { Accept: "application/json", ...(method === "GET" ? {} : writeHeaders()) },
    signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
  };
  if (body !== undefined) init.body = JSON.stringify(body);
  let response: Response;
  try {
    response = await fetch(BASE + path, init);
  } catch (error) {
    if (signal?.aborted) throw error; // The caller gave up; not a failure to show.
    const reason = timeout.aborted
      ? `No answer within ${TIMEOUT_MS / 1000} s`
      : "The gateway could not be reached";
    throw new ApiError({
      reason,
      hop: "browser → gateway",
      status: null,
      requestId: null,
      field: null,
      call: name,
    });
  }
  const text = await response.text();
  const json = parse(text);
  if (response.ok && json !== undefined) return json as T;
  const details = typeof json === "object" && json !== null ? (json as Record<string, unknown>) : {};
  throw new ApiError({
    reason: textOf(details.reason) ?? (response.ok ? "The answer is not JSON" : statusText(response)),
    hop: hopOf(response.ok ? 500 : response.status),
    status: response.status,
    requestId: textOf(details.request_id) ?? response.headers.get("x-request-id"),
    field: textOf(details.field),
    call: name,
  });
}

function writeHeaders(): Record<string, string> {
  const token = /(?:^|;\s*)csrftoken=([^;]+)/.exec(document.cookie)?.[1];
  return {
    "Content-Type": "application/json",
    ...(token ? { "X-CSRFToken": decodeURIComponent(token) } : {}),
  };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // A proxy's HTML page, or a cut answer: reported by status instead.
  }
}

function statusText(response: Response): string {
  return `The gateway answered ${response.status}${response.statusText ? ` ${response.statusText}` : ""}`;
}

function textOf(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}
