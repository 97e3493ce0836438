// @vitest-environment jsdom
import { expect, test } from "vitest";
import type { Message } from "../../shared/messages/message";
import { NOTHING, ROWS_MAX, received, tailUrl } from "./tail";

const id = { cluster: "here", domain: "persistent" as const, tenant: "a", namespace: "b/c", topic: "100% d" };
const rows = (...ids: string[]) => ids.map((one) => ({ id: one })) as Message[];

test("a tail is addressed by its topic and its conditions", () => {
  const url = new URL(tailUrl(id, { key: "k&1", rate: "5", text: undefined }));
  expect(url.protocol).toBe("ws:");
  expect(Object.fromEntries(url.searchParams)).toEqual({
    cluster: "here",
    topic: "persistent://a/b/c/100% d",
    key: "k&1",
    rate: "5",
  });
});

test("the newest rows come first, and the oldest leave the list", () => {
  const counts = { at: 1, received: 3, shown: 3, filtered: 0, passed_over: 0, paused: false };
  const message = (...ids: string[]) => JSON.stringify({ op: "rows", ...counts, rows: rows(...ids) });
  const open = received(NOTHING, JSON.stringify({ op: "open", since: 5, partitions: 2 }));
  expect([open.since, open.partitions]).toEqual([5, 2]);
  const two = received(received(open, message("1", "2")), message("3"));
  expect(two.rows.map((row) => row.id)).toEqual(["3", "2", "1"]);
  expect(two.counts?.received).toBe(3);
  const many = received(two, message(...Array.from({ length: ROWS_MAX }, (_, i) => `n${i}`)));
  expect([many.rows.length, many.rows[0]?.id]).toEqual([ROWS_MAX, `n${ROWS_MAX - 1}`]);
});
