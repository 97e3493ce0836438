import { age, count, dateTime, plural } from "../../lib/format";

/** The backlog of a topic, a subscription or a sum of them; null: not known. */
export interface Backlog {
  backlog: number | null;
  backlog_messages: number | null;
  backlog_estimated: number | null;
  backlog_unmeasured: number | null;
}

export interface BacklogWords {
  /** "≈ 60,000", "400", "≥ 60,000", or a number of entries. */
  amount: string;
  unit: string;
  /** "212 entries", where the amount is in messages and another number; else null. */
  entries: string | null;
  title: string;
}

const EXACT = "Unacknowledged messages";
const ESTIMATED = "Messages are estimated: brokers count entries, and a batch of messages is one entry";
const AT_LEAST = "There are at least this many messages: the number of messages in some entries is not known";
const ENTRIES = "Entries: a batch of messages is one. How many messages they hold is not known";

/** Messages where these are known or estimated, else entries; null: not known. `text` formats a number. */
export function backlogWords(
  { backlog, backlog_messages: messages, backlog_estimated, backlog_unmeasured }: Backlog,
  text: (value: number) => string = count,
): BacklogWords | null {
  if (backlog === null || messages === null) return null;
  const entries = plural(backlog, "entry", "entries");
  if (backlog_unmeasured && messages === backlog)
    return {
      amount: text(backlog),
      unit: unitOf(backlog, "entry", "entries"),
      entries: null,
      title: ENTRIES,
    };
  const common = { unit: unitOf(messages, "message", "messages"), entries };
  if (backlog_unmeasured) {
    const least = backlog_estimated ? floor(messages) : messages;
    return { ...common, amount: `≥ ${text(Math.max(least, backlog))}`, title: AT_LEAST };
  }
  // An entry holds at least one message.
  const shown = backlog_estimated ? Math.max(Number(messages.toPrecision(2)), backlog) : messages;
  return {
    ...common,
    amount: backlog_estimated ? `≈ ${text(shown)}` : text(shown),
    entries: shown === backlog ? null : entries,
    title: backlog_estimated ? ESTIMATED : EXACT,
  };
}

const unitOf = (n: number, one: string, many: string) => (n === 1 ? one : many);

/** Two digits, never more than there are. */
function floor(value: number): number {
  const step = 10 ** Math.max(Math.floor(Math.log10(value)) - 1, 0);
  return Math.floor(value / step) * step;
}

/** "≈ 60,000 (212 entries)", "400", "212 entries": the cell's text under a header that names the backlog. */
export function backlogText(of: Backlog, text: (value: number) => string = count): string {
  const words = backlogWords(of, text);
  if (words === null) return "—";
  if (words.entries) return `${words.amount} (${words.entries})`;
  return words.title === ENTRIES ? `${words.amount} ${words.unit}` : words.amount;
}

/** The least number of messages of a backlog, by which it is drawn and compared; null: not known. */
export const weightOf = ({ backlog_messages }: Backlog) => backlog_messages;

/** The time since which the first unacknowledged message waits. `at` 0: there is none; null: not known. */
export function oldestText(at: number | null, now: number): string {
  if (at === null) return "unknown";
  return at === 0 ? "—" : age(at, now);
}

export function oldestTitle(at: number | null): string {
  if (at === null) return "When the first unacknowledged message was published is not known now";
  return at === 0 ? "Nothing is unacknowledged" : `Published ${dateTime(at)}, as its broker last reported it`;
}
