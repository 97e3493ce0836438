import type { CursorAction, CursorAmounts } from "../../api/types";
import { count, plural } from "../../lib/format";

export const TITLES: Record<CursorAction, string> = {
  "skip-all": "Skip all messages",
  skip: "Skip messages",
  reset: "Reset to a time",
  undo: "Undo a change",
};

/** The names of completed changes. */
export const DONE: Record<string, string> = {
  "skip-all": "skipped all messages",
  skip: "skipped messages",
  reset: "reset to a time",
  undo: "undid a change",
};

/** "1,200 messages", "about 1,200 messages"; in entries where storage does not know the messages in them. */
export function amount(messages: number | null, entries: number, exact: boolean): string {
  if (messages === null) return `${plural(entries, "entry", "entries")} of messages`;
  return `${exact ? "" : "about "}${plural(messages, "message")}`;
}

export const lostOf = (of: CursorAmounts): string => amount(of.lost, of.lost_entries, of.exact);
export const againOf = (of: CursorAmounts): string => amount(of.again, of.again_entries, of.exact);

/** "1,200 unacknowledged messages": the messages that a change discards. */
export function discardedOf(of: CursorAmounts): string {
  return lostOf(of).replace(/(entr(?:y|ies) of )?messages?$/, "unacknowledged $&");
}

/** Whether a change discards unread messages, or redelivers any, including parts of batches. */
export const loses = (of: CursorAmounts): boolean => of.lost_entries > 0 || (of.lost ?? 0) > 0;
export const repeats = (of: CursorAmounts): boolean => of.again_entries > 0 || (of.again ?? 0) > 0;

/** The button's label: it names the loss, whatever the name of the change. */
export function applyLabel(of: CursorAmounts | undefined): string {
  if (!of) return "Apply";
  if (loses(of) && repeats(of)) return `Discard ${lostOf(of)}, repeat ${againOf(of)}`;
  if (loses(of)) return `Discard ${lostOf(of)}`;
  if (repeats(of)) return `Deliver ${againOf(of)} again`;
  return "Nothing to change";
}

/** The result, for a receipt and for the last change. */
export function outcome(of: CursorAmounts): string {
  const effects = [
    loses(of) && `${lostOf(of)} discarded`,
    repeats(of) && `${againOf(of)} to be delivered again`,
  ].filter(Boolean);
  return effects.length > 0 ? effects.join(", ") : "nothing changed";
}

/** The number of entries that hold the messages, where it differs. */
export function inEntries(of: CursorAmounts): string | null {
  if (of.affected === null || of.affected === of.entries) return null;
  return `in ${count(of.entries)} ${of.entries === 1 ? "entry" : "entries"}`;
}
