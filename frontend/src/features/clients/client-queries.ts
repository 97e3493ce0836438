import { queryOptions } from "@tanstack/react-query";
import { answerOf, api, given } from "../../api/client";
import type { components, operations } from "../../api/schema";
import type { Params } from "../../api/socket";
import { type ListSource, PAGE_ROWS } from "../../shared/lists/use-list-window";

type Schemas = components["schemas"];
export type Client = Schemas["ConnectionRow"];
export type ClientsPageAnswer = Schemas["ConnectionsAnswer"];
export type ClientDetail = Schemas["ConnectionDetail"];
export type ClientGroup = Schemas["ConnectionGroup"];
export type DisconnectPreview = Schemas["DisconnectClientPreview"];
export type DisconnectReceipt = Schemas["DisconnectClientReceipt"];

type Query = NonNullable<operations["listConnections"]["parameters"]["query"]>;
export type Grouping = NonNullable<Query["group"]>;

export interface ClientFilter extends Params {
  cluster: string;
  q?: string | undefined;
  library?: string | undefined;
  version?: string | undefined;
  role?: string | undefined;
  application?: string | undefined;
  broker?: string | undefined;
  host?: string | undefined;
  proxy?: Query["proxy"] | undefined;
  kind?: Query["kind"] | undefined;
  group?: Grouping | undefined;
  sort?: string | undefined;
}

export const CLIENT_LIST: ListSource<ClientFilter, ClientsPageAnswer> = {
  channel: "connections",
  key: (filter, offset) => ["clients", filter, offset],
  read: ({ cluster, ...rest }, offset, signal) =>
    answerOf(
      api.GET("/api/v1/clusters/{cluster}/connections", {
        params: { path: { cluster }, query: given({ ...rest, offset, limit: PAGE_ROWS }) },
        signal,
      }),
    ),
};

export interface ClientPlace {
  cluster: string;
  broker: string;
  connection: string;
}

export function clientQuery(path: ClientPlace) {
  return queryOptions({
    queryKey: ["client", path],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/clusters/{cluster}/connections/{broker}/{connection}", { params: { path }, signal }),
      ),
    refetchInterval: 5_000,
    retry: false,
  });
}

const DISCONNECT = "/api/v1/clusters/{cluster}/connections/{broker}/{connection}/disconnect";

export function previewDisconnect(path: ClientPlace): Promise<DisconnectPreview> {
  const body = { preview: true };
  return answerOf(api.POST(DISCONNECT, { params: { path }, body })) as Promise<DisconnectPreview>;
}

/** The previewed connection that belongs to this token, and no other. */
export function applyDisconnect(path: ClientPlace, token: string): Promise<DisconnectReceipt> {
  const body = { preview: false, token };
  return answerOf(api.POST(DISCONNECT, { params: { path }, body })) as Promise<DisconnectReceipt>;
}
