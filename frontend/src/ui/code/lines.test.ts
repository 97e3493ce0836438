import { expect, test } from "vitest";
import { folded, linesOf } from "./lines";

const marked = (before: string, after: string) =>
  linesOf(before, after).map(({ kind, text }) => `${{ same: " ", added: "+", removed: "-" }[kind]}${text}`);

test("only differences are marked", () => {
  expect(marked("a\nb\nc\nd", "a\nx\nc\nd\ne")).toEqual([" a", "-b", "+x", " c", " d", "+e"]);
  expect(marked("a", "a")).toEqual([" a"]);
  expect(marked("", "a")).toEqual(["-", "+a"]);
});

test("both texts can be restored from the lines", () => {
  let seed = 7;
  const random = (below: number) => {
    seed = (seed * 48271) % 2147483647;
    return seed % below;
  };
  for (let round = 0; round < 200; round += 1) {
    const text = () => Array.from({ length: random(12) }, () => "abc"[random(3)]).join("\n");
    const [before, after] = [text(), text()];
    const lines = linesOf(before, after);
    const without = (kind: string) =>
      lines
        .filter((line) => line.kind !== kind)
        .map(({ text }) => text)
        .join("\n");
    expect(without("added")).toBe(before);
    expect(without("removed")).toBe(after);
  }
});

test("a long text without common lines is one block, computed at once", () => {
  const many = (word: string) => Array.from({ length: 5_000 }, (_, index) => `${word} ${index}`).join("\n");
  const lines = linesOf(many("old"), many("new"));
  expect(lines).toHaveLength(10_000);
  expect(lines[5_000]?.kind).toBe("added");
});

test("equal lines far from any difference are folded", () => {
  const text = (last: string) =>
    [...Array.from({ length: 20 }, (_, index) => String(index)), last].join("\n");
  const parts = folded(linesOf(text("a"), text("b")));
  expect(parts[0]).toEqual({ kind: "gap", lines: 17 });
  expect(parts).toHaveLength(6);
});
