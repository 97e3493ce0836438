// @vitest-environment jsdom
import { expect, test } from "vitest";
import { estimateText } from "./estimate";

const known = { topics: 3, entries: 1200, messages: 4000, bytes: 2048, exact: true, seconds: 12 };

test("an estimate states its amounts and its time, without what is not known", () => {
  expect(estimateText(known)).toBe("Reads 3 topics and partitions, about 4,000 messages, 2 KiB; about 12 s.");
  expect(estimateText({ ...known, topics: 1, messages: null, exact: false, seconds: null })).toBe(
    "Reads at least 1 topic or partition, messages not counted yet, 2 KiB; its time is not known yet.",
  );
});
