import { bytes, count, plural } from "../../lib/format";
import type {
  ChangeItem,
  ChangeKind,
  ChangeSet,
  ItemState,
  ListedChangeSet,
} from "../../shared/change-sets/change-queries";
import type { Tone } from "../../ui/badge";

const VERBS: Record<ChangeKind, [verb: string, one: string]> = {
  definitions: ["Apply definitions of", "object"],
  "set-policy": ["Set a policy of", "topic"],
  "delete-topics": ["Delete", "topic"],
  unload: ["Unload", "topic"],
  "add-partitions": ["Add partitions to", "topic"],
  "skip-all": ["Skip all messages of", "subscription"],
  skip: ["Skip messages of", "subscription"],
  reset: ["Reset", "subscription"],
  "delete-subscriptions": ["Delete", "subscription"],
};

const STATES: Record<ItemState, [word: string, tone: Tone]> = {
  waiting: ["to be previewed", "neutral"],
  planned: ["planned", "accent"],
  refused: ["cannot be changed", "warn"],
  applying: ["being changed", "accent"],
  done: ["done", "ok"],
  failed: ["failed", "bad"],
  unknown: ["not known", "bad"],
};
export const ITEM_STATES = Object.keys(STATES) as ItemState[];

export function stateOfItem(state: ItemState): { word: string; tone: Tone } {
  const [word, tone] = STATES[state];
  return { word, tone };
}

/** The title of a set: "Delete 12 topics". */
export function titleOf(set: ListedChangeSet, total = set.total): string {
  const [verb, one] = VERBS[set.kind];
  return `${verb} ${plural(total, one)}`;
}

/** The arguments in words; empty without any. */
export function argumentsOf({ kind, arguments: args }: ListedChangeSet): string {
  const value = args.value === null ? "the own value removed" : JSON.stringify(args.value);
  switch (kind) {
    case "set-policy":
      return `${args.policy}: ${value}`;
    case "add-partitions":
      return `${plural(Number(args.count), "partition")} afterwards`;
    case "skip":
      return plural(Number(args.count), "message");
    case "delete-subscriptions":
      return args.force === true ? "consumers are disconnected" : "none with consumers";
    default:
      return "";
  }
}

/** The filter that chose the objects of a set. */
export function filterOf({ query, of }: ListedChangeSet): string {
  if (of === "definitions") return "a file";
  if (query === null) return `named ${of}`;
  const parts = Object.entries(query).flatMap(([name, value]) => (value ? [`${name}: ${value}`] : []));
  return parts.length === 0 ? `all ${of}` : parts.join(", ");
}

export function stateOfSet(set: ListedChangeSet): { word: string; tone: Tone } {
  if (set.waiting) return { word: "waits for a worker", tone: "warn" };
  const { counts, state } = set;
  switch (state) {
    case "planning":
      return { word: "is being previewed", tone: "accent" };
    case "planned":
      return { word: "to be confirmed", tone: "warn" };
    case "running":
      return { word: set.stopping ? "stops" : "runs", tone: "accent" };
    case "stopped":
      return { word: "stopped", tone: "warn" };
    case "cancelled":
      return { word: "cancelled", tone: "neutral" };
    case "finished":
      return counts.failed + counts.unknown > 0
        ? { word: "done in part", tone: "bad" }
        : { word: "done", tone: "ok" };
  }
}

/** Objects that the present step has behind it, and those that it has in all. */
export function progressOf({ counts, state, total }: ListedChangeSet): { done: number; of: number } {
  if (state === "planning") return { done: total - counts.waiting, of: total };
  const over = counts.done + counts.failed + counts.unknown;
  return { done: over, of: over + counts.planned + counts.applying };
}

/** The losses of a set, each as a sentence; none where nothing is lost. */
export function lossesOf({ totals }: ChangeSet): string[] {
  const { messages, entries, unknown, exact } = totals;
  const least = unknown.messages > 0 || !exact ? "at least " : "";
  const losses = [];
  if (messages > 0 || unknown.messages > 0)
    losses.push(
      `${least}${plural(messages, "unacknowledged message")} lost${
        unknown.messages > 0 ? `; not counted of ${count(unknown.messages)}` : ""
      }`,
    );
  else if (entries > 0) losses.push("messages lost, not counted");
  if (totals.bytes > 0) losses.push(`${bytes(totals.bytes)} deleted`);
  return losses;
}

/** Whether something is lost for good. */
export function isLosing(set: ChangeSet): boolean {
  return set.kind.startsWith("delete") || lossesOf(set).length > 0;
}

/** The effect of the change on an object. `ofFile`: on one that a file defines. */
export function effectOf({ effect }: Pick<ChangeItem, "effect">, ofFile = false): string {
  if (effect === null) return "—";
  const { messages, entries, bytes: size, clients, again, before, after } = effect as Record<string, unknown>;
  const parts = [];
  if (after !== undefined)
    parts.push(...(ofFile ? fieldsOf(before, after) : [`${shown(before)} → ${shown(after)}`]));
  if (messages === null) parts.push("messages lost, not counted");
  else if (typeof messages === "number" && messages > 0) parts.push(`${plural(messages, "message")} lost`);
  else if (typeof entries === "number" && entries > 0) parts.push("messages lost, not counted");
  if (typeof again === "number" && again > 0) parts.push(`${plural(again, "message")} again`);
  if (typeof size === "number" && size > 0) parts.push(`${bytes(size)} deleted`);
  if (typeof clients === "number" && clients > 0) parts.push(plural(clients, "client"));
  return parts.join(", ") || "nothing is lost";
}

/** The lines of one difference of a file to the cluster. */
export function differenceOf(
  exists: boolean,
  fields: readonly { field: string; before?: unknown; after?: unknown }[],
): string[] {
  const lines = fields.map(({ field, before, after }) =>
    exists ? `${field}: ${shown(before)} → ${shown(after)}` : `${field}: ${shown(after)}`,
  );
  return exists ? lines : ["to be created", ...lines];
}

function isFields(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Changed values in words: of a definition each field, of a policy its value. */
function fieldsOf(before: unknown, after: unknown): string[] {
  if (!isFields(after)) return [`${shown(before)} → ${shown(after)}`];
  if (!isFields(before)) return [["to be created", ...named(after)].join(", ")];
  return Object.keys(after).map((name) => `${name}: ${shown(before[name])} → ${shown(after[name])}`);
}

function named(fields: Record<string, unknown>): string[] {
  return Object.entries(fields).map(([name, value]) => `${name}: ${shown(value)}`);
}

function shown(value: unknown): string {
  return value === null || value === undefined ? "not set" : JSON.stringify(value);
}
