import { queryOptions } from "@tanstack/react-query";
import { learnServerTime } from "../lib/clock";
import { ApiError } from "../lib/errors";
import { answerOf, api, given } from "./client";
import { pageCluster } from "./page-cluster";
import { session } from "./session/session";

function environmentOf(cluster: string | undefined, signal: AbortSignal) {
  const query = given({ cluster });
  return answerOf(api.GET("/api/v1/environment", { params: { query }, signal }));
}

export const environmentQuery = queryOptions({
  queryKey: ["environment"],
  queryFn: async ({ signal }) => {
    const environment = await environmentOf(pageCluster, signal).catch((error) => {
      // The gateway does not serve the cluster in the address: the pages say which it serves.
      if (pageCluster !== undefined && error instanceof ApiError && error.status === 404)
        return environmentOf(undefined, signal);
      throw error;
    });
    learnServerTime(environment.now);
    if (environment.authentication && session.view.session === null) void session.refresh();
    return environment;
  },
  staleTime: 60_000,
  refetchInterval: 60_000,
});
