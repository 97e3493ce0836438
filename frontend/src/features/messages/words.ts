import { count, plural } from "../../lib/format";
import type { Message } from "../../shared/messages/message";
import type { MessagesPage } from "./queries";

export type MessageChunks = NonNullable<Message["chunks"]>;

const LINE = 200;
const NAMED_MAX = 20;

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

/** Chunks are counted from 1 for people. */
export const chunkNumber = (index: number) => count(index + 1);

/** The chunks that were not found, by number. */
export function missingText({ missing, size }: MessageChunks): string {
  const named = missing.slice(0, NAMED_MAX).map(chunkNumber).join(", ");
  const more = missing.length > NAMED_MAX ? ` and ${count(missing.length - NAMED_MAX)} more` : "";
  return `${named}${more} of ${count(size)}`;
}

/** The reason why the message of a chunk is not shown as a whole. */
export function lackText(chunks: MessageChunks): string {
  const { missing, size, unread, begun_again, is_large } = chunks;
  const which = missingText(chunks);
  if (begun_again !== null)
    return `Its producer did not send chunk ${which} here. It sent the whole message again, and clients receive that one.`;
  if (missing.length > 0)
    return unread === null
      ? `The message is not complete: chunk ${which} is not stored. No client receives it.`
      : `The message is not shown as a whole: chunk ${which} was not found.`;
  if (is_large) return `The message of ${plural(size, "chunk")} is too large to be shown as a whole.`;
  return "Its chunks are not stored in their order: no client receives it.";
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
