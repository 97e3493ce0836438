import { expect, test } from "vitest";
import { applyLabel, losers, lossOf, type TopicPreview, usersOf } from "./change-words";

const subscription = {
  name: "archiver",
  durable: true,
  entries: 12_000,
  messages: 12_000,
  exact: true,
  consumers: [],
};
const preview: TopicPreview = {
  token: "t",
  at: 0,
  partitions: 0,
  partitions_after: null,
  bytes: 10,
  entries: 12_000,
  terminated: false,
  producers: [{ name: "p", address: "a" }],
  subscriptions: [subscription],
  unread: [],
  remakes: true,
};

test("a deletion names the unread messages that it removes, also on its button", () => {
  expect(lossOf(preview)).toBe("12,000 messages that archiver has not read");
  expect(applyLabel("delete", preview)).toBe("Delete with 12,000 messages unread");
  const more = { ...preview, subscriptions: [{ ...subscription, name: "b", entries: 1 }, subscription] };
  expect(losers(more).map(({ name }) => name)).toEqual(["archiver", "b"]);
  expect(applyLabel("delete", more)).toBe("Delete with unread messages of 2 subscriptions");
  const none = { ...preview, subscriptions: [{ ...subscription, entries: 0, messages: 0 }] };
  expect(lossOf(none)).toBeNull();
  expect(applyLabel("delete", none)).toBe("Delete topic");
});

test("a number that storage does not know is not shown as none", () => {
  const unknown = { ...preview, subscriptions: [{ ...subscription, messages: null, exact: false }] };
  expect(lossOf(unknown)).toBe("12,000 entries of messages that archiver has not read");
});

test("disconnected clients are counted, and none is reported as none", () => {
  expect(usersOf(preview)).toBe("1 producer");
  const consumer = { name: "c", address: "b" };
  const read = { ...preview, subscriptions: [{ ...subscription, consumers: [consumer, consumer] }] };
  expect(usersOf(read)).toBe("1 producer and 2 consumers");
  expect(usersOf({ ...preview, producers: [] })).toBeNull();
});
