import { answerOf, api } from "../../api/client";
import type { components } from "../../api/schema";
import { MESSAGES, type Message } from "../../shared/messages/message";
import type { TopicId } from "../../shared/topic/queries";

type Schemas = components["schemas"];
export type GivenMessage = Schemas["GivenMessageShapeRequest"];
export type PublishPreview = Schemas["PublishPreview"];
export type PublishReceipt = Schemas["PublishReceipt"];
/** The messages of a request: those of the form, or lines of JSON. */
export type Given = { messages: GivenMessage[] } | { lines: string[] };

/** `schema` null: the newest version. */
function ask(id: TopicId, given: Given, schema: number | null, preview: boolean) {
  const body = { ...given, schema_version: schema, preview };
  return answerOf(api.POST(MESSAGES, { params: { path: { ...id } }, body }));
}

export const check = (id: TopicId, given: Given, schema: number | null) =>
  ask(id, given, schema, true) as Promise<PublishPreview>;
export const publish = (id: TopicId, given: Given, schema: number | null) =>
  ask(id, given, schema, false) as Promise<PublishReceipt>;

export interface Line {
  /** From 1, as editors count them. */
  number: number;
  text: string;
}

const LINES_MAX = 500;
const CHARACTERS_MAX = 300_000;

/** The lines of a file that are not empty. */
export function linesOf(text: string): Line[] {
  return text
    .split("\n")
    .map((line, index) => ({ number: index + 1, text: line.trim() }))
    .filter((line) => line.text !== "");
}

/** Lines in runs that a request holds. A line that no request holds is alone: it is refused, and named. */
export function runsOf(lines: Line[]): Line[][] {
  const runs: Line[][] = [];
  let size = Number.POSITIVE_INFINITY;
  for (const line of lines) {
    const run = runs.at(-1);
    if (run === undefined || run.length >= LINES_MAX || size + line.text.length > CHARACTERS_MAX) {
      runs.push([line]);
      size = line.text.length;
    } else {
      run.push(line);
      size += line.text.length;
    }
  }
  return runs;
}

export const VALUE_FORMS = [
  { value: "text", label: "text, by the schema" },
  { value: "base64", label: "bytes, in base64" },
  { value: "none", label: "none (deletes its key)" },
] as const;
export type ValueForm = (typeof VALUE_FORMS)[number]["value"];

export const DELIVERIES = [
  { value: "now", label: "at once" },
  { value: "after", label: "after a delay" },
  { value: "at", label: "at a time" },
] as const;
export type Delivery = (typeof DELIVERIES)[number]["value"];

/** The fields of the form, as texts. */
export interface Draft {
  form: ValueForm;
  value: string;
  key: string;
  keyIsBase64: boolean;
  orderingKey: string | null;
  properties: string;
  /** Epoch milliseconds; null: none. */
  event: number | null;
  delivery: Delivery;
  seconds: string;
  at: number | null;
}

export const EMPTY: Draft = {
  form: "text",
  value: "",
  key: "",
  keyIsBase64: false,
  orderingKey: null,
  properties: "",
  event: null,
  delivery: "now",
  seconds: "60",
  at: null,
};

/** The draft that sends a stored message again. `base64`: its stored value, where it is no text. */
export function draftOf(message: Message, base64: string | null): Draft {
  const form = message.value.form === "none" ? "none" : base64 === null ? "text" : "base64";
  return {
    ...EMPTY,
    form,
    value: base64 ?? (form === "none" ? "" : message.value.text),
    key: message.key ?? "",
    keyIsBase64: message.key_is_base64,
    orderingKey: message.ordering_key,
    properties: Object.entries(message.properties)
      .map(([name, value]) => `${name}=${value}`)
      .join("\n"),
    event: message.event,
  };
}

/** The message of a draft, whose properties were read from its lines. */
export function messageOf(draft: Draft, properties: Record<string, string>): GivenMessage {
  return {
    ...(draft.form === "base64"
      ? { value_base64: draft.value }
      : { value: draft.form === "none" ? null : draft.value }),
    ...(draft.key === "" ? {} : { key: draft.key }),
    ...(draft.key !== "" && draft.keyIsBase64 ? { key_is_base64: true } : {}),
    ...(draft.orderingKey === null ? {} : { ordering_key: draft.orderingKey }),
    ...(Object.keys(properties).length > 0 ? { properties } : {}),
    ...(draft.event === null ? {} : { event_time: draft.event }),
    ...(draft.delivery === "after" ? { deliver_after_ms: Math.round(Number(draft.seconds) * 1000) } : {}),
    ...(draft.delivery === "at" && draft.at !== null ? { deliver_at: draft.at } : {}),
  };
}
