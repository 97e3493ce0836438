import * as z from "zod/mini";
import { searchText } from "../../lib/url-state";

export const LINK_SORTS = ["topic", "delay", "backlog", "msg_rate", "cause"] as const;
export type LinkSort = (typeof LINK_SORTS)[number];
export type LinkOrder = LinkSort | `-${LinkSort}`;
export const DEFAULT_ORDER: LinkOrder = "-delay";

export const linkSearch = z.object({
  q: searchText,
  cause: searchText,
  // "1": also topics that are not behind.
  all: z.catch(z.optional(z.literal("1")), undefined),
  sort: z.catch(
    z.optional(z.enum([...LINK_SORTS, ...LINK_SORTS.map((name) => `-${name}` as const)] as const)),
    undefined,
  ),
  offset: z.catch(z.optional(z.coerce.number().check(z.int(), z.minimum(0))), undefined),
});
