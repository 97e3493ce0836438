import { expect, test } from "vitest";
import { ApiError, failureOf, partOf } from "./errors";

const failed = (status: number | null) =>
  new ApiError({ reason: "no", hop: "gateway", status, requestId: null, field: null, call: "GET /" });

test("a page keeps its data while a part of the instance does not answer", () => {
  expect(failureOf({ error: failed(503), data: { rows: [] } })).toBeNull();
  expect(failureOf({ error: failed(null), data: 0 })).toBeNull();
  expect(failureOf({ error: failed(503) })).not.toBeNull();
});

test("the next step fits the refusal", () => {
  const refused = (status: number, reason: string) =>
    new ApiError({ reason, hop: "request", status, requestId: null, field: null, call: "PUT /" }).nextStep;
  expect(refused(409, "The tenant exists already")).toMatch(/another name/);
  expect(refused(409, "Concurrent modification")).toMatch(/Reload/);
  expect(refused(405, "Not for a partitioned topic")).toMatch(/nothing was changed/);
});

test("a part that the gateway names is the one at fault, an unknown code is none", () => {
  expect(partOf("store")).toBe("metadata store");
  for (const code of ["gateway", "toString", "", undefined, 1]) expect(partOf(code)).toBeUndefined();
});

test("an error of the request is shown on the page, and nothing without a failure", () => {
  expect(failureOf({ error: failed(404), data: {} })?.status).toBe(404);
  expect(failureOf({ error: null, data: {} })).toBeNull();
});

test("a change without a clear refusal may have been made", () => {
  for (const status of [null, 500, 502, 503, 504]) expect(failed(status).mayHaveActed).toBe(true);
  for (const status of [400, 404, 409, 412, 429, 501]) expect(failed(status).mayHaveActed).toBe(false);
});
