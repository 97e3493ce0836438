import createClient from "openapi-fetch";
import { ApiError, hopOf, partOf } from "../lib/errors";
import { takeFirstAnswer } from "./first-answer";
import { notIdentified } from "./not-identified";
import type { paths } from "./schema";

const TIMEOUT_MS = 15_000;
const LONG_TIMEOUT_MS = 180_000;
const FILE = "application/zip";

/** Calls typed by the gateway's OpenAPI document: path, parameters, body and answer. They fail with an ApiError. */
export const api = createClient<paths>({ baseUrl: location.origin, fetch: (request) => call(request) });

/** Calls that the gateway works at for longer: it makes a file, or runs what it is given. */
export const longCalls = createClient<paths>({
  baseUrl: location.origin,
  fetch: (request) => call(request, LONG_TIMEOUT_MS),
});

/** The answer of a call. */
export async function answerOf<T>(answering: Promise<{ data?: T }>): Promise<T> {
  const { data } = await answering;
  return data as T;
}

/** Parameters of which some may be unset: those are not sent. */
export function given<T extends object>(parameters: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return parameters as { [K in keyof T]: Exclude<T[K], undefined> };
}

/** The window of a list that has `limit` rows on a page; pages are counted from 1. */
export function rowsOf(page: number, limit: number) {
  return { offset: (page - 1) * limit, limit };
}

async function call(request: Request, timeoutMs = TIMEOUT_MS): Promise<Response> {
  const name = `${request.method} ${new URL(request.url).pathname}`;
  const timeout = AbortSignal.timeout(timeoutMs);
  const token = /(?:^|;\s*)csrftoken=([^;]+)/.exec(document.cookie)?.[1];
  if (token && request.method !== "GET") request.headers.set("X-CSRFToken", decodeURIComponent(token));
  let response: Response;
  try {
    response =
      (await takeFirstAnswer(request)) ??
      (await fetch(request, { signal: AbortSignal.any([request.signal, timeout]) }));
  } catch (error) {
    if (request.signal.aborted) throw error; // The caller gave up; not a failure to show.
    const reason = timeout.aborted
      ? `No answer within ${timeoutMs / 1000} s`
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
  if (response.ok && response.headers.get("content-type") === FILE) return response;
  const json = parse(await response.clone().text());
  if (response.ok && (json !== undefined || response.status === 204)) return response;
  if (response.status === 401) notIdentified();
  const details = typeof json === "object" && json !== null ? (json as Record<string, unknown>) : {};
  throw new ApiError({
    reason: textOf(details.reason) ?? (response.ok ? "The answer is not JSON" : statusText(response)),
    hop: partOf(details.hop) ?? hopOf(response.ok ? 500 : response.status),
    status: response.status,
    requestId: textOf(details.request_id) ?? response.headers.get("x-request-id"),
    field: textOf(details.field),
    call: name,
    body: details,
  });
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
