// @vitest-environment jsdom
import { expect, test } from "vitest";
import type { TopicRow } from "../../api/types";
import { look, NOT_LOOKED } from "./first-message";

const row = (storage_bytes: number | null, msg_rate_in: number | null = 0) =>
  ({ storage_bytes, msg_rate_in }) as TopicRow;

test("the check is passed when a new topic receives a message", () => {
  const first = look(NOT_LOOKED, undefined, 1);
  expect(first.seenAt).toBeNull();
  const made = look(first, row(0), 2);
  expect(made.seenAt).toBeNull();
  const seen = look(made, row(57), 3);
  expect(seen.seenAt).toBe(3);
  expect(look(seen, row(90), 4).seenAt).toBe(3);
});

test("messages stored before do not count, arriving ones do", () => {
  const first = look(NOT_LOOKED, row(500), 1);
  expect(look(first, row(500), 2).seenAt).toBeNull();
  expect(look(first, row(501), 2).seenAt).toBe(2);
  expect(look(NOT_LOOKED, row(500, 3), 1).seenAt).toBe(1);
});

test("no arrival is reported while the stored bytes are not known", () => {
  const first = look(NOT_LOOKED, row(null, null), 1);
  const known = look(first, row(500), 2);
  expect(known.seenAt).toBeNull();
  expect(look(known, row(null, null), 3).seenAt).toBeNull();
  expect(look(known, row(600), 4).seenAt).toBe(4);
});
