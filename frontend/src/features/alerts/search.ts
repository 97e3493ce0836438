import * as z from "zod/mini";
import { listSearch, searchText } from "../../lib/url-state";

export const TABS = ["firing", "history", "rules", "channels", "silences"] as const;
export type Tab = (typeof TABS)[number];

export const alertSearch = z.object({
  tab: z.catch(z.optional(z.enum(TABS)), undefined),
  /** The tenant of the rows; without it those of the cluster. */
  tenant: searchText,
  /** An item that needs attention: a rule or a silence about it is begun. */
  cause: searchText,
  scope: searchText,
  subscription: searchText,
  q: searchText,
  severity: searchText,
  ...listSearch,
});
