import { queryOptions } from "@tanstack/react-query";
import { answerOf, api } from "../../api/client";
import type { TopicRow } from "../../api/types";
import { parseTopicName } from "../../lib/url-state";

/** Whether a message arrived at a topic since the first observation of it. */
export interface Watched {
  /** Bytes stored at the first look; null while that is not known. */
  before: number | null;
  /** The time at which the first message was observed. */
  seenAt: number | null;
}

export const NOT_LOOKED: Watched = { before: null, seenAt: null };

/** After another look, at which the topic was `row`; undefined while there is no such topic. */
export function look(watched: Watched, row: TopicRow | undefined, at: number): Watched {
  if (watched.seenAt !== null) return watched;
  const bytes = row === undefined ? 0 : row.storage_bytes;
  const isFlowing = row !== undefined && row.msg_rate_in !== null && row.msg_rate_in > 0;
  if (isFlowing || (watched.before !== null && bytes !== null && bytes > watched.before))
    return { ...watched, seenAt: at };
  return watched.before === null ? { ...watched, before: bytes } : watched;
}

const NO_TOPIC = { tenant: "", namespace: "", topic: "" };

/** Parameters of the list of topics that has this one in it, if it is there. */
export function listOf(topic: string) {
  const { tenant, namespace, topic: q } = parseTopicName(`persistent://${topic}`) ?? NO_TOPIC;
  return { tenant, namespace, q, domain: "persistent" as const, sort: "topic", offset: 0, limit: 100 };
}

export function firstMessageQuery(cluster: string, topic: string) {
  return queryOptions({
    queryKey: ["first-message", cluster, topic],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/clusters/{cluster}/topics", {
          params: { path: { cluster }, query: listOf(topic) },
          signal,
        }),
      ),
  });
}

export function rowOf(rows: readonly TopicRow[], topic: string): TopicRow | undefined {
  return rows.find((row) => `${row.tenant}/${row.namespace}/${row.topic}` === topic);
}
