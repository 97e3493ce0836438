import { Button, Checkbox, NativeSelect } from "@mantine/core";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import type { ListedSubscription, SubscriptionPage } from "../../api/types";
import { useServerNow } from "../../lib/clock";
import { count, duration, plural, rate } from "../../lib/format";
import { parseNamespace } from "../../lib/url-state";
import { BacklogFigure, OldestAge } from "../../shared/backlog/backlog-figures";
import { ChangeAll } from "../../shared/change-sets/change-all";
import { textsOf } from "../../shared/change-sets/choice";
import { Figure } from "../../shared/figure";
import { Freshness } from "../../shared/freshness";
import { ColumnsMenu } from "../../shared/lists/columns-menu";
import { AgeFilter, Announce, secondsOf } from "../../shared/lists/list-filters";
import { viewOf } from "../../shared/lists/list-queries";
import lists from "../../shared/lists/lists.module.css";
import { ScopePicker } from "../../shared/lists/scope-picker";
import { useListWindow } from "../../shared/lists/use-list-window";
import { ViewsMenu } from "../../shared/lists/views-menu";
import { LAG_CAUSES, PROBLEMS } from "../../shared/problems";
import { topicPagePath, topicSearchOf } from "../../shared/topic-link";
import { Badge } from "../../ui/badge";
import { FilterInput } from "../../ui/filter-input";
import { DataGrid, type GridColumn } from "../../ui/grid/data-grid";
import type { SortableBy } from "../../ui/grid/sorting";
import { useOrder } from "../../ui/grid/use-order";
import { Page, PageHead } from "../../ui/panel";
import { PathLink } from "../../ui/path-link";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import {
  CHOICES,
  type Choice,
  choiceText,
  DEFAULT_CHOICE,
  DEFAULT_SORT,
  isLate,
  parseChoice,
  SORTS,
  type Sort,
  type SortOrder,
  subscriptionState,
  TITLES,
  withSorted,
} from "./columns";
import { SUBSCRIPTION_LIST, type SubscriptionFilter } from "./queries";

const route = getRouteApi("/c/$cluster/subscriptions");
const ATTENTION: { value: "" | "any" | (typeof LAG_CAUSES)[number]; label: string }[] = [
  { value: "", label: "Any state" },
  { value: "any", label: "Needs attention" },
  ...LAG_CAUSES.map((value) => ({ value, label: PROBLEMS[value][0] })),
];
const NO_FILTERS = {
  q: undefined,
  tenant: undefined,
  namespace: undefined,
  attention: undefined,
  older_s: undefined,
  late: undefined,
};

