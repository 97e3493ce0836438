// Texts about a setting of the brokers, which state only values that a broker reported.

import { count, plural } from "../../../lib/format";
import { localized } from "../../../lib/language/sentences";
import type { Setting, SettingPreview, SettingReceipt, SettingValue } from "./setting-queries";

const NAMED_MAX = 3;

const shown = (value: string) => value || "empty";

/** "a, b, c and 2 more". */
function named(ids: readonly string[]): string {
  const first = ids.slice(0, NAMED_MAX);
  const more = ids.length - first.length;
  return more > 0 ? `${first.join(", ")} and ${count(more)} more` : first.join(", ");
}

/** "5", or "5 on a, 7 on b" where brokers differ. */
export function valuesText(values: readonly SettingValue[]): string {
  if (values.length <= 1) return values.map(({ value }) => shown(value)).join("");
  return values.map(({ value, brokers }) => `${shown(value)} on ${named(brokers)}`).join(", ");
}

/** The source of the effective value. */
export function sourceOf({ stored, started, default: preset }: Setting): string {
  if (stored !== null) return "stored for all brokers";
  return started.every(({ value }) => value === preset) ? localized("default") : "configured at broker start";
}

/** The number of brokers that do not use the stored value; null when all that answer do. */
export function waitsFor({ stored, behind }: Setting): string | null {
  if (behind.length === 0) return null;
  const one = behind.length === 1;
  const brokers = plural(behind.length, "broker");
  return stored === null
    ? `${brokers} still ${one ? "uses" : "use"} the removed value`
    : `${brokers} ${one ? "does" : "do"} not use the stored value: ${shown(stored)}`;
}

/** The old and the new value, in one sentence. */
export function changeOf(value: string | null, { row, would_be: wouldBe, token }: SettingPreview): string {
  if (token === null)
    return value === null ? "Nothing is stored." : `Nothing changes: ${shown(value)} is stored already.`;
  const before = valuesText(row.values);
  const after = valuesText(wouldBe);
  const source =
    value === null
      ? "as configured at the start of each broker, no longer as stored"
      : "stored for all brokers";
  if (before === after) return `The value stays ${after}, but is now ${source}.`;
  return `From ${before} to ${after}, ${source}.`;
}

export function remarksOf({ row, brokers, silent, token }: SettingPreview): string[] {
  if (token === null) return [];
  const all = silent.length === 0;
  return [
    brokers === 1
      ? all
        ? "The broker applies it immediately, without a restart."
        : "1 broker answers and applies it immediately, without a restart."
      : `${all ? `All ${count(brokers)} brokers apply it` : `${count(brokers)} brokers answer and apply it`} immediately, without a restart.`,
    ...silent.map(
      ({ broker, reason }) => `It is not known whether ${broker} will apply it: ${localized(reason)}`,
    ),
    ...row.behind.map(
      ({ broker, reason }) => `${broker} does not use the stored value now: ${localized(reason)}`,
    ),
    "Brokers that start later apply it, too.",
  ];
}

/** The completed change, and the brokers that report the new value. */
export function doneOf(name: string, value: string | null, { row, silent }: SettingReceipt): string[] {
  const done =
    value === null ? `The stored value of ${name} was removed.` : `${name} is stored as ${shown(value)}.`;
  if (row === null)
    return [done, "No broker answers any more: it is not known whether brokers use the new value."];
  const late = row.behind.map(
    ({ broker, reason }) => `${broker} has not applied it yet: ${localized(reason)}`,
  );
  const unknown = silent.map(
    ({ broker, reason }) => `It is not known whether ${broker} has applied it: ${localized(reason)}`,
  );
  const away = new Set(row.behind.map(({ broker }) => broker));
  const following = row.values.flatMap(({ brokers }) => brokers).filter((broker) => !away.has(broker));
  const followed =
    following.length === 0
      ? []
      : late.length + unknown.length === 0
        ? [
            `${following.length === 1 ? "The broker has" : `All ${count(following.length)} brokers have`} applied it: ${valuesText(row.values)} is in force.`,
          ]
        : [`${named(following)} ${following.length === 1 ? "has" : "have"} applied it.`];
  return [done, ...followed, ...late, ...unknown];
}

/** "must be a whole number from 0 to 5" → "A whole number from 0 to 5". */
export function allowedText({ allowed }: Setting): string {
  return localized(`${allowed.charAt(0).toUpperCase()}${allowed.slice(1)}`);
}
