import { queryOptions } from "@tanstack/react-query";
import { answerOf, api } from "../../api/client";

export interface TopicId {
  cluster: string;
  domain: "persistent" | "non-persistent";
  tenant: string;
  namespace: string;
  topic: string;
}

export function topicQuery(id: TopicId) {
  return queryOptions({
    queryKey: ["topic", id.cluster, id.domain, id.tenant, id.namespace, id.topic],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/clusters/{cluster}/topics/{domain}/{tenant}/{namespace}/{topic}", {
          params: { path: { ...id } },
          signal,
        }),
      ),
  });
}
