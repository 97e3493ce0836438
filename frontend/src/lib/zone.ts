// The time zone in which all times are shown and entered. It is stored for the browser, and read once for a page.

const KEY = "magnetar-time-zone";

/** The chosen zone by its IANA name, such as "UTC"; undefined for the browser's. */
export const ZONE = storedZone();

function storedZone(): string | undefined {
  try {
    const zone = localStorage.getItem(KEY);
    if (!zone) return undefined;
    new Intl.DateTimeFormat("en", { timeZone: zone });
    return zone;
  } catch {
    return undefined; // storage is closed, or this browser does not know the zone
  }
}

/** Stores the choice, empty for the browser's zone, and shows the page again in it. */
export function chooseZone(zone: string): void {
  if (zone) localStorage.setItem(KEY, zone);
  else localStorage.removeItem(KEY);
  location.reload();
}

/** The wall clock of a zone as milliseconds since the epoch of UTC, to the second. */
export function wallClock(at: number, zone: string): number {
  const parts = new Intl.DateTimeFormat("en", {
    timeZone: zone,
    hourCycle: "h23",
    year: "numeric",
    month: "numeric",
    day: "numeric",
    hour: "numeric",
    minute: "numeric",
    second: "numeric",
  }).formatToParts(at);
  const number = (type: string) => Number(parts.find((part) => part.type === type)?.value);
  return Date.UTC(
    number("year"),
    number("month") - 1,
    number("day"),
    number("hour"),
    number("minute"),
    number("second"),
  );
}
