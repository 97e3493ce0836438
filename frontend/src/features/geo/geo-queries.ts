import { queryOptions } from "@tanstack/react-query";
import { answerOf, api, given, rowsOf } from "../../api/client";
import type { components } from "../../api/schema";
import { ApiError } from "../../lib/errors";

type Schemas = components["schemas"];

/** The ends of links that one cluster has. */
export type Ends = Schemas["GeoAnswer"];
export type End = Schemas["LinkRow"];
export type LinkAnswer = Schemas["LinkAnswer"];
export type LinkTopic = Schemas["LinkTopicRow"];

export interface LinkFilter {
  cluster: string;
  remote: string;
  q?: string | undefined;
  cause?: string | undefined;
  all?: string | undefined;
  sort?: string | undefined;
  page: number;
}

export const PAGE_ROWS = 100;

export function endsQuery(cluster: string) {
  return queryOptions({
    queryKey: ["geo", cluster],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/api/v1/clusters/{cluster}/geo", { params: { path: { cluster } }, signal })),
    // A cluster that this gateway does not serve, or that the user may not see, stays so.
    retry: (times, error) => times < 2 && !(error instanceof ApiError && error.isRefusal),
  });
}

/** The parameters of a page of the topics, as the call and the channel have them. */
export function windowOf({ page, ...filter }: LinkFilter) {
  return { ...filter, ...rowsOf(page, PAGE_ROWS) };
}

export function linkQuery(filter: LinkFilter) {
  const { cluster, remote, ...rest } = windowOf(filter);
  return queryOptions({
    queryKey: ["link", cluster, remote, rest],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/clusters/{cluster}/geo/links/{remote}", {
          params: { path: { cluster, remote }, query: given(rest) },
          signal,
        }),
      ),
  });
}
