// A policy's value as text and back: the content of a form's fields, its errors, and the text for users.

import { bytes, count, duration } from "../../lib/format";
import { localized } from "../../lib/language/sentences";
import type { Part, Policy } from "./policy-queries";

type Plain = string | number | boolean | string[];
export type Value = Plain | Record<string, Plain> | null;
/** Text of each part's field, by its name; a value without parts has one named "". */
export type Texts = Record<string, string>;

/** "retentionTimeInMinutes" → "Retention time": the unit is shown beside the number. */
export function labelOf(part: Part): string {
  const words = wordsOf(part);
  return localized(words.charAt(0).toUpperCase() + words.slice(1));
}

function wordsOf({ name }: Part): string {
  return name
    .replace(/In(Minutes|Seconds|MB)$/, "")
    .replace(/([a-z])([A-Z])/g, "$1 $2")
    .toLowerCase();
}

/** The meaning of special numbers, from the policy's description: "-1 and 0 are no limit", "0 and 0 none". */
export function specialsOf(meaning: string): Map<string, string> {
  const found = meaning.matchAll(/(-?\d+)(?: and (-?\d+))? (?:is |are )?([a-z][a-z' :]*)/g);
  return new Map(
    [...found].flatMap(([, one = "", other = one, words = ""]): [string, string][] => [
      [one, words.trim()],
      [other, words.trim()],
    ]),
  );
}

/** A part's value as text, e.g. "10 min", with the stored number where it differs. */
export function readable(policy: Policy, part: Part, value: Plain): { text: string; raw: string | null } {
  if (typeof value === "boolean") return { text: value ? "yes" : "no", raw: null };
  if (Array.isArray(value)) return { text: value.join(", "), raw: null };
  if (part.type === "string") return { text: String(value), raw: null };
  const number = String(value);
  const unit = number === "1" ? part.unit?.replace(/s$/, "") : part.unit;
  const raw = `${grouped(number)}${unit ? ` ${localized(unit)}` : ""}`;
  const special = specialsOf(policy.meaning).get(number);
  if (special !== undefined) return { text: localized(special), raw: number };
  const text = inUnit(Number(value), part.unit) ?? raw;
  return { text, raw: text.split(" ")[0] === raw.split(" ")[0] ? null : raw };
}

function inUnit(value: number, unit: string | undefined): string | null {
  switch (unit) {
    case "seconds":
      return duration(value);
    case "minutes":
      return duration(value * 60);
    case "bytes":
      return bytes(value);
    case "MiB":
      return bytes(value * 2 ** 20);
    default:
      return null;
  }
}

/** Digits in groups of three, exact at any length. */
function grouped(number: string): string {
  return /^-?\d+$/.test(number) ? count(BigInt(number)) : number;
}

export function partOf(value: Value, part: Part): Plain | undefined {
  if (value === null) return undefined;
  return isRecord(value) ? value[part.name] : part.name === "" ? value : undefined;
}

function isRecord(value: Value): value is Record<string, Plain> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value, or some parts of it, in one line; "unknown" for one that no broker reports. */
export function describe(policy: Policy, value: Value, parts = policy.parts): string {
  if (value === null) return "unknown";
  const whole = parts === policy.parts ? unlimited(policy, value) : null;
  if (whole !== null) return whole;
  const texts = parts.flatMap((part) => {
    const plain = partOf(value, part);
    if (plain === undefined) return [];
    const { text, raw } = readable(policy, part, plain);
    const words = raw === null ? text : `${text} (${raw})`;
    return [part.name === "" ? words : `${localized(wordsOf(part))} ${words}`];
  });
  return texts.join(", ");
}

/**
 * The text of a whole record when all its amounts mean the same: "no limit", without an action that never takes
 * effect. Null for others. The length of a rate's period is no amount.
 */
function unlimited(policy: Policy, value: Value): string | null {
  const amounts = policy.parts.filter(({ name, type }) => type === "integer" && !/period/i.test(name));
  if (policy.parts.length < 2) return null;
  const meanings = amounts.map((part) => specialsOf(policy.meaning).get(String(partOf(value, part))));
  const [meaning] = meanings;
  return new Set(meanings).size === 1 && meaning !== undefined ? localized(meaning) : null;
}

/** The form's initial value: the namespace's own, else the effective one. Optional fields stay empty. */
export function textsOf(policy: Policy, own = policy.own as Value): Texts {
  return Object.fromEntries(
    policy.parts.map((part) => {
      const plain = partOf(part.optional ? own : (own ?? (policy.value as Value)), part);
      return [part.name, plain === undefined ? "" : String(plain)];
    }),
  );
}

/** The error of each field; empty for a form that can be sent. */
export function problemsOf(policy: Policy, texts: Texts): Texts {
  const found = policy.parts.map((part) => [part.name, problemOf(part, (texts[part.name] ?? "").trim())]);
  return Object.fromEntries(found.filter(([, problem]) => problem !== null));
}

function problemOf(part: Part, text: string): string | null {
  if (text === "") return part.optional ? null : "Give a value";
  switch (part.type) {
    case "integer":
      if (!/^-?\d+$/.test(text)) return "Must be a whole number";
      if (part.minimum !== undefined && BigInt(text) < BigInt(part.minimum))
        return `Must be at least ${grouped(part.minimum)}`;
      if (part.maximum !== undefined && BigInt(text) > BigInt(part.maximum))
        return `Must be at most ${grouped(part.maximum)}`;
      return null;
    case "number":
      if (!Number.isFinite(Number(text))) return "Must be a number";
      return part.minimum !== undefined && Number(text) < Number(part.minimum)
        ? `Must be at least ${part.minimum}`
        : null;
    case "boolean":
      return text === "true" || text === "false" ? null : "Must be yes or no";
    default:
      return null;
  }
}

/** The value of a form without problems. Fields that the form doesn't show stay as the namespace has them. */
export function toValue(policy: Policy, texts: Texts): Value {
  const [only] = policy.parts;
  if (only?.name === "") return plainOf(only, texts[""] ?? "");
  const own = policy.own as Value;
  const value: Record<string, Plain> = isRecord(own) ? { ...own } : {};
  for (const part of policy.parts) {
    const text = (texts[part.name] ?? "").trim();
    if (text === "") delete value[part.name];
    else value[part.name] = plainOf(part, text);
  }
  return value;
}

function plainOf(part: Part, given: string): Plain {
  const text = given.trim();
  if (part.type === "boolean") return text === "true";
  if (part.type === "number") return Number(text);
  if (part.type === "array") return text.split(",");
  if (part.type !== "integer") return text;
  const number = Number(text);
  return Number.isSafeInteger(number) ? number : BigInt(text).toString();
}

/** The parts in which two values differ; all of them when one of the values is none. */
export function differing(policy: Policy, one: Value, other: Value): Part[] {
  if (one === null || other === null) return one === other ? [] : policy.parts;
  return policy.parts.filter((part) => String(partOf(one, part)) !== String(partOf(other, part)));
}

/** The effective value once the namespace stores `next`: missing members are inherited. */
export function inForce(policy: Policy, next: Value): Value {
  const inherited = policy.inherited as Value;
  if (next === null) return inherited;
  return isRecord(next) && isRecord(inherited) ? { ...inherited, ...next } : next;
}

/** A field's unit and bounds in words. */
export function limitsOf(part: Part): string | null {
  const { minimum, maximum } = part;
  const bounds =
    minimum !== undefined && maximum !== undefined
      ? `${grouped(minimum)} to ${grouped(maximum)}`
      : minimum !== undefined
        ? `at least ${grouped(minimum)}`
        : null;
  const words = [part.unit && localized(part.unit), bounds, part.optional ? "may be empty" : null]
    .filter(Boolean)
    .join(", ");
  return words === "" ? null : words.charAt(0).toUpperCase() + words.slice(1);
}
