import { queryOptions } from "@tanstack/react-query";
import { answerOf, api, given } from "../../api/client";
import type { components } from "../../api/schema";
import type { Place } from "./may";

type Schemas = components["schemas"];

export type AccessRow = Schemas["RoleAccessRow"];
export type ActionAllowed = Schemas["ActionAllowed"];
export type GrantRow = Schemas["GrantRow"];
export type GrantWord = GrantRow["words"][number];
export type GrantBody = Required<Pick<Schemas["GrantBodyRequest"], "role" | "words">> & {
  subscription?: string;
};
export type GrantPreview = Schemas["GrantPreview"];
export type GrantReceipt = Schemas["GrantReceipt"];

const REFRESH_MS = 10_000;

export function accessQuery(cluster: string, place: Place) {
  return queryOptions({
    queryKey: ["access", cluster, place],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/clusters/{cluster}/access", {
          params: { path: { cluster }, query: given(place) },
          signal,
        }),
      ),
    refetchInterval: REFRESH_MS,
  });
}

export function grantsQuery(cluster: string, place: Place) {
  return queryOptions({
    queryKey: ["grants", cluster, place],
    queryFn: async ({ signal }) =>
      (
        await answerOf(
          api.GET("/api/v1/clusters/{cluster}/grants", {
            params: { path: { cluster }, query: given(place) },
            signal,
          }),
        )
      ).rows,
    refetchInterval: REFRESH_MS,
  });
}

function send<Answer>(
  cluster: string,
  place: Place,
  body: Partial<Schemas["GrantBodyRequest"]>,
): Promise<Answer> {
  return answerOf(
    api.POST("/api/v1/clusters/{cluster}/grants", {
      params: { path: { cluster }, query: given(place) },
      body: body as Schemas["GrantBodyRequest"],
    }),
  ) as Promise<Answer>;
}

export function previewGrant(cluster: string, place: Place, body: GrantBody): Promise<GrantPreview> {
  return send(cluster, place, { preview: true, ...body });
}

export function applyGrant(cluster: string, place: Place, token: string): Promise<GrantReceipt> {
  return send(cluster, place, { token });
}
