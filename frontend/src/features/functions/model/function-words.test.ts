import { expect, test } from "vitest";
import type { InstanceRow } from "./function-queries";
import {
  componentOf,
  histogramOf,
  millis,
  originText,
  stateOf,
  stateText,
  summedBuckets,
  toneOf,
} from "./function-words";

const row: InstanceRow = {
  instance: 0,
  running: true,
  stopped: false,
  error: "",
  restarts: 0,
  worker: "w",
  received: 1,
  processed: 1,
  failures: 0,
  received_rate: 1,
  latency_ms: 1,
  latency_buckets: [
    { up_to_ms: "1", count: 3 },
    { up_to_ms: "5.0", count: 5 },
    { up_to_ms: "+Inf", count: 6 },
  ],
  last_at: 1,
  exceptions: [],
};

test("only components that there are filter", () => {
  expect(["sink", "thing", "", undefined].map(componentOf)).toEqual([
    "sink",
    undefined,
    undefined,
    undefined,
  ]);
});

test("a state is good only while all runs and nothing fails", () => {
  const tone = (state: string, failures: number | null) => toneOf({ state, failures });
  expect(tone("running", 0)).toBe("ok");
  expect(tone("running", 2)).toBe("warn");
  expect(tone("partly running", 0)).toBe("bad");
  expect(tone("stopped", null)).toBe("neutral");
});

test("an instance that does not run says why", () => {
  expect(stateOf(row).word).toBe("running");
  const silent = { ...row, running: false };
  expect(stateOf({ ...silent, stopped: true }).word).toBe("stopped");
  expect(stateOf({ ...silent, error: "no package" })).toEqual({ word: "failed", tone: "bad" });
  expect(stateOf(silent).word).toBe("starting");
});

test("a histogram has each invocation once, over all instances", () => {
  expect(histogramOf(summedBuckets([row, row]))).toEqual([
    { label: "up to 1 ms", value: 6 },
    { label: "up to 5.0 ms", value: 4 },
    { label: "more than 5.0 ms", value: 2 },
  ]);
});

test("a latency that is not known is not zero", () => {
  expect([null, 0, 2.25, 1234].map(millis)).toEqual(["—", "0.0 ms", "2.3 ms", "1,234 ms"]);
});

test("states and origins that are not known are shown as they are", () => {
  expect(["partly running", "not known", "asleep"].map(stateText)).toEqual([
    "partly running",
    "not known",
    "asleep",
  ]);
  expect(["user", "weather"].map(originText)).toEqual(["user", "weather"]);
});
