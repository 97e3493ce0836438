import { queryOptions } from "@tanstack/react-query";
import { answerOf, api } from "../../api/client";

export const overviewQuery = queryOptions({
  queryKey: ["overview"],
  queryFn: ({ signal }) => answerOf(api.GET("/api/v1/overview", { signal })),
});

/** The quarter of an hour before this page: read once, the live points continue it. */
export const overviewHistoryQuery = queryOptions({
  queryKey: ["overview-history"],
  queryFn: ({ signal }) => answerOf(api.GET("/api/v1/overview/history", { signal })),
  staleTime: Number.POSITIVE_INFINITY,
  retry: false,
});
