import { expect, test } from "vitest";
import { lossesOf, lostOf, receiptOf, remarksOf, saveLabel } from "./effect-words";
import type { PolicyEffects } from "./policy-queries";

const none: PolicyEffects = {
  ...{ topics: 2, counted: 2, at_rest: 0, bytes: 0, subscriptions: [], subscriptions_total: 0 },
  ...{ entries: 0, deleted: [], deleted_total: 0, producers: 0, not_counted: [], not_counted_total: 0 },
  within_s: 0,
};
const loser = { topic: "t", name: "s", deleted: false, entries: 4, messages: 7, exact: true };
const one: PolicyEffects = { ...none, subscriptions: [loser], subscriptions_total: 1, entries: 4 };

test("messages are named where all are known, else entries", () => {
  expect(lostOf(none)).toBeNull();
  expect(lostOf(one)).toBe("7 messages");
  expect(lostOf({ ...one, subscriptions: [{ ...loser, exact: false }] })).toBe("about 7 messages");
  expect(lostOf({ ...one, subscriptions: [{ ...loser, messages: null }] })).toBe("4 entries of messages");
  expect(lostOf({ ...one, subscriptions_total: 200, entries: 900 })).toBe("900 entries of messages");
});

test("the preview begins with the losses and their time", () => {
  expect(lossesOf({ ...one, within_s: 300 })).toEqual([
    "7 messages that s has not read are lost within 5 min",
  ]);
  const gone = { ...one, subscriptions: [{ ...loser, deleted: true }] };
  expect(lossesOf(gone)).toEqual([
    "7 messages that s has not read are lost at once",
    "1 subscription deleted at once",
  ]);
  expect(lossesOf({ ...none, deleted: [{ name: "t", bytes: 5 }], deleted_total: 1 })).toEqual([
    "1 unused topic deleted at once, unless used before",
  ]);
  expect(saveLabel("Save", one)).toBe("Save and lose 7 messages");
  expect(saveLabel("Remove", none)).toBe("Remove");
  expect(saveLabel("Save", null)).toBe("Save");
});

test("storage, topics that are not loaded and uncounted data are reported", () => {
  expect(remarksOf(none)).toEqual(["No stored message is deleted now."]);
  expect(remarksOf({ ...none, bytes: 2048 })).toEqual(["2 KiB of storage can be freed."]);
  expect(receiptOf({ ...none, bytes: 2048 })).toBe("2 KiB of storage can be freed.");
  expect(receiptOf(none)).toBe("No stored messages were deleted.");
  const partly = {
    ...none,
    counted: 0,
    at_rest: 1,
    not_counted: [{ name: "t", reason: "No answer" }],
    not_counted_total: 3,
  };
  expect(remarksOf(partly)).toEqual([
    "Counted in 0 of the 2 topics that it applies to. What the others lose is not known.",
    "1 topic not loaded by any broker: it applies there once a client uses it.",
    "Not counted: t (No answer), 2 more.",
  ]);
});
