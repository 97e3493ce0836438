import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { count } from "../../lib/format";
import { useMayRead, useWhyNot } from "../../shared/access/may";
import { ActionButton } from "../../ui/action-button";
import { FilterInput } from "../../ui/filter-input";
import { Pages } from "../../ui/grid/pages";
import { Table } from "../../ui/grid/table";
import { useOrder } from "../../ui/grid/use-order";
import { Page, PageHead, Panel } from "../../ui/panel";
import { Empty } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import { Listing, ReadAt } from "./listing";
import { type ListedTenant, PER_PAGE, TENANT_SORTS, tenantsQuery } from "./queries";
import { sumColumns } from "./sums";
import { TenantDialog } from "./tenant-dialog";
import styles from "./tenants.module.css";

const route = getRouteApi("/c/$cluster/tenants");

export function TenantsPage() {
  useTitle("Tenants");
  const { cluster } = route.useParams();
  const { q = "", act } = route.useSearch();
  const { sort, page, show, by, turning } = useOrder(TENANT_SORTS, "name");
  const navigate = useNavigate({ from: "/c/$cluster/tenants" });
  const list = useQuery(tenantsQuery(cluster, q, sort, page));
  const setCreating = (open: boolean) =>
    navigate({
      search: (before) => ({ ...before, act: open ? ("create" as const) : undefined }),
      replace: !open,
    });
  const rows = list.data?.rows ?? [];
  const whyNot = useWhyNot(cluster, {});
  const seesAll = useMayRead(cluster, "listBrokers");
  return (
    <Page>
      <PageHead
        title="Tenants"
        badges={list.data && <span className={styles.dim}>{count(list.data.total)}</span>}
        freshness={<ReadAt at={list.dataUpdatedAt} failed={list.isError} />}
        actions={
          <ActionButton why={whyNot("createTenant")} onClick={() => setCreating(true)}>
            New tenant…
          </ActionButton>
        }
      />
      <Panel
        title="All tenants"
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
        <Listing answered={list} what="tenant" total={list.data?.total}>
          <Table
            caption="Tenants"
            rows={rows}
            rowKey={(row) => row.name}
            empty={
              <Empty
                title={q ? "No tenant matches" : seesAll ? "No tenant yet" : "No tenant that you may see"}
              />
            }
            columns={[
              {
                ...by("name"),
                key: "name",
                header: "Tenant",
                grow: true,
                cell: (row) => (
                  <Link
                    to="/c/$cluster/tenants/$tenant"
                    params={{ cluster, tenant: row.name }}
                    className="topic-link"
                    title={row.name}
                  >
                    {row.name}
                  </Link>
                ),
              },
              {
                key: "namespaces",
                header: "Namespaces",
                numeric: true,
                cell: (row) => count(row.namespaces),
              },
              {
                ...by("topics", true),
                key: "topics",
                header: "Topics",
                numeric: true,
                cell: (row) => (row.numbers ? count(row.numbers.topics) : "—"),
              },
              ...sumColumns<ListedTenant>(by),
              { key: "roles", header: "Admin roles", cell: (row) => <Words words={row.admin_roles} /> },
              {
                key: "clusters",
                header: "Allowed clusters",
                wide: true,
                cell: (row) => <Words words={row.allowed_clusters} />,
              },
            ]}
          />
        </Listing>
      </Panel>
      {act === "create" && (
        <TenantDialog
          cluster={cluster}
          onClose={() => setCreating(false)}
          onDone={(row) =>
            navigate({ to: "/c/$cluster/tenants/$tenant", params: { cluster, tenant: row.name } })
          }
        />
      )}
    </Page>
  );
}

const WORDS_SHOWN = 3;

function Words({ words }: { words: string[] }) {
  if (words.length === 0) return <span className={styles.dim}>none</span>;
  const rest = words.length - WORDS_SHOWN;
  return (
    <span title={words.join(", ")}>
      {words.slice(0, WORDS_SHOWN).join(", ")}
      {rest > 0 && ` and ${rest} more`}
    </span>
  );
}
