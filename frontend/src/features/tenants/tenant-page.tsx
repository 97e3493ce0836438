import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { count } from "../../lib/format";
import { useWhyNot } from "../../shared/access/may";
import { AnalyseLink } from "../../shared/analyses/analyse-link";
import { ActionButton } from "../../ui/action-button";
import { Badge } from "../../ui/badge";
import { FilterInput } from "../../ui/filter-input";
import { Pages } from "../../ui/grid/pages";
import { Table } from "../../ui/grid/table";
import { useOrder } from "../../ui/grid/use-order";
import { Crumb, Page, PageHead, Panel } from "../../ui/panel";
import { Empty } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import { NamespaceDeletion, TenantDeletion } from "./deletions";
import { Listing, ReadAt } from "./listing";
import { NamespaceDialog } from "./namespace-dialog";
import { type NamespaceRow, namespacesQuery, PER_PAGE, TENANT_SORTS } from "./queries";
import { Quota } from "./quota";
import { sumColumns } from "./sums";
import { TenantDialog } from "./tenant-dialog";
import styles from "./tenants.module.css";

const AccessPanel = lazy(() =>
  import("../../shared/access/access-panel").then((module) => ({ default: module.AccessPanel })),
);
const route = getRouteApi("/c/$cluster/tenants/$tenant");
type Open = { dialog: "create" | "change" | "delete" } | { dialog: "finish"; namespace: string } | null;

export function TenantPage() {
  const id = route.useParams();
  useTitle(id.tenant);
  const { q = "" } = route.useSearch();
  const { sort, page, show, by, turning } = useOrder(TENANT_SORTS, "name");
  const navigate = useNavigate({ from: "/c/$cluster/tenants/$tenant" });
  const list = useQuery(namespacesQuery(id, q, sort, page));
  const [open, setOpen] = useState<Open>(null);
  const whyNot = useWhyNot(id.cluster, { tenant: id.tenant });
  const close = () => setOpen(null);
  const tenant = list.data?.tenant;
  const rows = list.data?.rows ?? [];
  return (
    <Page>
      <PageHead
        crumbs={
          <Crumb>
            <Link to="/c/$cluster/tenants" params={{ cluster: id.cluster }}>
              Tenants
            </Link>
          </Crumb>
        }
        title={id.tenant}
        badges={tenant?.allowed_clusters.map((one) => <Badge key={one}>{one}</Badge>)}
        freshness={<ReadAt at={list.dataUpdatedAt} failed={list.isError} />}
        actions={
          <>
            <AnalyseLink place={{ tenant: id.tenant }}>Analyse</AnalyseLink>
            <ActionButton
              variant="default"
              disabled={!tenant}
              why={whyNot("deleteTenant")}
              onClick={() => setOpen({ dialog: "delete" })}
            >
              Delete…
            </ActionButton>
            <ActionButton
              variant="default"
              disabled={!tenant}
              why={whyNot("updateTenant")}
              onClick={() => setOpen({ dialog: "change" })}
            >
              Change…
            </ActionButton>
            <ActionButton
              disabled={!tenant}
              why={whyNot("createNamespace")}
              onClick={() => setOpen({ dialog: "create" })}
            >
              New namespace…
            </ActionButton>
          </>
        }
      />
      {tenant && (
        <p className={styles.dim}>
          {tenant.admin_roles.length > 0
            ? `Administered by ${tenant.admin_roles.join(", ")}`
            : "Administered by superusers only"}
        </p>
      )}
      <Panel
        title="Namespaces"
        note={tenant && count(tenant.namespaces)}
        flush
        actions={
          <>
            <Pages {...turning} total={list.data?.total} per={PER_PAGE} />
            <FilterInput
              label="Part of the name"
              value={q}
              write={(value, replace) => show({ q: value || undefined }, replace)}
            />
          </>
        }
      >
        <Listing answered={list} what="namespace" total={list.data?.total}>
          <Table
            caption={`Namespaces of ${id.tenant}`}
            rows={rows}
            rowKey={(row) => row.name}
            empty={<Empty title={q ? "No namespace matches" : "No namespace yet"} />}
            columns={[
              {
                ...by("name"),
                key: "name",
                header: "Namespace",
                grow: true,
                cell: (row) =>
                  row.deleting ? (
                    <>
                      {row.name} <Badge tone="warn">deletion not completed</Badge>{" "}
                      <Button
                        variant="default"
                        size="compact-xs"
                        onClick={() => setOpen({ dialog: "finish", namespace: row.name })}
                      >
                        Delete…
                      </Button>
                    </>
                  ) : (
                    <Link
                      to="/c/$cluster/tenants/$tenant/$namespace"
                      params={{ ...id, namespace: row.name }}
                      className="topic-link"
                      title={`${id.tenant}/${row.name}`}
                    >
                      {row.name}
                    </Link>
                  ),
              },
              {
                key: "topics",
                header: "Stored topics",
                numeric: true,
                cell: (row) => (
                  <Link
                    to="/c/$cluster/topics"
                    params={{ cluster: id.cluster }}
                    search={{ tenant: id.tenant, namespace: row.name }}
                    aria-label={`Stored topics of ${row.name}: ${row.topics}`}
                    className={styles.number ?? ""}
                  >
                    {count(row.topics)}
                  </Link>
                ),
              },
              ...sumColumns<NamespaceRow>(by),
              { key: "quota", header: "Quota used", numeric: true, cell: (row) => <Quota of={row.quotas} /> },
              { key: "policies", header: "Policies set", numeric: true, cell: (row) => count(row.policies) },
            ]}
          />
        </Listing>
      </Panel>
      {tenant && (
        <Suspense>
          <AccessPanel cluster={id.cluster} place={{ tenant: id.tenant }} />
        </Suspense>
      )}
      {open?.dialog === "create" && (
        <NamespaceDialog
          id={id}
          onClose={close}
          onDone={(made) =>
            navigate({
              to: "/c/$cluster/tenants/$tenant/$namespace",
              params: { ...id, namespace: made.name },
            })
          }
        />
      )}
      {open?.dialog === "change" && tenant && (
        <TenantDialog cluster={id.cluster} tenant={tenant} onClose={close} onDone={close} />
      )}
      {open?.dialog === "delete" && (
        <TenantDeletion
          id={id}
          onClose={close}
          onDone={() => navigate({ to: "/c/$cluster/tenants", params: { cluster: id.cluster } })}
        />
      )}
      {open?.dialog === "finish" && (
        <NamespaceDeletion
          id={{ ...id, namespace: open.namespace }}
          deleting
          onClose={close}
          onDone={close}
        />
      )}
    </Page>
  );
}
