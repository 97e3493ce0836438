import { queryOptions } from "@tanstack/react-query";
import { learnServerTime } from "../lib/clock";
import { answerOf, api } from "./client";

export const environmentQuery = queryOptions({
  queryKey: ["environment"],
  queryFn: async ({ signal }) => {
    const environment = await answerOf(api.GET("/api/v1/environment", { signal }));
    learnServerTime(environment.now);
    return environment;
  },
  staleTime: 60_000,
  refetchInterval: 60_000,
});
