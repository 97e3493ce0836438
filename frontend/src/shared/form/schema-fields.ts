import type { JsonSchema } from "../../api/types";
import { fromLocalInput, toLocalInput } from "../../lib/local-time";

// A form is a list of fields made from one object schema. The form holds the values that the controls
// show (text and booleans); `toParameters` converts them into the JSON that is sent, so both are equal.

/** Format of a text of several lines. */
const SQL = "sql";

export type FieldKind =
  | "text"
  | "lines"
  | "integer"
  | "number"
  | "boolean"
  | "choice"
  | "time"
  | "list"
  | "json";
export type FormValue = string | boolean;
export type FormValues = Record<string, FormValue>;

export interface Field {
  name: string;
  label: string;
  description: string | undefined;
  kind: FieldKind;
  required: boolean;
  nullable: boolean;
  choices: { value: string; label: string; json: unknown }[];
  schema: JsonSchema;
}

export function fieldsOf(schema: JsonSchema): Field[] {
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties ?? {}).map(([name, property]) => {
    const { inner, nullable } = unwrapNull(property);
    return {
      name,
      label: property.title ?? inner.title ?? labelOf(name),
      description: property.description ?? inner.description,
      kind: kindOf(inner),
      required: required.has(name),
      nullable,
      choices: choicesOf(inner),
      schema: { ...inner, ...("default" in property ? { default: property.default } : {}) },
    };
  });
}

