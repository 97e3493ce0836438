import { expect, test } from "vitest";
import { jsonTree } from "./json-tree";

test("numbers keep all of their digits", () => {
  expect(jsonTree('{"id": 9223372036854775807, "a": [1.10, -0e2]}')).toEqual({
    kind: "object",
    members: [
      ["id", { kind: "number", source: "9223372036854775807" }],
      [
        "a",
        {
          kind: "array",
          items: [
            { kind: "number", source: "1.10" },
            { kind: "number", source: "-0e2" },
          ],
        },
      ],
    ],
  });
});

test("texts with braces, quotes and escapes are one token", () => {
  expect(jsonTree('["a \\"{b}\\" \\u00e9", true, null]')).toEqual({
    kind: "array",
    items: [
      { kind: "text", source: '"a \\"{b}\\" \\u00e9"' },
      { kind: "word", source: "true" },
      { kind: "word", source: "null" },
    ],
  });
});

test("a name is its text", () => {
  expect(jsonTree('{"a\\nb": {}}')).toEqual({
    kind: "object",
    members: [["a\nb", { kind: "object", members: [] }]],
  });
});

test.each([
  "",
  "{",
  '{"a"}',
  '{"a": 1',
  "[1 2]",
  "word",
  '{"a": 1} 2',
  `${"[".repeat(200)}${"]".repeat(200)}`,
])("%s is no tree", (text) => {
  expect(jsonTree(text)).toBeNull();
});
