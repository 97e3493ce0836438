import { expect, test } from "vitest";
import type { ListedRow } from "../../api/types";
import { rowState, severalTimes, trendText } from "./row-state";

const row = (change: Partial<ListedRow>) =>
  ({ known: "live", attention: null, msg_rate_in: 0, msg_rate_out: 0, backlog: 0, ...change }) as ListedRow;
const problem = { severity: "error", cause: "no-permits" } as const;

test("an unknown state precedes all others", () => {
  expect(rowState(row({ known: "last", attention: problem })).label).toBe("Last known");
  expect(rowState(row({ known: "no", backlog: null })).label).toBe("Not known");
});

test("a problem precedes movement", () => {
  expect(rowState(row({ attention: problem, msg_rate_in: 9 }))).toMatchObject({
    tone: "bad",
    label: "No permits",
  });
  expect(
    rowState(row({ known: "at_rest", attention: { severity: "warning", cause: "no-consumer" } })).tone,
  ).toBe("warn");
});

test("messages in flight are no problem", () => {
  expect(rowState(row({ msg_rate_out: 3, backlog: 6 })).label).toBe("Active");
  expect(rowState(row({})).label).toBe("Idle");
  expect(rowState(row({ known: "at_rest" })).label).toBe("At rest");
});

test("a trend states the age of the first known backlog", () => {
  expect(trendText([5, 6, 7], 9)).toBe("backlog 5 entries 3 min ago, 9 now");
  expect(trendText([null, null, 7], 9)).toBe("backlog 7 entries 1 min ago, 9 now");
  expect(trendText([null], 9)).toBe("backlog 9 entries now");
  expect(trendText([5], null)).toBe("not known now");
});

test("client counts of a partitioned topic explain that each partition counts", () => {
  const partitioned = row({ partitions: 3, producers: 3, consumers: 0, backlog: 9 });
  expect(severalTimes("producers", partitioned)).toBe(
    "Total of its 3 partitions: a client counts on each that it uses",
  );
  expect(severalTimes("consumers", partitioned)).toBeNull();
  expect(severalTimes("backlog", partitioned)).toBeNull();
  expect(severalTimes("producers", row({ partitions: 0, producers: 3 }))).toBeNull();
});
