import { expect, test } from "vitest";
import { dateTime, time } from "../../lib/format";
import { groupsOf, type Mark, markText } from "./mark-groups";

const change = (seconds: number, more: Partial<Mark> = {}): Mark => ({
  ...{ at: seconds * 1000, operation: "setTopicPolicy", method: "POST", actor: "ada", id: "7" },
  isOfNamespace: false,
  ...more,
});

test("a text has time and operation, and the person where the user may see it", () => {
  const at = dateTime(5000);
  expect(markText(change(5))).toBe(`${at} set topic policy, by ada`);
  expect(markText(change(5, { actor: "", isOfNamespace: true }))).toBe(
    `${at} set topic policy, of the namespace`,
  );
  expect(markText(change(5, { operation: "PUT /admin/v2/x", actor: "" }))).toBe(`${at} PUT /admin/v2/x`);
  expect(markText(change(5, { operation: "", actor: "" }))).toBe(`${at} POST`);
});

test("changes of one step share a group, and those outside the chart have none", () => {
  const groups = groupsOf([change(1300), change(1000), change(1015), change(899), change(1801)], 900, 1800);
  expect(groups.map(({ start, marks }) => [start, marks.map(({ at }) => at)])).toEqual([
    [960, [1_000_000, 1_015_000]],
    [1200, [1_300_000]],
  ]);
  const [first] = groups;
  expect(first?.left).toBeCloseTo(60 / 900);
  expect(first?.width).toBeCloseTo(120 / 900);
  expect(first?.marks[0]?.share).toBeCloseTo(40 / 120);
});

test("a group that begins before the chart, or ends behind it, is cut", () => {
  const [first, last] = groupsOf([change(905), change(1795)], 900, 1798);
  expect(first).toMatchObject({ start: 840, left: 0 });
  expect(first?.width).toBeCloseTo(60 / 898);
  expect((last?.left ?? 0) + (last?.width ?? 0)).toBeCloseTo(1);
  expect(groupsOf([change(5)], 5, 5)).toEqual([]);
});

test("a group stays the same while the chart moves on", () => {
  const starts = [0, 1, 2].map((passed) => groupsOf([change(1300)], 900 + passed, 1800 + passed)[0]?.start);
  expect(starts).toEqual([1200, 1200, 1200]);
});

test("a change of the last day is named with its time alone", () => {
  const at = Date.now() - 60_000;
  expect(markText(change(at / 1000)).startsWith(`${time(at)} `)).toBe(true);
});
