import { expect, test } from "vitest";
import type { CursorAmounts } from "../../api/types";
import { applyLabel, discardedOf, inEntries, outcome } from "./cursor-words";

const NOTHING: CursorAmounts = {
  affected: 0,
  lost: 0,
  again: 0,
  entries: 0,
  lost_entries: 0,
  again_entries: 0,
  exact: true,
};
const LOST = { ...NOTHING, affected: 9233, lost: 9233, entries: 100, lost_entries: 100 };
const AGAIN = { ...NOTHING, affected: 1, again: 1, entries: 1, again_entries: 1 };

test("the button names the loss, whatever the name of the change", () => {
  expect(applyLabel(LOST)).toBe("Discard 9,233 messages");
  expect(applyLabel(AGAIN)).toBe("Deliver 1 message again");
  expect(applyLabel({ ...LOST, again: 2, again_entries: 2 })).toBe(
    "Discard 9,233 messages, repeat 2 messages",
  );
  expect(applyLabel(NOTHING)).toBe("Nothing to change");
});

test("estimated and unknown numbers are marked", () => {
  expect(applyLabel({ ...LOST, exact: false })).toBe("Discard about 9,233 messages");
  expect(applyLabel({ ...LOST, affected: null, lost: null })).toBe("Discard 100 entries of messages");
  expect(inEntries(LOST)).toBe("in 100 entries");
  expect(inEntries(AGAIN)).toBeNull();
});

test("discarded messages are called unacknowledged", () => {
  expect(discardedOf(LOST)).toBe("9,233 unacknowledged messages");
  expect(discardedOf({ ...LOST, exact: false, lost: 1 })).toBe("about 1 unacknowledged message");
  expect(discardedOf({ ...LOST, lost: null })).toBe("100 unacknowledged entries of messages");
});

test("a part of a batch counts as a loss", () => {
  expect(applyLabel({ ...NOTHING, again: 2, affected: 2 })).toBe("Deliver 2 messages again");
});

test("a receipt states the result", () => {
  expect(outcome(LOST)).toBe("9,233 messages discarded");
  expect(outcome(AGAIN)).toBe("1 message to be delivered again");
  expect(outcome(NOTHING)).toBe("nothing changed");
});
