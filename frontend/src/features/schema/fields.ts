import type { SchemaKind } from "../../api/types";

// Definitions of Avro, which those of JSON are, too: which fields there are, and how two of them differ.

export interface Field {
  /** "order.items[].price"; of a definition that is no record, empty. */
  path: string;
  type: string;
  /** The default as JSON; null: none, so that a writer must provide the field. */
  default: string | null;
}

export type Change =
  | { kind: "added"; path: string; before: null; after: Field }
  | { kind: "removed"; path: string; before: Field; after: null }
  | { kind: "changed"; path: string; before: Field; after: Field };

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

const IN_AVRO: readonly SchemaKind[] = ["AVRO", "JSON", "PROTOBUF"];
const DEPTH_MAX = 50;
const NUMBER = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;
const EXACT_DIGITS = 15;
const EXACT = "\u0000number ";

/** The fields in their order; null for a kind without fields, or a definition that is not JSON. */
export function fieldsOf(kind: SchemaKind, definition: string): Field[] | null {
  const document = parse(definition);
  if (document === undefined) return null;
  if (kind === "KEY_VALUE" && isObject(document))
    return ["key", "value"].flatMap((part) =>
      isObject(document[part] ?? null) ? walked(document[part] ?? null, part) : [],
    );
  return IN_AVRO.includes(kind) ? walked(document, "") : null;
}

/** The differences, in the order of the later definition, removed fields last. */
export function changesOf(before: readonly Field[], after: readonly Field[]): Change[] {
  const old = new Map(before.map((field) => [field.path, field]));
  const kept = new Set(after.map(({ path }) => path));
  const changes = after.flatMap((field): Change[] => {
    const was = old.get(field.path);
    if (!was) return [{ kind: "added", path: field.path, before: null, after: field }];
    const same = was.type === field.type && was.default === field.default;
    return same ? [] : [{ kind: "changed", path: field.path, before: was, after: field }];
  });
  const removed = before.filter(({ path }) => !kept.has(path));
  return [
    ...changes,
    ...removed.map((field): Change => ({ kind: "removed", path: field.path, before: field, after: null })),
  ];
}

/** Numbers that a browser would round are kept as they are written. */
function parse(definition: string): Json | undefined {
  const exact = definition.replace(NUMBER, (token) =>
    token.startsWith('"') || token.length <= EXACT_DIGITS ? token : JSON.stringify(EXACT + token),
  );
  try {
    return JSON.parse(exact) as Json;
  } catch {
    return undefined;
  }
}

function written(value: Json): string {
  return unquoted(JSON.stringify(value, null, 1).replaceAll(/\n\s*/g, " "));
}

function unquoted(text: string): string {
  return text.replaceAll(/"\\u0000number ([^"]*)"/g, "$1");
}

/** A JSON definition formatted like stored versions; others unchanged. */
export function byLines(definition: string): string {
  const document = parse(definition);
  return document === undefined ? definition : unquoted(JSON.stringify(document, null, 2));
}

function isObject(value: Json): value is { [name: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function walked(document: Json, path: string): Field[] {
  const found: Field[] = [];
  if (!(isObject(document) && document.type === "record"))
    found.push({ path, type: typeText(document), default: null });
  walk(document, path, found, 0);
  return found;
}

/** A name refers to a type that is visited at its definition. */
function walk(type: Json, path: string, found: Field[], depth: number): void {
  if (depth > DEPTH_MAX) return;
  if (Array.isArray(type)) for (const branch of type) walk(branch, path, found, depth + 1);
  if (!isObject(type)) return;
  if (isObject(type.type ?? null) || Array.isArray(type.type))
    walk(type.type ?? null, path, found, depth + 1);
  if (type.type === "array") walk(type.items ?? null, `${path}[]`, found, depth + 1);
  if (type.type === "map") walk(type.values ?? null, `${path}{}`, found, depth + 1);
  if (type.type !== "record" || !Array.isArray(type.fields)) return;
  for (const field of type.fields) {
    if (!isObject(field)) continue;
    const inner = path ? `${path}.${field.name}` : String(field.name);
    const own = field.type ?? null;
    const fallback = Object.hasOwn(field, "default") ? written(field.default ?? null) : null;
    found.push({ path: inner, type: typeText(own), default: fallback });
    walk(own, inner, found, depth + 1);
  }
}

/** "int", "null | string", "array of order.Item", "long (timestamp-millis)" */
function typeText(type: Json): string {
  if (typeof type === "string") return type;
  if (Array.isArray(type)) return type.map(typeText).join(" | ");
  if (!isObject(type)) return written(type);
  const of = type.type ?? null;
  if (typeof of !== "string") return typeText(of);
  const logical = typeof type.logicalType === "string" ? ` (${type.logicalType})` : "";
  if (of === "array") return `array of ${typeText(type.items ?? null)}`;
  if (of === "map") return `map of ${typeText(type.values ?? null)}`;
  if (of === "enum" && Array.isArray(type.symbols)) return `enum ${type.name}: ${type.symbols.join(", ")}`;
  if (of === "fixed") return `fixed ${type.name} of ${type.size} bytes${logical}`;
  return of === "record" ? `record ${type.name}` : `${of}${logical}`;
}
