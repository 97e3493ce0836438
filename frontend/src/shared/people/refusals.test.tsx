import { expect, test } from "vitest";
import { ApiError } from "../../lib/errors";
import { refusalsOf } from "./refusals";

const LABELS = { current: "Current password", new: "New password" };

function failure(status: number, reason: string, field: string | null = null): ApiError {
  return new ApiError({ reason, status, field, hop: "request", requestId: null, call: "POST /api/v1/x" });
}

test("a refusal stands at the field that it names, without the field's technical name", () => {
  expect(refusalsOf(failure(400, "current: is not your password", "current"), LABELS)).toEqual({
    of: { current: <span lang="en">Current password is not your password</span> },
    rest: null,
  });
  expect(refusalsOf(failure(422, "new: This password is too common."), LABELS).of).toEqual({
    new: <span lang="en">This password is too common.</span>,
  });
});

test("what concerns no field, or was not answered, stands for the whole form", () => {
  for (const error of [failure(409, "A person 'ada' exists already"), failure(503, "new: database is away")])
    expect(refusalsOf(error, LABELS)).toEqual({ of: {}, rest: error });
});
