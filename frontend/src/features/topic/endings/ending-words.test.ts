import { expect, test } from "vitest";
import type { DeletionPreview, DisconnectPreview } from "./ending-queries";
import {
  deletedOf,
  deleteLabel,
  deletionRemarks,
  disconnectedOf,
  disconnectRemarks,
  isHeld,
  losesData,
  lossOf,
} from "./ending-words";

const consumer = { name: "c", address: "c:1", partition: null, connected: 1, unacked: 3 };
const preview = (more: Partial<DeletionPreview> = {}): DeletionPreview => ({
  ...{ token: "t", at: 1, force: false, partitions: 0, durable: true, type: "Shared" },
  ...{ entries: 1200, messages: 12_000, exact: true, consumers: [], unread: [] },
  ...more,
});

test("the button names the loss, and unknown is never none", () => {
  expect(deleteLabel(preview())).toBe("Delete with 12,000 unacknowledged messages");
  expect(deleteLabel(preview({ exact: false }))).toBe("Delete with about 12,000 unacknowledged messages");
  expect(lossOf(preview({ messages: null }))).toBe("1,200 unacknowledged entries of messages");
  expect(deleteLabel(preview({ entries: 0, messages: 0 }))).toBe("Delete subscription");
  const unread = preview({
    ...{ entries: null, messages: null },
    unread: [{ partition: 2, reason: "a bookie is away" }],
  });
  expect([losesData(unread), deleteLabel(unread)]).toEqual([
    true,
    "Delete with messages that cannot be counted",
  ]);
  expect(deletionRemarks(unread).join(" ")).toContain("Not known on partition 2");
});

test("connected consumers block the deletion until their disconnection is chosen", () => {
  const held = preview({ consumers: [consumer] });
  expect(isHeld(held)).toBe(true);
  expect(deletionRemarks(held)[0]).toMatch(/^1 consumer is connected: stop it first/);
  const forced = preview({ consumers: [consumer, consumer], force: true });
  expect(isHeld(forced)).toBe(false);
  expect(deletionRemarks(forced)[0]).toMatch(/^It cannot be undone/);
});

test("a receipt counts messages that arrived after the preview", () => {
  const part = { partition: null, done: true };
  const receipt = { at: 1, done: true, entries: 13, later: 4, parts: [part] };
  expect(deletedOf(receipt)).toBe(
    "The subscription was deleted with 13 unacknowledged entries, 4 of them published since the preview.",
  );
  expect(deletedOf({ ...receipt, entries: 0, later: 0, parts: [part, part] })).toBe(
    "The subscription was deleted on 2 partitions; it had acknowledged all.",
  );
  expect(deletedOf({ ...receipt, entries: null, later: null })).toContain("is not known");
});

test("a disconnected consumer may reconnect, and its messages are sent to the others", () => {
  const alone: DisconnectPreview = {
    ...{ token: "t", at: 1, type: "Exclusive", durable: true, others: 0 },
    consumers: [{ ...consumer, unacked: 0 }],
  };
  expect(disconnectRemarks(alone)).toEqual([
    "Its client may reconnect at once, as after an unload: to prevent that, stop its process.",
    "Messages that it has not acknowledged are delivered again, to it, or to the next consumer.",
  ]);
  const among = disconnectRemarks({
    ...alone,
    ...{ type: "Shared", durable: false, others: 2, consumers: [consumer] },
  });
  expect(among[1]).toBe(
    "3 messages that it has not acknowledged are delivered again, to other consumers, or to it again.",
  );
  expect(among[2]).toContain("not durable");
  expect(disconnectedOf({ at: 1, disconnected: 1 })).toContain("may have reconnected");
});
