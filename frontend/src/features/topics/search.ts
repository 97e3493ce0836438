import * as z from "zod/mini";
import { searchText } from "../../lib/url-state";
import { LAG_CAUSES } from "../../shared/problems";

export const TOPIC_SORTS = [
  "topic",
  "tenant",
  "namespace",
  "producers",
  "consumers",
  "subscriptions",
  "partitions",
  "msg_rate_in",
  "msg_rate_out",
  "bytes_rate_in",
  "bytes_rate_out",
  "backlog",
  "oldest_age",
  "storage_bytes",
] as const;
export type TopicSort = (typeof TOPIC_SORTS)[number];

export type SortOrder = TopicSort | `-${TopicSort}`;

export const DEFAULT_SORT: SortOrder = "-backlog";

const sort = z.catch(
  z.optional(z.enum([...TOPIC_SORTS, ...TOPIC_SORTS.map((name) => `-${name}` as const)] as const)),
  undefined,
);
const domain = z.catch(z.optional(z.enum(["persistent", "non-persistent"])), undefined);

const attention = z.catch(z.optional(z.enum(["any", ...LAG_CAUSES])), undefined);

export const topicsSearch = z.object({
  q: searchText,
  tenant: searchText,
  namespace: searchText,
  domain,
  attention,
  older_s: searchText,
  sort,
  columns: searchText,
  act: z.catch(z.optional(z.literal("create")), undefined),
});
