import { expect, test } from "vitest";
import type { Span, Trace } from "../../api/types";
import { lengthOf, micros, stepsOf } from "./steps";

function span(id: string, parent: string | null, name: Span["name"], end: number | null, detail = {}): Span {
  return { id, parent_id: parent, name, start_us: 1, end_us: end, detail };
}

const trace = (spans: Span[]) => ({ spans }) as Trace;

test("each step stands below its parent, also below a parent that is the publisher's", () => {
  const steps = stepsOf(
    trace([
      span("a", "client", "publish", 9, { producer: "p" }),
      span("b", "a", "append", 8),
      span("d", "a", "dispatch", 12, { subscription: "s", redeliveries: "2" }),
      span("c", "b", "bookie", 7, { bookie: "b:3181" }),
      span("e", "d", "process", null, { subscription: "s", consumer: "c1" }),
    ]),
  );
  expect(steps.map(({ id, depth }) => `${depth}${id}`)).toEqual(["0a", "1b", "2c", "1d", "2e"]);
  expect(steps.map(({ detail }) => detail)).toEqual([
    "by p",
    "",
    "b:3181",
    "to s, delivered again (2)",
    "c1 of s",
  ]);
  expect(lengthOf(steps)).toBe(12);
});

test("a trace without an end has a length", () => {
  expect(lengthOf(stepsOf(trace([span("a", null, "publish", null)])))).toBe(1);
});

test.each([
  [0, "0 µs"],
  [999, "999 µs"],
  [1234, "1.23 ms"],
  [2_500_000, "2.5 s"],
])("%i µs reads %s", (us, text) => {
  expect(micros(us)).toBe(text);
});
