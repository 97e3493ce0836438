import * as z from "zod/mini";
import { searchText } from "../../lib/url-state";

/** The places at which a list of messages begins. Without one it begins at the newest message, backwards. */
export const BEGINNINGS = [
  { value: "latest", label: "the newest" },
  { value: "earliest", label: "the oldest" },
  { value: "time", label: "a time" },
  { value: "position", label: "a position" },
  { value: "subscription", label: "where a subscription stands" },
] as const;
export type Beginning = (typeof BEGINNINGS)[number]["value"];

const moment = z.catch(z.optional(z.string().check(z.regex(/^\d{1,15}$/))), undefined);

const conditions = {
  key: searchText,
  producer: searchText,
  property: searchText,
  text: searchText,
  path: searchText,
  equals: searchText,
};

/** `rate`: messages shown a second. */
export const tailSearch = z.object({
  ...conditions,
  rate: z.catch(z.optional(z.string().check(z.regex(/^([1-9]\d?|100)$/))), undefined),
});
export type TailSearch = z.infer<typeof tailSearch>;
export type Conditions = Omit<TailSearch, "rate">;

export const messagesSearch = z.object({
  start: z.catch(z.optional(z.enum(["earliest", "latest"])), undefined),
  time: moment,
  position: searchText,
  subscription: searchText,
  direction: z.catch(z.optional(z.enum(["forward", "backward"])), undefined),
  /** The latest value of each key, in place of all messages. */
  compacted: z.catch(z.optional(z.enum(["true"])), undefined),
  ...conditions,
});
export type MessagesSearch = z.infer<typeof messagesSearch>;

export function beginningOf(search: MessagesSearch): Beginning {
  if (search.time !== undefined) return "time";
  if (search.position !== undefined) return "position";
  if (search.subscription !== undefined) return "subscription";
  return search.start ?? "latest";
}

/** The conditions that are set: what a page without a match is about. */
export function isFiltered({ key, producer, property, text, path }: Conditions): boolean {
  return [key, producer, property, text, path].some(Boolean);
}
