import { dateTime, time } from "./format";

const DAY_MS = 86_400_000;

/** The server's texts with the moments in them, ISO 8601 in UTC, by the clock of who looks. */
export function withMoments(text: string, now: number): string {
  return text.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, (moment) => {
    const at = Date.parse(moment);
    return now - at > DAY_MS ? dateTime(at) : time(at);
  });
}

/** A title that continues after a name. */
export function afterName(name: string, title: string): string {
  return title.startsWith(":") ? name + title : `${name} ${title}`;
}