export function SubscriptionsPage() {
  useTitle("Subscriptions");
  const search = route.useSearch();
  const { cluster } = route.useParams();
  const { sort, show, by } = useOrder(SORTS, DEFAULT_SORT);
  const { q, tenant, namespace } = search;
  const late = search.late === "true" ? ("true" as const) : undefined;
  const attention = ATTENTION.find(({ value }) => value && value === search.attention)?.value;
  const older_s = secondsOf(search.older_s);
  const filter = useMemo(
    () => ({ cluster, q, tenant, namespace, attention: attention || undefined, older_s, late, sort }),
    [cluster, q, tenant, namespace, attention, older_s, late, sort],
  );
  const list = useListWindow<ListedSubscription, SubscriptionPage, SubscriptionFilter>(
    SUBSCRIPTION_LIST,
    filter,
  );
  const choice = useMemo(() => parseChoice(search.columns) ?? [...DEFAULT_CHOICE], [search.columns]);
  const choose = (columns: Choice[]) => show({ columns: choiceText(columns) }, true);
  const [leftOut, setLeftOut] = useState(0);
  const columns = useColumns(cluster, choice, sort, by);
  const openTopic = useNavigate();
  const filtered = Boolean(q || tenant || namespace || attention || older_s || late);
  const unread = list.page?.unread_topics ?? 0;

  return (
    <Page shape="wide">
      <PageHead
        title="Subscriptions"
        badges={
          list.total !== undefined && (
            <span className={lists.total}>
              {count(list.total)}
              {unread > 0 && (
                <span title="No broker has them loaded, and what is stored of them is not read yet">
                  {" "}
                  · those of {plural(unread, "topic")} not known yet
                </span>
              )}
            </span>
          )
        }
        freshness={list.at !== undefined && <Freshness at={list.at} />}
        actions={
          <div className={lists.tools}>
            <ViewsMenu
              list="subscriptions"
              cluster={cluster}
              query={viewOf({ ...search, sort, columns: choiceText(choice) })}
            />
            <ColumnsMenu<Sort, Choice>
              titles={TITLES}
              sorts={SORTS}
              choices={CHOICES}
              always="subscription, topic, state, oldest and backlog"
              choice={choice}
              onChoose={choose}
              leftOut={leftOut}
              sort={sort}
              onSort={(next) => show({ sort: next })}
            />
            <ChangeAll
              cluster={cluster}
              of="subscriptions"
              query={textsOf({ q, tenant, namespace, attention, older_s, late })}
              total={list.total}
            />
          </div>
        }
      />
      <search className={lists.filters}>
        <FilterInput
          key={`q ${cluster}`}
          label="Filter by name"
          value={q ?? ""}
          write={(value, replace) => show({ q: value || undefined }, replace)}
        />
        <ScopePicker
          kind="tenants"
          cluster={cluster}
          value={tenant ?? ""}
          onPick={(name) => show({ tenant: name || undefined, namespace: undefined })}
        />
        <ScopePicker
          kind="namespaces"
          cluster={cluster}
          tenant={tenant}
          value={namespace ? (tenant ? `${tenant}/${namespace}` : namespace) : ""}
          onPick={(name) => show(name ? parseNamespace(name) : { namespace: undefined })}
        />
        <NativeSelect
          aria-label="State"
          size="xs"
          value={attention ?? ""}
          data={ATTENTION}
          onChange={(event) => show({ attention: event.currentTarget.value || undefined })}
        />
        <AgeFilter value={older_s} onPick={(seconds) => show({ older_s: seconds?.toString() })} />
        <Checkbox
          size="xs"
          label="Late"
          checked={late === "true"}
          onChange={(event) => show({ late: event.currentTarget.checked ? "true" : undefined })}
        />
        {filtered && (
          <Button variant="subtle" onClick={() => show(NO_FILTERS)}>
            Clear filters
          </Button>
        )}
        <Announce total={list.total} busy={list.busy} words={(total) => plural(total, "subscription")} />
      </search>
      {list.error !== null && list.total === undefined ? (
        <ErrorNotice error={list.error} title="The subscriptions could not be listed" onRetry={list.retry} />
      ) : list.total === undefined ? (
        <Loading label="Loading subscriptions" rows={12} />
      ) : list.total === 0 ? (
        <div className={lists.none}>
          {filtered ? (
            <Empty title="No subscription matches">Clear or loosen the filters.</Empty>
          ) : (
            <Empty title="No subscription yet">A consumer that subscribes to a topic appears here.</Empty>
          )}
        </div>
      ) : (
        <div className={lists.grid}>
          {list.error !== null && (
            <ErrorNotice error={list.error} title="Some rows could not be read" onRetry={list.retry} />
          )}
          <DataGrid<ListedSubscription>
            label="Subscriptions"
            columns={columns}
            total={list.total}
            rowAt={list.rowAt}
            onRange={list.setRange}
            onOpen={(row) =>
              openTopic({
                to: "/c/$cluster/t/$tenant/$namespace/$topic/subscriptions",
                params: { cluster, tenant: row.tenant, namespace: row.namespace, topic: row.topic },
                search: topicSearchOf(row),
                hash: row.subscription,
              })
            }
            busy={list.busy}
            onLeftOut={setLeftOut}
            resetKey={JSON.stringify(filter)}
          />
        </div>
      )}
    </Page>
  );
}

