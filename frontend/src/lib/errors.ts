export type Hop = "browser → gateway" | "gateway" | "gateway → broker" | "request" | Part;

/** A part of the instance that the gateway itself found at fault. */
const PARTS = {
  store: "metadata store",
  broker: "broker",
  bookie: "bookie",
  redis: "Redis",
  spark: "Spark",
  database: "console database",
} as const;
type Part = (typeof PARTS)[keyof typeof PARTS];

/** The part with this code; undefined for others, including the gateway, which the status identifies. */
export function partOf(code: unknown): Part | undefined {
  return typeof code === "string" && Object.hasOwn(PARTS, code)
    ? PARTS[code as keyof typeof PARTS]
    : undefined;
}

/** A failed call as shown to the user: where it failed, the id to quote, and the next step. */
export class ApiError extends Error {
  readonly hop: Hop;
  readonly status: number | null;
  readonly requestId: string | null;
  readonly field: string | null;
  readonly call: string;
  /** The answer's body, for callers that know its further members. */
  readonly body: Record<string, unknown>;

  constructor(about: {
    reason: string;
    hop: Hop;
    status: number | null;
    requestId: string | null;
    field: string | null;
    call: string;
    body?: Record<string, unknown>;
  }) {
    super(about.reason);
    this.name = "ApiError";
    this.hop = about.hop;
    this.status = about.status;
    this.requestId = about.requestId;
    this.field = about.field;
    this.call = about.call;
    this.body = about.body ?? {};
  }

  /** Whether it may have failed because a part of the instance does not answer, and not because of the request. */
  get isOfAPart(): boolean {
    return this.status === null || this.status === 502 || this.status === 503 || this.status === 504;
  }

  /** Whether a change that was answered so, or not at all, may have been made all the same. */
  get mayHaveActed(): boolean {
    return this.status === null || (this.status >= 500 && this.status !== 501);
  }

  /** Whether the input was refused, in contrast to a missing answer. */
  get isRefusal(): boolean {
    return this.status !== null && this.status >= 400 && this.status < 500;
  }

  /** The language of the message: the gateway answers in English, in whatever language the console is. */
  get lang(): "en" | undefined {
    return this.status === null ? undefined : "en";
  }

  get nextStep(): string {
    if (this.status === null)
      return "Check that the gateway runs and that this address is right, then retry.";
    if (this.status === 401) return "Sign in again, then retry.";
    if (this.status === 403) return "Ask an administrator for the permission this call needs.";
    if (this.status === 404) return "It may have been deleted or renamed; look for it in its list.";
    if (this.status === 405) return "The action is not supported for it; nothing was changed.";
    if (this.status === 409)
      return /exists/i.test(this.message)
        ? "Choose another name, or open the existing one."
        : "It changed meanwhile. Reload, check it, then repeat the action.";
    if (this.status === 429) return "Too many calls at once. Wait a few seconds, then retry.";
    if (this.status === 501) return "This build does not offer it yet.";
    if (this.status === 502 || this.status === 503 || this.status === 504)
      return "Retry. If it fails again, check the parts under the header and on the overview.";
    if (this.status >= 500) return "Look for the request id in the gateway's log, then retry.";
    return "Correct the request, then send it again.";
  }
}

/**
 * The failure of a query that a page with data shows, or null. While a part of the instance does not answer and the page
 * has data, the status line reports it and the page is marked as stale: nothing moves.
 */
export function failureOf({ error, data }: { error: unknown; data?: unknown }): ApiError | null {
  if (!error) return null;
  const failure = asApiError(error);
  return data !== undefined && failure.isOfAPart ? null : failure;
}

export function hopOf(status: number): Hop {
  if (status === 502 || status === 503 || status === 504) return "gateway → broker";
  return status >= 500 ? "gateway" : "request";
}

/** Any thrown value as an ApiError; a value of another kind is a fault of the console itself. */
export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const reason = error instanceof Error ? error.message : String(error);
  return new ApiError({
    reason,
    hop: "browser → gateway",
    status: null,
    requestId: null,
    field: null,
    call: "console",
  });
}
