import { expect, test } from "vitest";
import type { Setting, SettingPreview, SettingReceipt } from "./setting-queries";
import { changeOf, doneOf, remarksOf, sourceOf, valuesText, waitsFor } from "./setting-words";

const both = (value: string) => [{ value, brokers: ["a", "b"] }];
const row: Setting = {
  ...{ name: "maxTopicsPerNamespace", meaning: "", allowed: "a whole number", choices: [], default: "0" },
  ...{ stored: null, values: both("0"), started: both("0"), behind: [] },
};
const preview: SettingPreview = { token: "t", at: 0, row, would_be: both("5"), brokers: 2, silent: [] };
const late = [{ broker: "b", reason: "It has not received the change yet" }];

test("where brokers differ, each value names its brokers", () => {
  expect(valuesText(both("5"))).toBe("5");
  expect(valuesText([])).toBe("");
  const differing = [
    { value: "0", brokers: ["a", "b", "c", "d", "e"] },
    { value: "", brokers: ["f"] },
  ];
  expect(valuesText(differing)).toBe("0 on a, b, c and 2 more, empty on f");
});

test("the source of a value is named", () => {
  expect(sourceOf(row)).toBe("default");
  expect(sourceOf({ ...row, started: both("7") })).toBe("configured at broker start");
  expect(sourceOf({ ...row, stored: "0" })).toBe("stored for all brokers");
});

test("a change names both values, or that nothing changes", () => {
  expect(changeOf("5", preview)).toBe("From 0 to 5, stored for all brokers.");
  expect(changeOf("0", { ...preview, would_be: both("0") })).toBe(
    "The value stays 0, but is now stored for all brokers.",
  );
  const set = { ...preview, row: { ...row, stored: "5", values: both("5") } };
  expect(changeOf(null, { ...set, would_be: both("0") })).toBe(
    "From 5 to 0, as configured at the start of each broker, no longer as stored.",
  );
  expect(changeOf("5", { ...set, token: null })).toBe("Nothing changes: 5 is stored already.");
  expect(changeOf(null, { ...preview, token: null })).toBe("Nothing is stored.");
});

test("only brokers that answer are counted as following", () => {
  expect(remarksOf(preview)[0]).toBe("All 2 brokers apply it immediately, without a restart.");
  const partly = remarksOf({ ...preview, brokers: 1, silent: [{ broker: "b", reason: "No answer" }] });
  expect(partly[0]).toBe("1 broker answers and applies it immediately, without a restart.");
  expect(partly[1]).toBe("It is not known whether b will apply it: No answer");
  expect(remarksOf({ ...preview, token: null })).toEqual([]);
});

test("a receipt names brokers that do not follow, and omits those that do not answer", () => {
  const done: SettingReceipt = { at: 0, row: { ...row, stored: "5", values: both("5") }, silent: [] };
  expect(doneOf(row.name, "5", done)).toEqual([
    "maxTopicsPerNamespace is stored as 5.",
    "All 2 brokers have applied it: 5 is in force.",
  ]);
  const behind = { ...row, stored: "5", behind: late };
  expect(waitsFor(row)).toBeNull();
  expect(waitsFor(behind)).toBe("1 broker does not use the stored value: 5");
  expect(waitsFor({ ...behind, stored: null })).toBe("1 broker still uses the removed value");
  expect(doneOf(row.name, "5", { ...done, row: behind }).slice(1)).toEqual([
    "a has applied it.",
    "b has not applied it yet: It has not received the change yet",
  ]);
  const silent = [{ broker: "c", reason: "No answer" }];
  expect(doneOf(row.name, null, { ...done, silent }).join(" ")).toContain(
    "It is not known whether c has applied it: No answer",
  );
  expect(doneOf(row.name, "5", { ...done, row: null })[1]).toContain("not known");
});
