import { keepPreviousData, type QueryClient, queryOptions } from "@tanstack/react-query";
import { answerOf, api, given } from "../../api/client";
import type { components } from "../../api/schema";

type Schemas = components["schemas"];

export type TenantRow = Schemas["TenantRow"];
export type Namespace = Schemas["NamespaceAnswer"];
export type Policy = Schemas["PolicyRow"];
export type Part = Schemas["PolicyPart"];

export interface TenantId {
  cluster: string;
  tenant: string;
}
export interface NamespaceId extends TenantId {
  namespace: string;
}

/** Rows shown of a list; its filter finds the others. */
export const SHOWN = 200;
const REFRESH_MS = 10_000;
const ONE = "/api/v1/clusters/{cluster}/tenants/{tenant}/namespaces/{namespace}";

export function tenantsQuery(cluster: string, q: string) {
  return queryOptions({
    queryKey: ["tenants", cluster, "list", q],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/clusters/{cluster}/tenants", {
          params: { path: { cluster }, query: given({ q: q || undefined, limit: SHOWN }) },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
    refetchInterval: REFRESH_MS,
  });
}

export function namespacesQuery({ cluster, tenant }: TenantId, q: string) {
  return queryOptions({
    queryKey: ["tenants", cluster, "of", tenant, q],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/clusters/{cluster}/tenants/{tenant}/namespaces", {
          params: { path: { cluster, tenant }, query: given({ q: q || undefined, limit: SHOWN }) },
          signal,
        }),
      ),
    placeholderData: (before, query) => (query?.queryKey[3] === tenant ? before : undefined),
    refetchInterval: REFRESH_MS,
  });
}

export function namespaceQuery({ cluster, tenant, namespace }: NamespaceId) {
  return queryOptions({
    queryKey: ["tenants", cluster, "one", tenant, namespace],
    queryFn: ({ signal }) =>
      answerOf(api.GET(ONE, { params: { path: { cluster, tenant, namespace } }, signal })),
    refetchInterval: REFRESH_MS,
  });
}

/** All lists and pages of the cluster's tenants are asked for again. */
export function refreshTenants(client: QueryClient, cluster: string): Promise<void> {
  return client.invalidateQueries({ queryKey: ["tenants", cluster] });
}

export type TenantGiven = Schemas["TenantBodyRequest"];

export function createTenant(cluster: string, body: Schemas["NewTenantRequest"]): Promise<TenantRow> {
  return answerOf(api.POST("/api/v1/clusters/{cluster}/tenants", { params: { path: { cluster } }, body }));
}

export function updateTenant(path: TenantId, body: TenantGiven): Promise<TenantRow> {
  return answerOf(api.PUT("/api/v1/clusters/{cluster}/tenants/{tenant}", { params: { path }, body }));
}

export function deleteTenant(path: TenantId): Promise<unknown> {
  return answerOf(api.DELETE("/api/v1/clusters/{cluster}/tenants/{tenant}", { params: { path } }));
}

export function createNamespace(path: TenantId, body: Schemas["NewNamespaceRequest"]): Promise<Namespace> {
  return answerOf(
    api.POST("/api/v1/clusters/{cluster}/tenants/{tenant}/namespaces", { params: { path }, body }),
  );
}

export function deleteNamespace(path: NamespaceId): Promise<unknown> {
  return answerOf(api.DELETE(ONE, { params: { path } }));
}

/** Sets a policy, or removes it with null, as long as the namespace still says `expected` of it. */
export function setPolicy(
  path: NamespaceId,
  policy: string,
  body: { value: unknown; expected: unknown },
): Promise<Policy> {
  return answerOf(api.PUT(`${ONE}/policies/{policy}`, { params: { path: { ...path, policy } }, body }));
}
