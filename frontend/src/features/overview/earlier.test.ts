import { expect, test } from "vitest";
import { withEarlier } from "./earlier";

const recorded = {
  at: 3000,
  step_ms: 1000,
  columns: ["at", "msg_rate_out", "msg_rate_in"],
  points: [
    [1000, 5, 50],
    [2000, 6, 60],
    [3000, 7, 70],
  ],
};

test("recorded points come before the live ones, once, by the names of their columns", () => {
  const live = [{ at: 3000, values: [71, 7, 9] }];
  expect(withEarlier(live, recorded, ["msg_rate_in", "msg_rate_out", "backlog"])).toEqual([
    { at: 1000, values: [50, 5, null] },
    { at: 2000, values: [60, 6, null] },
    { at: 3000, values: [71, 7, 9] },
  ]);
});

test("without a recording the live points stand alone", () => {
  const live = [{ at: 1, values: [1] }];
  expect(withEarlier(live, undefined, ["backlog"])).toBe(live);
});
