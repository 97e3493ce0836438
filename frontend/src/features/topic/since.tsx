import { age, dateTime, momentOf } from "../../lib/format";

/** How long a client has been connected; the moment itself on hover. */
export function Since({ text, now }: { text: string; now: number }) {
  const at = momentOf(text);
  return at === null ? "—" : <span title={dateTime(at)}>{age(at, now)}</span>;
}
