import { useServerNow } from "../lib/clock";
import { age, dateTime, duration } from "../lib/format";

/** The time since something began, with its beginning as the title. */
export function Since({ at }: { at: number }) {
  const now = useServerNow();
  return <span title={dateTime(at)}>{duration(Math.max(0, now - at) / 1000)}</span>;
}

/** The time since something happened, as "3 min ago", with its moment as the title. */
export function Ago({ at }: { at: number }) {
  const text = age(at, useServerNow());
  return <span title={dateTime(at)}>{text === "now" ? "now" : `${text} ago`}</span>;
}
