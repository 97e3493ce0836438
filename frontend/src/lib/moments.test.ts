import { expect, test } from "vitest";
import { dateTime, time } from "./format";
import { afterName, withMoments } from "./moments";

const AT = Date.parse("2026-11-25T22:35:56Z");

test("times of the server are shown in the local time zone", () => {
  const text = "211 producers disconnected since 2026-11-25T22:35:56Z";
  expect(withMoments(text, AT + 1_000)).toBe(`211 producers disconnected since ${time(AT)}`);
  expect(withMoments(text, AT + 2 * 86_400_000)).toContain(dateTime(AT));
  expect(withMoments("1,500 messages wait", AT)).toBe("1,500 messages wait");
});

test("a title continues after its name", () => {
  expect(afterName("s", "has no consumer")).toBe("s has no consumer");
  expect(afterName("rollup", ": one consumer holds up its keys")).toBe(
    "rollup: one consumer holds up its keys",
  );
});
