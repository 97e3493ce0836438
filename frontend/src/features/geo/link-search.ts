import * as z from "zod/mini";
import { listSearch, searchText } from "../../lib/url-state";

export const LINK_SORTS = ["topic", "delay", "backlog", "msg_rate", "cause"] as const;

export const linkSearch = z.object({
  q: searchText,
  cause: searchText,
  // "1": also topics that are not behind.
  all: z.catch(z.optional(z.literal("1")), undefined),
  ...listSearch,
});
