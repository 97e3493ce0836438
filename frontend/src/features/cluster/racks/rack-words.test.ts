import { expect, test } from "vitest";
import type { RackPreview } from "./rack-queries";
import { changeOf, doneOf, remarksOf } from "./rack-words";

const setting = { group: "default", rack: "/r1", hostname: "" };
const preview: RackPreview = {
  ...{ token: "t", at: 0, before: null, after: setting, bookies: 3, without_rack: 2, racks: 1 },
};

test("a change states the old and the new setting", () => {
  expect(changeOf(preview)).toBe("From no rack to rack /r1 in group default.");
  expect(changeOf({ ...preview, before: setting, after: null })).toBe(
    "From rack /r1 in group default to no rack.",
  );
  expect(changeOf({ ...preview, before: setting, token: null })).toContain("Nothing changes");
  expect(doneOf("b", { at: 0, before: setting, after: null })).toContain("No rack is set for b any more");
});

test("bookies without a rack are counted, with the consequence", () => {
  expect(remarksOf(preview)).toEqual([
    expect.stringContaining("It applies to new ledgers"),
    "2 of 3 bookies have no rack after the change: placement treats them as one rack, and cannot spread copies among them by rack.",
  ]);
  expect(remarksOf({ ...preview, without_rack: 1, racks: 2 })[1]).toContain("1 of 3 bookies has no rack");
  expect(remarksOf({ ...preview, without_rack: 0, racks: 3 }).slice(1)).toEqual([
    "All 3 bookies have a rack after the change.",
    "Copies are spread over 3 racks, if there are enough bookies.",
  ]);
});

test("one rack for all spreads nothing", () => {
  expect(remarksOf({ ...preview, without_rack: 0, racks: 1 })[2]).toContain("cannot be spread");
  expect(remarksOf({ ...preview, after: null, without_rack: 3, racks: 0 })[2]).toContain("cannot be spread");
});
