// @vitest-environment jsdom
import { afterEach, expect, test, vi } from "vitest";
import { ApiError } from "../lib/errors";
import { answerOf, api, given } from "./client";

afterEach(() => vi.unstubAllGlobals());

function answer(status: number, body: string, headers: Record<string, string> = {}) {
  const fetch = vi.fn(async (_request: Request) => new Response(body, { status, headers }));
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

const overview = () =>
  answerOf(api.GET("/api/v1/clusters/{cluster}/overview", { params: { path: { cluster: "c" } } }));

test("a query holds what is set", async () => {
  const fetch = answer(200, "{}");
  const query = given({ q: "a&b", tenant: undefined, offset: 0 });
  await api.GET("/api/v1/clusters/{cluster}/topics", { params: { path: { cluster: "c" }, query } });
  expect(new URL(fetch.mock.calls[0]?.[0].url ?? "").search).toBe("?q=a%26b&offset=0");
});

test("a refusal carries hop, request id, field and a next step", async () => {
  answer(503, '{"reason":"Broker b1 did not answer","request_id":"r-9","field":"topic"}');
  const error = await failureOf(overview());
  expect(error).toMatchObject({
    message: "Broker b1 did not answer",
    hop: "gateway → broker",
    status: 503,
    requestId: "r-9",
    field: "topic",
    call: "GET /api/v1/clusters/c/overview",
  });
  expect(error.nextStep).toMatch(/parts under the header/);
});

test("a proxy's HTML page is reported by its status, never shown", async () => {
  answer(502, "<html>Bad Gateway</html>", { "x-request-id": "p-1" });
  const error = await failureOf(overview());
  expect(error.message).toMatch(/502/);
  expect(error.requestId).toBe("p-1");
});

test("an answer without a body is none that failed", async () => {
  vi.stubGlobal("fetch", async () => new Response(null, { status: 204 }));
  const params = { path: { view_id: 1 } };
  expect(await answerOf(api.DELETE("/api/v1/views/{view_id}", { params }))).toBeUndefined();
});

test("an unreachable gateway is named as the failing hop", async () => {
  vi.stubGlobal("fetch", async () => {
    throw new TypeError("Failed to fetch");
  });
  expect(await failureOf(overview())).toMatchObject({ hop: "browser → gateway", status: null });
});

test("writes send the CSRF token that Django set", async () => {
  // biome-ignore lint/suspicious/noDocumentCookie: jsdom has no cookie store
  document.cookie = "csrftoken=tok%3D1";
  const fetch = answer(201, '{"id":"1"}');
  await api.POST("/api/v1/runs", { body: { analysis: "a", parameters: {} } });
  const request = fetch.mock.calls[0]?.[0];
  expect(request?.method).toBe("POST");
  expect(await request?.json()).toEqual({ analysis: "a", parameters: {} });
  expect(request?.headers.get("X-CSRFToken")).toBe("tok=1");
  expect(request?.headers.get("Content-Type")).toBe("application/json");
});
