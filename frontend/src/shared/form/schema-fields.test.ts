import { describe, expect, test } from "vitest";
import type { JsonSchema } from "../../api/types";
import { fieldsOf, initialValues, toParameters, validate } from "./schema-fields";

const schema: JsonSchema = {
  type: "object",
  required: ["topic", "mode"],
  properties: {
    topic: { type: "string", title: "Topic", pattern: "^persistent://" },
    mode: { enum: ["all", "tenth", 3] },
    top_keys: { type: "integer", minimum: 1, maximum: 100, default: 10 },
    ratio: { type: "number", exclusiveMinimum: 0, maximum: 1 },
    start: { anyOf: [{ type: "integer", format: "epoch-ms" }, { type: "null" }], default: null },
    until: { type: ["string", "null"], format: "date-time" },
    exact: { type: "boolean", default: true },
    keys: { type: "array", items: { type: "string" }, maxItems: 2 },
    extra: { type: "object" },
  },
};
const fields = fieldsOf(schema);
const good = { ...initialValues(fields), topic: "persistent://a/b/c" };

test("every property becomes a field of the kind in its schema", () => {
  expect(Object.fromEntries(fields.map((field) => [field.name, field.kind]))).toEqual({
    topic: "text",
    mode: "choice",
    top_keys: "integer",
    ratio: "number",
    start: "time",
    until: "time",
    exact: "boolean",
    keys: "list",
    extra: "json",
  });
  expect(fields.find((field) => field.name === "top_keys")?.label).toBe("Top keys");
});

test("the form starts from the defaults, or from the parameters of the run to repeat", () => {
  expect(initialValues(fields)).toMatchObject({
    topic: "",
    mode: "all",
    top_keys: "10",
    start: "",
    exact: true,
  });
  expect(initialValues(fields, { top_keys: 50, exact: false, keys: ["a", "b"] })).toMatchObject({
    top_keys: "50",
    exact: false,
    keys: "a\nb",
  });
});

test("the parameters of a run are shown and sent again unchanged", () => {
  const sent = {
    topic: "persistent://public/default/hello",
    mode: 3,
    top_keys: 25,
    ratio: 0.5,
    start: 1_790_000_000_000,
    until: "2026-09-21T10:00:00.000Z",
    exact: false,
    keys: ["x", "y"],
    extra: { deep: [1, null] },
  };
  expect(toParameters(fields, initialValues(fields, sent))).toEqual(sent);
});

test("fields left empty are left to the server's defaults", () => {
  const parameters = toParameters(fields, { ...good, top_keys: " ", mode: "tenth" });
  expect(parameters).toEqual({ topic: "persistent://a/b/c", mode: "tenth", exact: true });
});

describe("errors are shown at their field", () => {
  test("a good form has no problems", () => expect(validate(fields, good)).toEqual({}));

  test.each([
    ["topic", "", "Required"],
    ["topic", "hello", "Must match ^persistent://"],
    ["mode", "none", "Choose one of the list"],
    ["top_keys", "0", "Must be at least 1"],
    ["top_keys", "101", "Must be at most 100"],
    ["top_keys", "1.5", "Must be a whole number"],
    ["top_keys", "ten", "Must be a number"],
    ["ratio", "0", "Must be more than 0"],
    ["start", "yesterday", "Give a full date and time"],
    ["keys", "a\nb\nc", "Give at most 2 lines"],
    ["extra", "{", "This is not valid JSON"],
  ])("%s = %j", (name, value, problem) => {
    expect(validate(fields, { ...good, [name]: value })).toEqual({ [name]: problem });
  });
});
