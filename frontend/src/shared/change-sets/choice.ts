import type { ListedRow } from "../../api/types";
import type { TopicId } from "../topic/queries";

export interface Choice {
  cluster: string;
  of: "topics" | "subscriptions";
  /** The filter of the list. */
  query: Record<string, string>;
  /** Rows that match; undefined while not known. */
  total: number | undefined;
  /** A topic of the list: the policies of topics are read there. */
  sample?: TopicId | undefined;
}

/** The filter of a list as the gateway reads it: without what is not given, all as texts. */
export function textsOf(filter: Record<string, string | number | undefined>): Record<string, string> {
  const given = Object.entries(filter).filter(([, value]) => value !== undefined && value !== "");
  return Object.fromEntries(given.map(([name, value]) => [name, String(value)]));
}

/** A topic that has policies; undefined for one that has none. */
export function sampleOf(cluster: string, row: ListedRow | undefined): TopicId | undefined {
  if (row?.domain !== "persistent") return undefined;
  const { domain, tenant, namespace, topic } = row;
  return { cluster, domain, tenant, namespace, topic };
}