function labelOf(name: string): string {
  const words = name.replace(/_/g, " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** `T | null` as T that may be left empty. */
function unwrapNull(schema: JsonSchema): { inner: JsonSchema; nullable: boolean } {
  const variants = schema.anyOf ?? schema.oneOf;
  if (variants) {
    const rest = variants.filter((variant) => variant.type !== "null");
    const [only] = rest;
    if (rest.length === 1 && only)
      return { inner: { ...schema, ...only }, nullable: rest.length < variants.length };
    return { inner: schema, nullable: rest.length < variants.length };
  }
  if (Array.isArray(schema.type)) {
    const rest = schema.type.filter((type) => type !== "null");
    const [only] = rest;
    if (rest.length === 1 && only)
      return { inner: { ...schema, type: only }, nullable: rest.length < schema.type.length };
  }
  return { inner: schema, nullable: false };
}

function kindOf(schema: JsonSchema): FieldKind {
  if (schema.enum || schema.const !== undefined) return "choice";
  switch (schema.type) {
    case "boolean":
      return "boolean";
    case "integer":
      return isTime(schema) ? "time" : "integer";
    case "number":
      return "number";
    case "string":
      return isTime(schema) ? "time" : schema.format === SQL ? "lines" : "text";
    case "array":
      return schema.items?.type === "string" && !schema.items.enum ? "list" : "json";
    default:
      return "json";
  }
}

function isTime(schema: JsonSchema): boolean {
  return schema.format === "date-time" || schema.format === "epoch-ms" || schema.format === "epoch_ms";
}

function choicesOf(schema: JsonSchema): Field["choices"] {
  const values = schema.enum ?? (schema.const === undefined ? [] : [schema.const]);
  return values
    .filter((value) => value !== null)
    .map((json) => ({ value: String(json), label: String(json), json }));
}

/** The initial values of the controls: given parameters (of a run to repeat), else the schema's defaults. */
export function initialValues(fields: Field[], given: Record<string, unknown> = {}): FormValues {
  return Object.fromEntries(
    fields.map((field) => {
      const value = field.name in given ? given[field.name] : field.schema.default;
      return [field.name, toFormValue(field, value)];
    }),
  );
}

function toFormValue(field: Field, value: unknown): FormValue {
  if (field.kind === "boolean") return value === true;
  if (value === undefined || value === null) {
    return field.kind === "choice" && field.required ? (field.choices[0]?.value ?? "") : "";
  }
  switch (field.kind) {
    case "list":
      return Array.isArray(value) ? value.join("\n") : String(value);
    case "json":
      return JSON.stringify(value);
    case "time": {
      const at = typeof value === "number" ? value : Date.parse(String(value));
      return Number.isNaN(at) ? "" : toLocalInput(at);
    }
    default:
      return String(value);
  }
}

/** The errors by field; empty when the form can be sent. */
export function validate(fields: Field[], values: FormValues): Record<string, string> {
  const problems: Record<string, string> = {};
  for (const field of fields) {
    const problem = check(field, values[field.name] ?? "");
    if (problem) problems[field.name] = problem;
  }
  return problems;
}

function check(field: Field, value: FormValue): string | null {
  if (typeof value === "boolean") return null;
  if (value.trim() === "") return field.required && !field.nullable ? "Required" : null;
  const { schema } = field;
  switch (field.kind) {
    case "integer":
    case "number":
      return checkNumber(field, Number(value));
    case "time":
      return fromLocalInput(value) === null ? "Give a full date and time" : null;
    case "choice":
      return field.choices.some((choice) => choice.value === value) ? null : "Choose one of the list";
    case "list":
      return checkCount(schema, linesOf(value).length);
    case "json":
      return parses(value) ? null : "This is not valid JSON";
    case "text":
    case "lines":
      return checkText(schema, value);
    default:
      return null;
  }
}

function checkNumber({ kind, schema }: Field, value: number): string | null {
  if (!Number.isFinite(value)) return "Must be a number";
  if (kind === "integer" && !Number.isSafeInteger(value)) return "Must be a whole number";
  if (schema.minimum !== undefined && value < schema.minimum) return `Must be at least ${schema.minimum}`;
  if (schema.maximum !== undefined && value > schema.maximum) return `Must be at most ${schema.maximum}`;
  if (schema.exclusiveMinimum !== undefined && value <= schema.exclusiveMinimum)
    return `Must be more than ${schema.exclusiveMinimum}`;
  if (schema.exclusiveMaximum !== undefined && value >= schema.exclusiveMaximum)
    return `Must be less than ${schema.exclusiveMaximum}`;
  if (
    schema.multipleOf !== undefined &&
    Math.abs(value / schema.multipleOf - Math.round(value / schema.multipleOf)) > 1e-9
  )
    return `Must be a multiple of ${schema.multipleOf}`;
  return null;
}

function checkText(schema: JsonSchema, value: string): string | null {
  if (schema.minLength !== undefined && value.length < schema.minLength)
    return `Must have at least ${schema.minLength} characters`;
  if (schema.maxLength !== undefined && value.length > schema.maxLength)
    return `Must have at most ${schema.maxLength} characters`;
  return schema.pattern !== undefined && !matches(schema.pattern, value)
    ? `Must match ${schema.pattern}`
    : null;
}

function checkCount(schema: JsonSchema, items: number): string | null {
  if (schema.minItems !== undefined && items < schema.minItems)
    return `Give at least ${schema.minItems} lines`;
  if (schema.maxItems !== undefined && items > schema.maxItems)
    return `Give at most ${schema.maxItems} lines`;
  return null;
}

/** A pattern this browser cannot compile is left to the server, which checks everything again. */
function matches(pattern: string, value: string): boolean {
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    return true;
  }
}

function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function linesOf(text: string): string[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
}

/** The JSON to send. Fields left empty are left out, so that the server's own defaults apply. */
export function toParameters(fields: Field[], values: FormValues): Record<string, unknown> {
  const parameters: Record<string, unknown> = {};
  for (const field of fields) {
    const value = values[field.name] ?? "";
    const json = toJson(field, value);
    if (json !== undefined) parameters[field.name] = json;
  }
  return parameters;
}

function toJson(field: Field, value: FormValue): unknown {
  if (typeof value === "boolean") return value;
  if (value.trim() === "") return undefined;
  switch (field.kind) {
    case "integer":
    case "number":
      return Number(value);
    case "choice":
      return field.choices.find((choice) => choice.value === value)?.json;
    case "list":
      return linesOf(value);
    case "json":
      return JSON.parse(value);
    case "time": {
      const at = fromLocalInput(value);
      if (at === null) return undefined;
      return field.schema.type === "string" ? new Date(at).toISOString() : at;
    }
    default:
      return value;
  }
}
