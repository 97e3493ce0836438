import type { Message } from "../../shared/messages/message";
import type { MessagesPage } from "./queries";

const LINE = 200;

const KINDS: Record<Message["kind"], string> = {
  message: "message",
  chunk: "chunk",
  encrypted: "encrypted",
  marker: "marker",
  damaged: "damaged",
};

/** The content of a position that has no whole message of its own. */
export function kindText({ kind, chunk, marker }: Message): string {
  if (chunk && kind === "message") return `message in ${chunk.size} chunks`;
  if (chunk) return `chunk ${chunk.index + 1} of ${chunk.size}`;
  return marker ?? KINDS[kind];
}

/** The beginning of a value for a list. */
export function firstLine({ value, kind, problem }: Message): string {
  if (problem) return problem;
  if (kind === "marker") return "of the brokers, no consumer receives it";
  if (value.form === "none") return "no value";
  const text = value.text.slice(0, LINE).replace(/\s+/g, " ");
  return value.cut || value.text.length > LINE ? `${text}…` : text;
}

export function stoppedText({ stopped, direction }: MessagesPage): string {
  switch (stopped) {
    case "limit":
      return "There are more.";
    case "end":
      return direction === "forward" ? "This was the newest message." : "This was the oldest message.";
    case "bytes":
      return "Stopped at the limit of bytes for one read.";
    case "time":
      return "Stopped at the time limit for one read.";
  }
}
