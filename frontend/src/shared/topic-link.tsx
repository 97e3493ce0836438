import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { environmentQuery } from "../api/environment";
import { stringifySearch } from "../lib/url-state";

/** The cluster in the address, else the one this gateway serves. */
export function useCluster(): string {
  const { cluster } = useParams({ strict: false });
  const environment = useQuery(environmentQuery);
  return cluster ?? environment.data?.cluster ?? "standalone";
}

export interface TopicRef {
  domain: string;
  tenant: string;
  namespace: string;
  topic: string;
}

export type TopicTab = "overview" | "subscriptions" | "partitions" | "schema" | "policies";

export function topicSearchOf(topic: { domain: string }): { domain: "non-persistent" | undefined } {
  return { domain: topic.domain === "non-persistent" ? "non-persistent" : undefined };
}

/** Address of a topic's page. */
export function topicPagePath(cluster: string, topic: TopicRef, tab: TopicTab): string {
  const place = [topic.tenant, topic.namespace, topic.topic].map(encodeURIComponent).join("/");
  const search = stringifySearch(topicSearchOf(topic));
  return `/c/${encodeURIComponent(cluster)}/t/${place}/${tab}${search}`;
}

/** A topic's name as the link to its page, preceded by the dimmed scope. */
export function TopicLink({
  topic,
  scope = true,
  tab = "overview",
  tabIndex,
  children,
}: {
  topic: TopicRef;
  scope?: boolean;
  tab?: TopicTab;
  tabIndex?: number;
  children?: ReactNode; // instead of the name
}) {
  const cluster = useCluster();
  return (
    <Link
      to={`/c/$cluster/t/$tenant/$namespace/$topic/${tab}`}
      params={{ cluster, tenant: topic.tenant, namespace: topic.namespace, topic: topic.topic }}
      search={topicSearchOf(topic)}
      tabIndex={tabIndex}
      title={`${topic.domain}://${topic.tenant}/${topic.namespace}/${topic.topic}`}
      className="topic-link"
    >
      {children ?? (
        <>
          {scope && (
            <span className="topic-scope">
              {topic.tenant}/{topic.namespace}/
            </span>
          )}
          {topic.topic}
        </>
      )}
    </Link>
  );
}
