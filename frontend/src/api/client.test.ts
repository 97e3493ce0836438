// @vitest-environment jsdom
import { afterEach, expect, test, vi } from "vitest";
import { get, post, queryString, topicPath } from "./client";
import { ApiError } from "./errors";

afterEach(() => vi.unstubAllGlobals());

function answer(status: number, body: string, headers: Record<string, string> = {}) {
  const fetch = vi.fn(async (_url: string, _init: RequestInit) => new Response(body, { status, headers }));
  vi.stubGlobal("fetch", fetch);
  return fetch;
}

async function failureOf(call: Promise<unknown>): Promise<ApiError> {
  const error = await call.then(
    () => null,
    (reason: unknown) => reason,
  );
  if (!(error instanceof ApiError)) throw new Error(`expected an ApiError, got ${error}`);
  return error;
}

test("a topic's name is one path segment whatever it holds", () => {
  expect(topicPath("persistent", "a", "b", "x/../y%2F?#")).toBe(
    "/topics/persistent/a/b/x%2F..%2Fy%252F%3F%23",
  );
  expect(queryString({ q: "a&b", tenant: undefined, sort: "", offset: 0 })).toBe("?q=a%26b&offset=0");
});

test("a refusal carries hop, request id, field and a next step", async () => {
  answer(503, '{"reason":"Broker b1 did not answer","request_id":"r-9","field":"topic"}');
  const error = await failureOf(get("/overview"));
  expect(error).toMatchObject({
    message: "Broker b1 did not answer",
    hop: "gateway → broker",
    status: 503,
    requestId: "r-9",
    field: "topic",
    call: "GET /api/v1/overview",
  });
  expect(error.nextStep).toMatch(/brokers/);
});

test("a proxy's HTML page is reported by its status, never shown", async () => {
  answer(502, "<html>Bad Gateway</html>", { "x-request-id": "p-1" });
  const error = await failureOf(get("/overview"));
  expect(error.message).toMatch(/502/);
  expect(error.requestId).toBe("p-1");
});

test("an unreachable gateway is named as the failing hop", async () => {
  vi.stubGlobal("fetch", async () => {
    throw new TypeError("Failed to fetch");
  });
  expect(await failureOf(get("/overview"))).toMatchObject({ hop: "browser → gateway", status: null });
});

test("writes send the CSRF token that Django set", async () => {
  // biome-ignore lint/suspicious/noDocumentCookie: jsdom has no cookie store
  document.cookie = "csrftoken=tok%3D1";
  const fetch = answer(201, '{"id":"1"}');
  await post("/runs", { analysis: "a" });
  expect(fetch.mock.calls[0]?.[1]).toMatchObject({
    method: "POST",
    body: '{"analysis":"a"}',
    headers: { "X-CSRFToken": "tok=1", "Content-Type": "application/json" },
  });
});
