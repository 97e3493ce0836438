// `<input type="datetime-local">` speaks of a time without naming its zone: the chosen one, else the browser's.
import { wallClock, ZONE } from "./zone";

/** Milliseconds since the epoch as the value of a datetime-local field, to the second; empty for a number that is no
 * moment: a link or a message may have any. */
export function toLocalInput(at: number, zone = ZONE): string {
  if (Number.isNaN(new Date(at).getTime())) return "";
  if (zone) return new Date(wallClock(at, zone)).toISOString().slice(0, 19);
  const date = new Date(at);
  const two = (value: number) => String(value).padStart(2, "0");
  const day = `${String(date.getFullYear()).padStart(4, "0")}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day}T${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** The field's value as milliseconds; null while it is incomplete. */
export function fromLocalInput(text: string, zone = ZONE): number | null {
  if (!/^\d{4,6}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?$/.test(text)) return null;
  const at = new Date(zone ? `${text}Z` : text).getTime();
  if (Number.isNaN(at)) return null;
  if (!zone) return at;
  // The offset of the zone at the time itself may differ from that at the first guess.
  const guess = at - (wallClock(at, zone) - at);
  return at - (wallClock(guess, zone) - guess);
}
