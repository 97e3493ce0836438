import { expect, test } from "vitest";
import { endingsOf, flowRemarksOf } from "./flow-words";

const NOTHING = { at: 1, topics: 2, starts: [], ends: [], leaves: false };

test("a cluster that is added receives what is published from then on, as far as that is known", () => {
  const start = { cluster: "eu", msg_rate_in: 5, bytes_rate_in: null, storage_bytes: 2048 };
  expect(flowRemarksOf({ ...NOTHING, starts: [start] })).toEqual([
    "eu receives what is published from now on: 5 messages/s, — at present.",
    "Stored messages are not sent: 2 KiB stay here alone.",
  ]);
  expect(endingsOf({ ...NOTHING, starts: [start] })).toEqual([]);
});

test("a cluster that is removed keeps what it has, and what is not sent is a loss", () => {
  const end = { cluster: "eu", unsent: 7, sending: false, unknown: 1 };
  expect(endingsOf({ ...NOTHING, ends: [end] })).toEqual(["7 entries of messages do not reach eu any more"]);
  expect(endingsOf({ ...NOTHING, ends: [{ ...end, unsent: 0 }] })).toEqual([]);
  expect(flowRemarksOf({ ...NOTHING, ends: [end] })).toEqual([
    "eu keeps what it has received. If it is added again, sending starts with new messages.",
    "Not known for 1 topic: not loaded, or not sent there yet.",
  ]);
});

test("a cluster that leaves is described by the losses of its clients", () => {
  expect(endingsOf({ ...NOTHING, leaves: true })).toEqual([
    "This cluster stops serving 2 topics: their clients are refused, or redirected to another cluster",
  ]);
  expect(flowRemarksOf({ ...NOTHING, leaves: true })).toHaveLength(1);
});
