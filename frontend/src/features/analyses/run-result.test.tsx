// @vitest-environment jsdom
import { expect, test } from "vitest";
import type { Series } from "../../api/types";
import { amountsOf, axesOf } from "./run-result";

const AT = 1_700_000_000_000;
const rate: Series = {
  key: "rate",
  title: "Rate over time",
  kind: "line",
  x: { label: "Publish time", type: "time", unit: "ms" },
  y: { label: "Messages per second", unit: "messages/s" },
  points: [
    [AT, 3],
    [AT + 1000, 50],
    [AT + 2000, 4],
  ],
  partial: [AT, AT + 2000],
};

test("partly known points are separate from the line, so that it does not fall at its end", () => {
  const { xs, ys, partial } = axesOf(rate);
  expect(xs).toEqual([AT / 1000, AT / 1000 + 1, AT / 1000 + 2]);
  expect(ys).toEqual([null, 50, null]);
  expect(partial).toEqual([3, null, 4]);
});

test("a series without such points is one line", () => {
  const { partial: _, ...whole } = rate;
  expect(axesOf(whole).ys).toEqual([3, 50, 4]);
  expect(axesOf(whole).partial).toEqual([null, null, null]);
});

test("bins of a histogram are ranges up to the next power of two", () => {
  const sizes: Series = {
    key: "sizes",
    title: "Sizes of messages",
    kind: "histogram",
    x: { label: "Bytes", type: "number", unit: "bytes" },
    y: { label: "Messages", unit: "messages" },
    points: [],
  };
  const bytes = axesOf(sizes).xText;
  expect([0, 1, 64, 512, 1024].map(bytes)).toEqual(["0 B", "1 B", "64–127 B", "512–1,023 B", "1–2 KiB"]);
  const plain = axesOf({ ...sizes, x: { label: "Messages per key", type: "number" } }).xText;
  expect([1, 2, 1024].map(plain)).toEqual(["1", "2–3", "1,024–2,047"]);
});

test("a result states the data that was read, as far as its analysis counts it", () => {
  const whole = amountsOf({ messages: 5, entries: 1, ledgers: 2, bytes: 2048 });
  expect(whole).toBe("5 messages, 1 entry, 2 ledgers, 2 KiB");
  expect(amountsOf({ messages: 1 })).toBe("1 message");
  expect(amountsOf({})).toBe("");
});
