import { useServerNow } from "../lib/clock";
import { dateTime, duration } from "../lib/format";

/** The time since something began, with its beginning as the title. */
export function Since({ at }: { at: number }) {
  const now = useServerNow();
  return <span title={dateTime(at)}>{duration(Math.max(0, now - at) / 1000)}</span>;
}
