import { localized } from "../../lib/language/sentences";
import type { Coordinator, Transaction } from "./transaction-queries";

/** Topics and subscriptions that a dialog names. */
export const NAMED_MAX = 12;

/** Ages from which transactions are listed, seconds. */
export const AGES = [
  { value: "", label: "Of any age" },
  { value: "10", label: "Older than 10 s" },
  { value: "60", label: "Older than 1 min" },
  { value: "600", label: "Older than 10 min" },
] as const;

/** The age of the address, seconds; 0 for any, and for what is none of the choices. */
export function ageOf(text: string | undefined): number {
  return AGES.some(({ value }) => value === text) ? Number(text) : 0;
}

export function idOf({ coordinator, number }: { coordinator: number; number: number }): string {
  return `(${coordinator},${number})`;
}

/** A number that a coordinator reports; it reports -1 before its first transaction. */
export function reportedNumber(number: number | null): string {
  if (number === null) return "—";
  return number < 0 ? "none so far" : String(number);
}

/** The topics and subscriptions of a transaction, in words. */
export function placesOf(of: Transaction): { text: string; name: string }[] {
  return [
    ...of.topics.map((name) => ({ text: "publishes to", name })),
    ...of.subscriptions.map(({ topic, subscription }) => ({
      text: `acknowledges ${subscription} of`,
      name: topic,
    })),
  ];
}

/** The coordinators that do not answer, whose transactions are not known; empty when all answer. */
export function silentText(coordinators: readonly Coordinator[]): string {
  const silent = coordinators.filter(({ reason }) => reason !== "");
  if (silent.length === 0) return "";
  const names = silent.map(({ coordinator, reason }) => `${coordinator} (${localized(reason)})`).join(", ");
  return `These coordinators do not answer, and their transactions are not known: ${names}`;
}
