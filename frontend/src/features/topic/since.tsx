import { age, dateTime, momentOf } from "../../lib/format";

/** The duration of a client's connection; its start on hover. */
export function Since({ text, now }: { text: string; now: number }) {
  const at = momentOf(text);
  return at === null ? "—" : <span title={dateTime(at)}>{age(at, now)}</span>;
}
