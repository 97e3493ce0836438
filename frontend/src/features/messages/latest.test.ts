import { expect, test } from "vitest";
import { goneKeys, latestRows, latestText } from "./latest";
import type { MessagesPage } from "./queries";

const NONE = {
  removed: [],
  deleted: 0,
  replaced: 0,
  without_key: 0,
  undecoded: 0,
  incomplete: 0,
  other_keys: 0,
};

function page(keys: string[], removed: string[] = [], more: object = {}): MessagesPage {
  return {
    rows: keys.map((key, index) => ({ partition: -1, key, id: `${key}${removed.length}:${index}` })),
    scanned: 10,
    bytes: 100,
    took_ms: 500,
    stopped: "limit",
    partitions: 0,
    missing: [],
    compacted: {
      ...NONE,
      keys: keys.length + removed.length,
      removed: removed.map((key) => ({ partition: -1, key })),
      horizons: [{ partition: -1, position: "7:3" }],
    },
    ...more,
  } as unknown as MessagesPage;
}

test("a later page replaces the keys that it has and removes those that are gone", () => {
  const pages = [page(["a", "b", "c"]), page(["b"], ["a"])];
  expect(latestRows(pages).map(({ key }) => key)).toEqual(["c", "b"]);
  expect(latestRows(pages).at(-1)?.id).toBe("b1:0");
  expect(goneKeys(pages)).toBe(1);
  expect(goneKeys([...pages, page(["a"])])).toBe(0);
});

test("a key of another partition is another one", () => {
  const other = page(["a"]);
  for (const row of other.rows) row.partition = 1;
  expect(latestRows([page(["a"]), other])).toHaveLength(2);
});

test("messages that lack a chunk are stated", () => {
  const compacted = { ...NONE, keys: 0, horizons: [], undecoded: 3, incomplete: 1 };
  const text = latestText([page([], [], { compacted })]);
  expect(text).toContain("3 stored parts not shown: of messages in chunks, or not readable.");
  expect(text).toContain("1 message in chunks of which some are missing not shown.");
});

test("the progress says what was looked at and that more may replace the rows", () => {
  const text = latestText([page(["a", "b"], ["c"])]);
  expect(text).toContain("2 keys shown, 1 deleted or not matching, of 10 messages looked at");
  expect(text).toContain("compacted up to 7:3");
  expect(text).toContain("Later messages may replace or delete these");
  expect(latestText([page(["a"], [], { stopped: "end" })])).toContain("These are the latest values.");
  expect(latestText([page(["a"], [], { stopped: "end", missing: [1] })])).toContain("that answered");
});
