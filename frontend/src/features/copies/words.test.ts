import { expect, test } from "vitest";
import type { Copy, Group } from "./queries";
import { amountsOf, joined, refOf, scannedText, shareOf, titleOf } from "./words";

const counts = {
  entries: 50,
  scanned: 60,
  matched: 20,
  copied: 18,
  repeated: 2,
  acknowledged: 20,
  consumed: 0,
  unclear: 0,
  not_copied: 0,
};
const copy = {
  mode: "move",
  topic: "persistent://a/b/from",
  target: "persistent://a/b/to",
  targets: ["persistent://a/b/to"],
  undoes: null,
  entries: 100,
  state: "running",
  counts,
} as unknown as Copy;
const group = (reason: string, messages: number): Group =>
  ({
    origin: "o",
    subscription: "s",
    reason,
    shape: "text",
    messages,
    bytes: 1,
    first_published: 1,
    last_published: messages,
  }) as Group;

test("names are taken apart, also those of legacy namespaces", () => {
  expect(refOf("persistent://a/b/c")).toEqual({
    domain: "persistent",
    tenant: "a",
    namespace: "b",
    topic: "c",
  });
  expect(refOf("persistent://a/x/b/c")?.namespace).toBe("x/b");
  expect(refOf("c")).toBeNull();
});

test("a copy has a title and its amounts", () => {
  expect(titleOf(copy)).toBe("Move a/b/from to a/b/to");
  expect(titleOf({ ...copy, mode: "copy", target: null })).toBe("Redrive a/b/from to its origins");
  expect(amountsOf(copy)).toBe(
    "60 messages looked at (50 % of the range) · 18 stored · 2 sent again and dropped by the broker · 20 acknowledged",
  );
  expect(shareOf(copy)).toBe(0.5);
  expect(shareOf({ ...copy, state: "succeeded" })).toBe(1);
  expect(shareOf({ ...copy, entries: 0 })).toBe(0);
});

test("an undo that was interrupted says what it does not know", () => {
  const undo: Copy = { ...copy, mode: "undo", counts: { ...counts, consumed: 1, unclear: 3 } };
  expect(amountsOf(undo)).toContain(
    "20 skipped · 1 were consumed before · 3 skipped or consumed while the undo was interrupted",
  );
});

test("a scan of a part states its share", () => {
  expect(scannedText({ scanned: 10, scanned_entries: 10, entries: 40 })).toContain("25 %");
  expect(scannedText({ scanned: 10, scanned_entries: 40, entries: 40 })).toBe(
    "All 10 messages were looked at.",
  );
});

test("groups of several parts are one, the largest first", () => {
  const all = joined([[group("a", 3), group("b", 4)], [group("a", 5)]]);
  expect(all.map(({ reason, messages }) => [reason, messages])).toEqual([
    ["a", 8],
    ["b", 4],
  ]);
  expect(all[0]?.last_published).toBe(5);
});
