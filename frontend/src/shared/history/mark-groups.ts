import type { components } from "../../api/schema";
import { serverNow } from "../../lib/clock";
import { dateTime, time } from "../../lib/format";
import { operationWords } from "../operation-words";

export interface Mark {
  /** Milliseconds since the epoch. */
  at: number;
  operation: string;
  method: string;
  /** Empty: not for this user to see. */
  actor: string;
  /** The audit log's; empty: not for this user to read. */
  id: string;
  /** Whether the change was of the namespace, and not of the topic. */
  isOfNamespace: boolean;
}

/** The marks of one step of time, which share a place on the chart. */
export interface MarkGroup {
  /** The start of the step, by which a group is recognised while the chart moves on. */
  start: number;
  /** Shares of the plot's width. */
  left: number;
  width: number;
  /** Oldest first. `share`: the place in the group's width. */
  marks: (Mark & { share: number })[];
}

const STEPS_S = [10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14_400, 43_200, 86_400];
/** The largest number of groups: they stay wide enough for a finger on a phone. */
const GROUPS_MAX = 9;
/** Changes that are older are named with their date. */
const DAY_MS = 86_400_000;

export function marksOf(
  rows: readonly components["schemas"]["ChangeMark"][],
  isOfNamespace: boolean,
): Mark[] {
  return rows.map(({ at, operation, method, actor, id }) => ({
    ...{ at, operation, method, actor, id },
    isOfNamespace,
  }));
}

/** The marks between two times, in seconds, by fixed steps of time. */
export function groupsOf(marks: readonly Mark[], from: number, to: number): MarkGroup[] {
  const span = to - from;
  if (span <= 0) return [];
  const step = STEPS_S.find((seconds) => seconds >= span / GROUPS_MAX) ?? span;
  const steps = new Map<number, Mark[]>();
  for (const mark of [...marks].sort((a, b) => a.at - b.at)) {
    const at = mark.at / 1000;
    if (at < from || at > to) continue;
    const start = Math.floor(at / step) * step;
    steps.set(start, [...(steps.get(start) ?? []), mark]);
  }
  return [...steps].map(([start, some]) => {
    const left = Math.max(start, from);
    const width = Math.min(start + step, to) - left;
    return {
      start,
      left: (left - from) / span,
      width: width / span,
      marks: some.map((mark) => ({ ...mark, share: width > 0 ? (mark.at / 1000 - left) / width : 0 })),
    };
  });
}

/** "12:30:05 set policy of the namespace, by ada" */
export function markText({ at, operation, method, actor, isOfNamespace }: Mark): string {
  const what = operationWords(operation) || method;
  const when = serverNow() - at > DAY_MS ? dateTime(at) : time(at);
  return `${when} ${what}${isOfNamespace ? ", of the namespace" : ""}${actor && `, by ${actor}`}`;
}
