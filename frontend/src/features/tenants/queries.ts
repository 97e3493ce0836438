import { keepPreviousData, type QueryClient, queryOptions } from "@tanstack/react-query";
import { answerOf, api, given, rowsOf } from "../../api/client";
import type { components } from "../../api/schema";
import type { NamespaceId, Policy } from "../../shared/policies/policy-queries";
import type { Properties } from "../../shared/properties/property-lines";
import type { Sort } from "../../ui/grid/sorting";

type Schemas = components["schemas"];

export type TenantRow = Schemas["TenantRow"];
export type ListedTenant = Schemas["ListedTenant"];
export type NamespaceRow = Schemas["NamespaceRow"];
export type TenantNumbers = Schemas["TenantNumbersShape"];
export type Namespace = Schemas["NamespaceAnswer"];

export interface TenantId {
  cluster: string;
  tenant: string;
}

export const TENANT_SORTS = [
  "name",
  "topics",
  "backlog",
  "oldest_age",
  "msg_rate_in",
  "msg_rate_out",
  "storage_bytes",
] as const;
export type TenantField = (typeof TENANT_SORTS)[number];
type TenantSort = Sort<TenantField>;
export const PER_PAGE = 100;
const REFRESH_MS = 10_000;
const ONE = "/api/v1/clusters/{cluster}/tenants/{tenant}/namespaces/{namespace}";

export function tenantsQuery(cluster: string, q: string, sort: TenantSort = "name", page = 1) {
  return queryOptions({
    queryKey: ["tenants", cluster, "list", q, sort, page],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/clusters/{cluster}/tenants", {
          params: { path: { cluster }, query: given({ q: q || undefined, sort, ...rowsOf(page, PER_PAGE) }) },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
    refetchInterval: REFRESH_MS,
  });
}

export function namespacesQuery(
  { cluster, tenant }: TenantId,
  q: string,
  sort: TenantSort = "name",
  page = 1,
) {
  return queryOptions({
    queryKey: ["tenants", cluster, "of", tenant, q, sort, page],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/clusters/{cluster}/tenants/{tenant}/namespaces", {
          params: {
            path: { cluster, tenant },
            query: given({ q: q || undefined, sort, ...rowsOf(page, PER_PAGE) }),
          },
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

/** Requests all lists and pages of the cluster's tenants again. */
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

/** Stores this row in the page of the namespace, and requests everything of its tenants again. */
export function putPolicy(client: QueryClient, id: NamespaceId, row: Policy): void {
  client.setQueryData(
    namespaceQuery(id).queryKey,
    (before) =>
      before && { ...before, policies: before.policies.map((one) => (one.name === row.name ? row : one)) },
  );
  refreshTenants(client, id.cluster);
}

/** Has the namespace the properties `value`, as long as it has `expected`. */
export function setProperties(path: NamespaceId, value: Properties, expected: Properties) {
  return answerOf(api.PUT(`${ONE}/properties`, { params: { path: { ...path } }, body: { value, expected } }));
}
