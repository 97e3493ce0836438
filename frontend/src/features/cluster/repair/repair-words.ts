import { age, byteRate, bytes, count, dateTime, duration, plural } from "../../../lib/format";
import { localized } from "../../../lib/language/sentences";
import type {
  AuditPreview,
  BlastRadius,
  BookieDecommission,
  CopiesCount,
  DecommissionPreview,
  DelayPreview,
  LostBookie,
  Repair,
  SwitchPreview,
} from "./repair-queries";

/** Whether every ledger has its copies, in one or two sentences. */
export function stateOf(repair: Repair, now: number): string {
  const { ledgers, all, size, sized, oldest } = repair;
  if (!repair.enabled)
    return `Auto-recovery is turned off. ${
      ledgers === 0
        ? "No ledger is known to have too few copies."
        : `${plural(ledgers, "ledger")} ${ledgers === 1 ? "has" : "have"} too few copies.`
    }`;
  if (repair.auditor === null)
    return "No process is the auditor, so lost bookies are not noticed. Auto-recovery is a part of each bookie.";
  if (ledgers === 0) return "Every ledger has all its copies, as far as the auditor knows.";
  const counted = `${all ? "" : "More than "}${plural(ledgers, "ledger")} ${ledgers === 1 ? "has" : "have"} too few copies`;
  const unsized = ledgers - sized;
  const copied =
    sized === 0
      ? "how much is to be copied is not known"
      : `${bytes(size)} are to be copied${unsized > 0 ? `, without ${plural(unsized, "ledger")} of unknown size` : ""}`;
  const since = oldest === null ? "" : `, the first for ${age(oldest, now)}`;
  return `${counted}${since}; ${copied}.`;
}

/** Speed and forecast of the repair; empty while nothing is marked. */
export function forecastOf({ ledgers, ledgers_per_s, bytes_per_s, seconds_left, workers }: Repair): string {
  if (ledgers === 0) return "";
  const busy = workers.reduce((sum, worker) => sum + worker.ledgers, 0);
  const who =
    busy === 0
      ? "No ledger is repaired at this moment."
      : `${plural(busy, "ledger")} ${busy === 1 ? "is" : "are"} repaired now, by ${workers
          .map(({ worker, ledgers: n }) => `${worker} (${count(n)})`)
          .join(", ")}.`;
  if (ledgers_per_s === null || seconds_left === null) return `${who} How long it takes is not known yet.`;
  const speed = bytes_per_s === null ? "" : ` at ${byteRate(bytes_per_s)}`;
  return `${who} All have their copies in about ${duration(seconds_left)}${speed}.`;
}

/** A bookie that is away, in a sentence. */
export function lostOf({ bookie, since, due, ledgers }: LostBookie, now: number): string {
  const away = `${bookie} is away for ${age(since, now)}.`;
  if (ledgers > 0)
    return `${away} ${plural(ledgers, "marked ledger")} ${ledgers === 1 ? "names" : "name"} it.`;
  if (due === null) return away;
  const left = (due - now) / 1000;
  return left > 0
    ? `${away} Its ledgers are copied in about ${duration(left)}, unless it returns.`
    : `${away} Its ledgers are about to be marked.`;
}

/** A decommission with its progress, in a sentence. */
export function decommissionOf(row: BookieDecommission): string {
  const { bookie, by, at, first, left, counted, waits, drain } = row;
  const who = by === "" ? "" : ` by ${by}`;
  const head = `${bookie} is being ${drain ? "drained" : "decommissioned"} since ${dateTime(at)}${who}.`;
  if (left === 0 && waits !== "") return `${head} No ledger names it any more: stop its process.`;
  if (waits !== "") return `${head} Nothing is copied: ${waits}.`;
  if (left === null || first === null || counted === null)
    return `${head} The auditor has not counted its ledgers yet.`;
  return `${head} ${count(left)} of ${plural(first, "ledger")} ${left === 1 ? "is" : "are"} left.`;
}

/** The owners by the copies that they keep. */
export function countsOf(counts: readonly CopiesCount[]): string {
  return counts
    .map(({ copies, owners }) => {
      const kept = copies === 0 ? "no copy" : plural(copies, "copy", "copies");
      return `${plural(owners, "topic")} with ${kept}`;
    })
    .join(", ");
}

/** The copies that would be left without the bookie, in two sentences. */
export function lossOf({ bookie, ledgers, size, counts, of_ledgers }: BlastRadius): string {
  if (ledgers === 0) return `No ledger names ${bookie}: nothing depends on it.`;
  const held = `${bookie} has copies of ${plural(ledgers, "ledger")} of ${count(of_ledgers)}, ${bytes(size)} of closed ones.`;
  const lost = counts.find(({ copies }) => copies === 0)?.owners ?? 0;
  const last = counts.find(({ copies }) => copies === 1)?.owners ?? 0;
  if (lost > 0) return `${held} ${plural(lost, "topic")} would have messages without any copy.`;
  if (last > 0) return `${held} ${plural(last, "topic")} would have messages with one copy left.`;
  return `${held} Every topic would keep two copies or more.`;
}

export function switchOf({ on, ledgers }: SwitchPreview): string {
  if (on)
    return ledgers === 0
      ? "Lost bookies are noticed again, and their ledgers copied."
      : `${plural(ledgers, "marked ledger")} ${ledgers === 1 ? "is" : "are"} copied again, and lost bookies noticed.`;
  return "No ledger is marked or copied until it is turned on again. Ledgers that are being copied now are finished.";
}

export function delayOf({ seconds, before_s, lost }: DelayPreview, now: number): string {
  const before = before_s === null ? "" : ` It is ${duration(before_s)} now.`;
  const head = `A bookie that is away is waited for ${duration(seconds)} before its ledgers are copied.${before}`;
  return [head, ...lost.map((bookie) => lostOf(bookie, now))].join(" ");
}

export function auditOf({ problem, lost }: AuditPreview): string {
  if (problem !== "") return localized(`${problem}.`);
  if (lost.length === 0) return "No bookie is away. The auditor looks for ledgers that name unknown bookies.";
  return `The ledgers of ${lost.map(({ bookie }) => bookie).join(", ")} are marked at once, and copied.`;
}

export function decommissionPreviewOf(preview: DecommissionPreview): string {
  const { bookie, problem, drain, ledgers, open, size, stored, seconds } = preview;
  if (problem !== "") return localized(`${problem}.`);
  if (ledgers === 0 && !drain) return `No ledger names ${bookie}: only its cookie is removed.`;
  const unclosed = open === 0 ? "" : `, ${count(open)} of them open`;
  const end = drain
    ? "It serves, so it becomes read-only first; stop its process when nothing is left. Then its cookie is removed."
    : "Then its cookie is removed.";
  const takes = seconds === null ? "" : ` That takes about ${duration(seconds)} at the present speed.`;
  const much = stored === null ? `${bytes(size)} of closed ones` : bytes(Math.max(size, stored));
  return `${plural(ledgers, "ledger")}${unclosed}, ${much}, are copied to other bookies. ${end}${takes}`;
}