const ARROW_PX = 18; // beside the header of the sorted column
const WIDTHS: Record<Choice, number> = {
  age_target_s: 86,
  msg_rate_out: 66,
  consumers: 92,
  unacked: 138,
  type: 92,
  tenant: 100,
  namespace: 100,
};

function useColumns(
  cluster: string,
  choice: readonly Choice[],
  sort: SortOrder,
  by: SortableBy<Sort>,
): GridColumn<ListedSubscription>[] {
  return useMemo(() => {
    const sorted = sort.replace(/^-/, "");
    const sortable = (key: Sort, descending: boolean, min: number) => ({
      key,
      header: TITLES[key],
      ...by(key, descending),
      always: key === sorted,
      min: key === sorted ? min + ARROW_PX : min,
    });
    return [
      {
        ...sortable("subscription", false, 120),
        grow: 2,
        always: true,
        cell: (row, hasOwnLine) => (
          <PathLink
            key={`${row.name} ${row.subscription}`}
            path={`${topicPagePath(cluster, row, "subscriptions")}#${encodeURIComponent(row.subscription)}`}
            className="topic-link"
            title={row.subscription}
            label={
              hasOwnLine
                ? `${row.subscription} of ${row.tenant}/${row.namespace}/${row.topic}`
                : row.subscription
            }
            tabIndex={-1}
          >
            {row.subscription}
            {hasOwnLine && (
              <span className="topic-scope">
                {" "}
                of {row.tenant}/{row.namespace}/{row.topic}
              </span>
            )}
          </PathLink>
        ),
      },
      {
        ...sortable("topic", false, 150),
        grow: 3,
        cell: (row) => (
          <PathLink
            key={row.name}
            path={topicPagePath(cluster, row, "overview")}
            className="topic-link"
            title={row.name}
            label={`${row.tenant}/${row.namespace}/${row.topic}`}
            tabIndex={-1}
          >
            <span className="topic-scope">
              {row.tenant}/{row.namespace}/
            </span>
            {row.topic}
          </PathLink>
        ),
      },
      {
        ...{ key: "state", header: "State", min: 154, narrow: 128, always: true },
        cell: (row) => <StateBadge row={row} />,
      },
      {
        ...sortable("oldest_age", true, 92),
        numeric: true,
        always: true,
        cell: (row) => <Oldest row={row} />,
      },
      {
        ...sortable("backlog", true, 150),
        numeric: true,
        cell: (row) => (
          <span className={row.backlog === 0 ? lists.zero : undefined}>
            <BacklogFigure of={row} />
          </span>
        ),
      },
      ...withSorted(choice, sort).map((key): GridColumn<ListedSubscription> => {
        if (key === "type" || key === "tenant" || key === "namespace")
          return { ...sortable(key, false, WIDTHS[key]), cell: (row) => row[key] || "—" };
        if (key === "age_target_s")
          return {
            ...sortable(key, true, WIDTHS[key]),
            numeric: true,
            cell: (row) => (row.age_target_s === null ? "—" : duration(row.age_target_s)),
          };
        return {
          ...sortable(key, true, WIDTHS[key]),
          numeric: true,
          cell: (row) => (
            <span className={row[key] === 0 ? lists.zero : undefined}>
              <Figure of={row} value={row[key]} text={key === "msg_rate_out" ? rate : count} />
            </span>
          ),
        };
      }),
    ];
  }, [cluster, choice, sort, by]);
}

function StateBadge({ row }: { row: ListedSubscription }) {
  const state = subscriptionState(row);
  return (
    <span title={state.title}>
      <Badge tone={state.tone} dot>
        {state.label}
      </Badge>
    </span>
  );
}

/** The age of the oldest message, marked where it is beyond the target. */
function Oldest({ row }: { row: ListedSubscription }) {
  const late = isLate(row, useServerNow());
  const text = (
    <span className={row.oldest_at ? undefined : lists.zero}>
      <OldestAge at={row.oldest_at} />
    </span>
  );
  if (!late) return text;
  return (
    <Badge tone="bad">
      {text}
      <span className="visually-hidden">, later than its target</span>
    </Badge>
  );
}
