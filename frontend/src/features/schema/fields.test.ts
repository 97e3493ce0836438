import { expect, test } from "vitest";
import { byLines, changesOf, fieldsOf } from "./fields";

const record = (fields: unknown[], name = "Order") => JSON.stringify({ type: "record", name, fields });
const id = { name: "id", type: "long" };

test("nested fields have a path, and all types a text", () => {
  const item = {
    type: "record",
    name: "Item",
    fields: [{ name: "price", type: ["null", "double"], default: null }],
  };
  const fields = fieldsOf(
    "AVRO",
    record([
      id,
      { name: "items", type: { type: "array", items: item } },
      { name: "next", type: ["null", "Order"], default: null },
      { name: "tags", type: { type: "map", values: "string" } },
      { name: "at", type: { type: "long", logicalType: "timestamp-millis" } },
      { name: "state", type: { type: "enum", name: "State", symbols: ["NEW", "DONE"] }, default: "NEW" },
    ]),
  );
  expect(fields).toEqual([
    { path: "id", type: "long", default: null },
    { path: "items", type: "array of record Item", default: null },
    { path: "items[].price", type: "null | double", default: "null" },
    { path: "next", type: "null | Order", default: "null" },
    { path: "tags", type: "map of string", default: null },
    { path: "at", type: "long (timestamp-millis)", default: null },
    { path: "state", type: "enum State: NEW, DONE", default: '"NEW"' },
  ]);
});

test("added, removed and changed fields are reported by name", () => {
  const before = fieldsOf(
    "JSON",
    record([id, { name: "note", type: "string", default: "" }, { name: "old", type: "int" }]),
  );
  const after = fieldsOf(
    "JSON",
    record([
      { name: "id", type: "string" },
      { name: "note", type: "string" },
      { name: "more", type: "int" },
    ]),
  );
  const changes = changesOf(before ?? [], after ?? []);
  expect(changes.map(({ kind, path }) => `${kind} ${path}`)).toEqual([
    "changed id",
    "changed note",
    "added more",
    "removed old",
  ]);
  expect(changes[1]).toMatchObject({ before: { default: '""' }, after: { default: null } });
});

test("numbers keep every digit", () => {
  const [field] =
    fieldsOf(
      "AVRO",
      '{"type":"record","name":"R","fields":[{"name":"a 12345678901234567890","type":"long","default":9223372036854775807}]}',
    ) ?? [];
  expect(field).toEqual({ path: "a 12345678901234567890", type: "long", default: "9223372036854775807" });
});

test("both parts of a key-value have fields, and a primitive type is one field", () => {
  const both = JSON.stringify({ key: { type: "record", name: "K", fields: [id] }, value: "" });
  expect(fieldsOf("KEY_VALUE", both)).toEqual([{ path: "key.id", type: "long", default: null }]);
  expect(fieldsOf("AVRO", '"string"')).toEqual([{ path: "", type: "string", default: null }]);
});

test("a definition without fields is reported as such", () => {
  expect(fieldsOf("STRING", "")).toBeNull();
  expect(fieldsOf("AVRO", "{")).toBeNull();
  expect(fieldsOf("PROTOBUF_NATIVE", "{}")).toBeNull();
});

test("endless nesting of types is cut", () => {
  let type: unknown = "int";
  for (let depth = 0; depth < 500; depth += 1) type = { type: "array", items: type };
  expect(fieldsOf("AVRO", JSON.stringify(type))).toHaveLength(1);
});

test("formatting a definition does not change it", () => {
  expect(byLines('{"a":[9223372036854775807,1.50],"b":"9223372036854775807"}')).toBe(
    '{\n  "a": [\n    9223372036854775807,\n    1.5\n  ],\n  "b": "9223372036854775807"\n}',
  );
  expect(byLines("message M {}")).toBe("message M {}");
});
