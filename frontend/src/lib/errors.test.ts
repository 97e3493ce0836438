import { expect, test } from "vitest";
import { ApiError, failureOf } from "./errors";

const failed = (status: number | null) =>
  new ApiError({ reason: "no", hop: "gateway", status, requestId: null, field: null, call: "GET /" });

test("what a page shows stays in its place while a part of the instance is away", () => {
  expect(failureOf({ error: failed(503), data: { rows: [] } })).toBeNull();
  expect(failureOf({ error: failed(null), data: 0 })).toBeNull();
  expect(failureOf({ error: failed(503) })).not.toBeNull();
});

test("what is wrong with the question is said on the page, and nothing without a failure", () => {
  expect(failureOf({ error: failed(404), data: {} })?.status).toBe(404);
  expect(failureOf({ error: null, data: {} })).toBeNull();
});
