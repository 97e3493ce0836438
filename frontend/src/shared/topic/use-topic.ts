import { type UseQueryResult, useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo } from "react";
import { useLive, usePolling } from "../../api/live";
import type { TopicDetail } from "../../api/types";
import { type TopicId, topicQuery } from "./queries";

const route = getRouteApi("/c/$cluster/t/$tenant/$namespace/$topic");

/** The topic in the address. */
export function useTopicId(): TopicId {
  const { cluster, tenant, namespace, topic } = route.useParams();
  const { domain } = route.useSearch();
  return useMemo(
    () => ({ cluster, domain: domain ?? "persistent", tenant, namespace, topic }),
    [cluster, domain, tenant, namespace, topic],
  );
}

export function nameOf(id: TopicId): string {
  return `${id.domain}://${id.tenant}/${id.namespace}/${id.topic}`;
}

export function useTopic(id: TopicId): UseQueryResult<TopicDetail> {
  return useQuery({ ...topicQuery(id), refetchInterval: usePolling() });
}

export function useLiveTopic(id: TopicId): void {
  useLive("topic", { ...id }, topicQuery(id).queryKey);
}
