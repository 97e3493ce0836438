import { expect, test } from "vitest";
import type { History } from "../../api/types";
import { dayBefore, joined } from "./past";

const COLUMNS = ["msg_rate_in", "backlog"];
const recorded: History = {
  at: 20_000,
  step_ms: 10_000,
  columns: ["at", "msg_rate_in", "msg_rate_out", "bytes_rate_in", "bytes_rate_out", "backlog"],
  points: [
    [10_000, 1, 2, 3, 4, 5],
    [20_000, null, null, null, null, null],
  ],
};

test("live points are drawn in the server's steps: means of rates, the last backlog", () => {
  const live = [
    { at: 15_000, values: [9, 9] },
    { at: 21_000, values: [2, 7] },
    { at: 22_000, values: [4, 8] },
  ];
  expect(joined(recorded, live, COLUMNS, 15)).toEqual([
    { at: 10_000, values: [1, 5] },
    { at: 20_000, values: [null, null] },
    { at: 22_000, values: [3, 8] },
  ]);
});

test("an unrecorded time is a gap, and so is a step whose last value is not known", () => {
  const live = [
    { at: 60_500, values: [2, 7] },
    { at: 60_600, values: [null, null] },
  ];
  expect(joined(recorded, live, COLUMNS, 15).slice(2)).toEqual([
    { at: 30_000, values: [null, null] },
    { at: 60_600, values: [null, null] },
  ]);
});

test("only the requested minutes are shown", () => {
  const live = [{ at: 100_000, values: [1, 1] }];
  expect(joined(recorded, live, COLUMNS, 1).map((point) => point.at)).toEqual([100_000]);
});

test("without an answer of the server the points since the page was opened are shown", () => {
  const live = [{ at: 1, values: [1, 1] }];
  expect(joined(undefined, live, COLUMNS, 15)).toBe(live);
});

const DAY_MS = 86_400_000;

test("each point is compared with the step a day before that contains it, and unknown stays unknown", () => {
  const yesterday = { ...recorded, step_ms: 10_000 };
  const at = (ms: number) => ({ at: DAY_MS + ms, values: [1, 1] });
  const points = [at(-5_000), at(4_000), at(10_000), at(10_001), at(30_000)];
  expect(dayBefore(yesterday, points, "backlog")).toEqual([null, 5, 5, null, null]);
  expect(dayBefore(yesterday, points, "no such column")).toEqual(points.map(() => null));
  expect(dayBefore(undefined, points, "backlog")).toEqual(points.map(() => null));
});
