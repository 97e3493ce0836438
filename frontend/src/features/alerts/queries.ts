import { queryOptions } from "@tanstack/react-query";
import { answerOf, api, given, rowsOf } from "../../api/client";
import type { components } from "../../api/schema";
import type { AlertPlace } from "../../shared/commands/alert-commands";
import type { Sort } from "../../ui/grid/sorting";

type Schemas = components["schemas"];
export type Firing = Schemas["FiringRow"];
export type Rule = Schemas["RuleRow"];
export type RuleBody = Schemas["RuleBodyRequest"];
export type Condition = Schemas["ConditionRequest"];
export type Channel = Schemas["ChannelRow"];
export type ChannelBody = Schemas["ChannelBodyRequest"];
export type Silence = Schemas["SilenceRow"];
export type SilenceBody = Schemas["SilenceBodyRequest"];
export type RulePreview = Schemas["PreviewAnswer"];

const REFRESH_MS = 3_000;
const BASE = "/api/v1/clusters/{cluster}/alerts";
export const PER_PAGE = 50;
export const FIRING_SORTS = ["since", "began_at", "ended_at", "rule"] as const;
export const SEVERITIES = ["error", "warning", "info"] as const satisfies readonly Firing["severity"][];
export const RULE_SORTS = ["name", "created_at", "changed_at", "created_by", "enabled"] as const;
export type RuleSort = Sort<(typeof RULE_SORTS)[number]>;
export interface FiringFilter {
  state: "open" | "ended";
  q: string | undefined;
  severity: Firing["severity"] | undefined;
  sort: Sort<(typeof FIRING_SORTS)[number]>;
  page: number;
}

/** The parameters of a call: the cluster, and the tenant if the rows are of one. */
export const paramsOf = ({ cluster, tenant }: AlertPlace) => ({
  path: { cluster },
  query: given({ tenant: tenant || undefined }),
});
export const paramsOfRow = (place: AlertPlace, row_id: number) => {
  const { path, query } = paramsOf(place);
  return { path: { ...path, row_id }, query };
};

export const firingsQuery = (place: AlertPlace, { page, ...filter }: FiringFilter) =>
  queryOptions({
    queryKey: ["alerts", place, "firings", filter, page],
    queryFn: ({ signal }) => {
      const { path, query } = paramsOf(place);
      const params = { path, query: given({ ...query, ...filter, ...rowsOf(page, PER_PAGE) }) };
      return answerOf(api.GET(`${BASE}/firings`, { params, signal }));
    },
    refetchInterval: REFRESH_MS,
  });

/** All rules: there are at most as many as the interface's default of a page. */
export const rulesQuery = (place: AlertPlace, sort: RuleSort = "name") =>
  queryOptions({
    queryKey: ["alerts", place, "rules", sort],
    queryFn: ({ signal }) => {
      const { path, query } = paramsOf(place);
      return answerOf(api.GET(`${BASE}/rules`, { params: { path, query: { ...query, sort } }, signal }));
    },
    refetchInterval: REFRESH_MS,
  });

export const channelsQuery = (place: AlertPlace) =>
  queryOptions({
    queryKey: ["alerts", place, "channels"],
    queryFn: ({ signal }) => answerOf(api.GET(`${BASE}/channels`, { params: paramsOf(place), signal })),
    refetchInterval: REFRESH_MS,
  });

export const silencesQuery = (place: AlertPlace) =>
  queryOptions({
    queryKey: ["alerts", place, "silences"],
    queryFn: ({ signal }) => answerOf(api.GET(`${BASE}/silences`, { params: paramsOf(place), signal })),
    refetchInterval: REFRESH_MS,
  });

export const previewRule = (place: AlertPlace, body: { definition: Condition; for_s: number }) =>
  answerOf(api.POST(`${BASE}/preview`, { params: paramsOf(place), body }));

export const saveRule = (place: AlertPlace, id: number | null, body: RuleBody) =>
  id === null
    ? answerOf(api.POST(`${BASE}/rules`, { params: paramsOf(place), body }))
    : answerOf(api.PUT(`${BASE}/rules/{row_id}`, { params: paramsOfRow(place, id), body }));

export const deleteRule = (place: AlertPlace, id: number) =>
  answerOf(api.DELETE(`${BASE}/rules/{row_id}`, { params: paramsOfRow(place, id) }));

export const saveChannel = (place: AlertPlace, id: number | null, body: ChannelBody) =>
  id === null
    ? answerOf(api.POST(`${BASE}/channels`, { params: paramsOf(place), body }))
    : answerOf(api.PUT(`${BASE}/channels/{row_id}`, { params: paramsOfRow(place, id), body }));

export const deleteChannel = (place: AlertPlace, id: number) =>
  answerOf(api.DELETE(`${BASE}/channels/{row_id}`, { params: paramsOfRow(place, id) }));

export const testChannel = (place: AlertPlace, id: number) =>
  answerOf(api.POST(`${BASE}/channels/{row_id}/test`, { params: paramsOfRow(place, id) }));

export const acknowledge = (place: AlertPlace, id: number, note: string) =>
  answerOf(
    api.POST(`${BASE}/firings/{row_id}/acknowledge`, { params: paramsOfRow(place, id), body: { note } }),
  );

export const silence = (place: AlertPlace, body: SilenceBody) =>
  answerOf(api.POST(`${BASE}/silences`, { params: paramsOf(place), body }));

export const endSilence = (place: AlertPlace, id: number) =>
  answerOf(api.DELETE(`${BASE}/silences/{row_id}`, { params: paramsOfRow(place, id) }));
