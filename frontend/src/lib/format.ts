// Numbers and times as text, as the language of the console writes them and not the browser, so that a shared link
// shows the same text to everyone of one language.

import { LANGUAGE, w } from "./words";
import { ZONE } from "./zone";

const LOCALE = LANGUAGE;
const whole = new Intl.NumberFormat(LOCALE, { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat(LOCALE, { notation: "compact", maximumSignificantDigits: 3 });
const small = new Intl.NumberFormat(LOCALE, { maximumFractionDigits: 2 });
const two = new Intl.NumberFormat(LOCALE, { maximumSignificantDigits: 2 });
const three = new Intl.NumberFormat(LOCALE, { maximumSignificantDigits: 3 });
const tenth = new Intl.NumberFormat(LOCALE, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const conjunction = new Intl.ListFormat(LOCALE === "en" ? "en-GB" : LOCALE, { type: "conjunction" });
const clock = new Intl.DateTimeFormat(LOCALE, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hour12: false,
  timeZone: ZONE,
});
const moment = new Intl.DateTimeFormat(LOCALE, {
  year: "numeric",
  month: "short",
  day: "2-digit",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hour12: false,
  timeZone: ZONE,
  // A chosen zone is named, because it may not be that of the reader's clock.
  timeZoneName: ZONE ? "short" : undefined,
});

// Results write moments in `ms` too; no duration is three years long.
const EPOCH_LIKE_MS = 1e11;

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** 1234567 → "1,234,567" */
export function count(value: number | bigint): string {
  return whole.format(value);
}

/** 12.34 → "12.3" */
export function tenths(value: number): string {
  return tenth.format(value);
}

/** ["2 producers", "1 consumer"] → "2 producers and 1 consumer" */
export function listed(parts: string[]): string {
  return conjunction.format(parts);
}

// From here on a number in a tile or at an axis is cut; below it, one and the same count reads the same everywhere.
const LONG = 1_000_000;

/** 1234567 → "1.23M", for tiles and axes; below a million every digit is shown. */
export function short(value: number): string {
  return Math.abs(value) < LONG
    ? (Number.isInteger(value) ? whole : small).format(value)
    : compact.format(value);
}

/** Rate per second: small ones keep their fraction, so that a trickle never reads as nothing. */
export function rate(value: number): string {
  if (value === 0) return "0";
  if (Math.abs(value) < 0.01) return value < 0 ? ">−0.01" : "<0.01";
  const text =
    Math.abs(value) < 10
      ? two.format(value)
      : Math.abs(value) < LONG
        ? three.format(value)
        : compact.format(value);
  return text.replace("-", "−");
}

/** A rate with its sign, for differences: "+12.5" or "−3". */
export function signedRate(value: number): string {
  return value > 0 ? `+${rate(value)}` : rate(value);
}

/** A dash for an unknown value: unknown is never zero. */
export function known(value: number | null, text: (value: number) => string): string {
  return value === null ? "—" : text(value);
}

/** 1536 → "1.5 KiB" */
export function bytes(value: number): string {
  let unit = 0;
  let amount = value;
  // Three digits: 1,010 KiB are 0.986 MiB.
  while (Math.abs(amount) >= (unit === 0 ? 1024 : 999.5) && unit < BYTE_UNITS.length - 1) {
    amount /= 1024;
    unit += 1;
  }
  return `${(unit === 0 ? whole : three).format(amount)} ${BYTE_UNITS[unit]}`;
}

export function byteRate(value: number): string {
  return `${bytes(value)}/s`;
}

/** Seconds as the two largest units: 3725 → "1 h 2 min". */
export function duration(seconds: number): string {
  const total = Math.max(0, Math.round(seconds));
  if (total < 60) return `${total} s`;
  const steps: [number, string][] = [
    [86_400, "d"],
    [3_600, "h"],
    [60, "min"],
    [1, "s"],
  ];
  const first = steps.findIndex(([size]) => total >= size);
  const [size, unit] = steps[first] ?? [1, "s"];
  const next = steps[first + 1];
  const rest = next ? Math.floor((total % size) / next[0]) : 0;
  const head = `${whole.format(Math.floor(total / size))} ${unit}`;
  return next && rest > 0 ? `${head} ${rest} ${next[1]}` : head;
}

// The latest moment that a Date has. Producers state the times of messages, and may state any 64-bit number.
const MOMENT_MAX_MS = 8.64e15;

function written(format: Intl.DateTimeFormat, at: number): string {
  return Math.abs(at) <= MOMENT_MAX_MS ? format.format(at) : `${whole.format(at)} ms`;
}

export function time(at: number): string {
  return written(clock, at);
}

/** A moment by the clock of who looks; a number that is none stays a number. */
export function dateTime(at: number): string {
  return written(moment, at);
}

/** Age of something that happened at `at`, e.g. "now", "8 s", "3 min 20 s". */
export function age(at: number, now: number): string {
  const seconds = (now - at) / 1000;
  return seconds < 1.5 ? "now" : duration(seconds);
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${w(n === 1 ? one : many)}`;
}

/** A value of an analysis result formatted by its unit. Text, such as ids, is shown unchanged. */
export function withUnit(value: string | number | boolean | null, unit?: string | null): string {
  if (value === null) return "—";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "string") return unit ? `${value} ${unit}` : value;
  switch (unit) {
    case "bytes":
    case "B":
      return bytes(value);
    case "bytes/s":
    case "B/s":
      return byteRate(value);
    case "s":
    case "seconds":
      return value < 1
        ? `${three.format(value * 1000)} ms`
        : value < 60
          ? `${three.format(value)} s`
          : duration(value);
    case "ms":
      if (value > EPOCH_LIKE_MS) return dateTime(value);
      return value >= 60_000 ? duration(value / 1000) : `${three.format(value)} ms`;
    case "epoch_ms":
    case "time":
      return dateTime(value);
    case "ratio":
      return `${three.format(value)}×`;
    case "%":
    case "percent":
      return `${three.format(value)} %`;
    default: {
      const text = Number.isInteger(value) ? whole.format(value) : three.format(value);
      return unit ? `${text} ${unit}` : text;
    }
  }
}

/** The same, number and unit apart, for large type. Units that are part of the formatting stay with it. */
export function valueAndUnit(
  value: string | number | boolean | null,
  unit?: string | null,
): { value: string; unit: string | undefined } {
  const text = withUnit(value, unit);
  return unit && text.endsWith(` ${unit}`)
    ? { value: text.slice(0, -unit.length - 1), unit: unit }
    : { value: text, unit: undefined };
}

/** An ISO 8601 time as milliseconds; null for what isn't one, e.g. the empty text of "unknown". */
export function momentOf(text: string): number | null {
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : at;
}
