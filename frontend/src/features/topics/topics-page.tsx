import { Button, NativeSelect } from "@mantine/core";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useCallback, useMemo, useState } from "react";
import type { ListedRow, TopicPage } from "../../api/types";
import { byteRate, bytes, count, plural, rate } from "../../lib/format";
import { parseNamespace } from "../../lib/url-state";
import { useMayRead } from "../../shared/access/may";
import { BacklogFigure, OldestAge } from "../../shared/backlog/backlog-figures";
import { ChangeAll } from "../../shared/change-sets/change-all";
import { sampleOf, textsOf } from "../../shared/change-sets/choice";
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
import { Trend } from "../../ui/charts/trend";
import { FilterInput } from "../../ui/filter-input";
import { DataGrid, type GridColumn } from "../../ui/grid/data-grid";
import { sorting } from "../../ui/grid/sorting";
import { Page, PageHead } from "../../ui/panel";
import { PathLink } from "../../ui/path-link";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import {
  CHOICES,
  type Choice,
  choiceText,
  DEFAULT_CHOICE,
  parseChoice,
  storeChoice,
  storedChoice,
  TITLES,
  withSorted,
} from "./columns";
import { ExportMenu } from "./export-menu";
import { TOPIC_LIST, type TopicFilter } from "./queries";
import { rowState, severalTimes, trendText } from "./row-state";
import { DEFAULT_SORT, type SortOrder, TOPIC_SORTS, type TopicSort } from "./search";
import styles from "./topics.module.css";

const route = getRouteApi("/c/$cluster/topics");
const NewTopicDialog = lazy(() =>
  import("../../shared/topic/new-topic-dialog").then((module) => ({ default: module.NewTopicDialog })),
);
const ATTENTION = [
  { value: "", label: "Any state" },
  { value: "any", label: "Needs attention" },
  ...LAG_CAUSES.map((value) => ({ value, label: PROBLEMS[value][0] })),
];

export function TopicsPage() {
  useTitle("Topics");
  const search = route.useSearch();
  const { cluster } = route.useParams();
  const navigate = useNavigate({ from: "/c/$cluster/topics" });
  const sort = search.sort ?? DEFAULT_SORT;
  const { q, tenant, namespace, domain, attention } = search;
  const older_s = secondsOf(search.older_s);
  const filter = useMemo(
    () => ({ cluster, q, tenant, namespace, domain, attention, older_s, sort }),
    [cluster, q, tenant, namespace, domain, attention, older_s, sort],
  );
  const list = useListWindow<ListedRow, TopicPage, TopicFilter>(TOPIC_LIST, filter);
  const resetKey = JSON.stringify(filter);
  const show = useCallback(
    (change: Partial<typeof search>, replace = false) =>
      navigate({ search: (before) => ({ ...before, ...change }), replace }),
    [navigate],
  );
  const setSort = useCallback((next: SortOrder) => show({ sort: next }), [show]);
  const [choice, choose] = useChoice(search.columns, (columns) => show({ columns }, true));
  const [leftOut, setLeftOut] = useState(0);
  const columns = useColumns(cluster, choice, sort, setSort);
  const openTopic = useNavigate();
  const shownQuery = viewOf({ ...search, act: undefined, sort, columns: choiceText(choice) });
  const filtered = Boolean(q || tenant || namespace || domain || attention || older_s);

  return (
    <Page shape="wide">
      <PageHead
        title="Topics"
        badges={list.total !== undefined && <span className={lists.total}>{count(list.total)}</span>}
        freshness={list.at !== undefined && <Freshness at={list.at} />}
        actions={
          <div className={lists.tools}>
            <Button onClick={() => show({ act: "create" })}>New topic…</Button>
            <ViewsMenu list="topics" cluster={cluster} query={shownQuery} />
            <ColumnsMenu<TopicSort, Choice>
              titles={TITLES}
              sorts={TOPIC_SORTS}
              choices={CHOICES}
              always="topic, state, trend and backlog"
              choice={choice}
              onChoose={choose}
              leftOut={leftOut}
              sort={sort}
              onSort={setSort}
            />
            <ExportMenu filter={filter} total={list.total} />
            <ChangeAll
              cluster={cluster}
              of="topics"
              query={textsOf({ q, tenant, namespace, domain, attention, older_s })}
              total={list.total}
              sample={sampleOf(cluster, list.rowAt(0))}
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
          onPick={(name) => {
            show(name ? parseNamespace(name) : { namespace: undefined });
          }}
        />
        <NativeSelect
          aria-label="Domain"
          size="xs"
          value={domain ?? ""}
          data={[
            { value: "", label: "All domains" },
            { value: "persistent", label: "Persistent" },
            { value: "non-persistent", label: "Non-persistent" },
          ]}
          onChange={(event) => {
            const value = event.currentTarget.value as "" | "persistent" | "non-persistent";
            show({ domain: value || undefined });
          }}
        />
        <NativeSelect
          aria-label="State"
          size="xs"
          value={attention ?? ""}
          data={ATTENTION}
          onChange={(event) =>
            show({ attention: (event.currentTarget.value || undefined) as typeof attention })
          }
        />
        <AgeFilter value={older_s} onPick={(seconds) => show({ older_s: seconds?.toString() })} />
        {filtered && (
          <Button
            variant="subtle"
            onClick={() =>
              show({
                q: undefined,
                tenant: undefined,
                namespace: undefined,
                domain: undefined,
                attention: undefined,
                older_s: undefined,
              })
            }
          >
            Clear filters
          </Button>
        )}
        <Announce total={list.total} busy={list.busy} words={(total) => plural(total, "topic")} />
      </search>
      {list.error !== null && list.total === undefined ? (
        <ErrorNotice error={list.error} title="The topics could not be listed" onRetry={list.retry} />
      ) : list.total === undefined ? (
        <Loading label="Loading topics" rows={12} />
      ) : list.total === 0 ? (
        <div className={lists.none}>
          {filtered ? (
            <Empty title="No topic matches">Clear or loosen the filters.</Empty>
          ) : (
            <None cluster={cluster} />
          )}
        </div>
      ) : (
        <div className={lists.grid}>
          {list.error !== null && (
            <ErrorNotice error={list.error} title="Some rows could not be read" onRetry={list.retry} />
          )}
          <DataGrid<ListedRow>
            label="Topics"
            columns={columns}
            total={list.total}
            rowAt={list.rowAt}
            onRange={list.setRange}
            onOpen={(row) =>
              openTopic({
                to: "/c/$cluster/t/$tenant/$namespace/$topic/overview",
                params: { cluster, tenant: row.tenant, namespace: row.namespace, topic: row.topic },
                search: topicSearchOf(row),
              })
            }
            busy={list.busy}
            onLeftOut={setLeftOut}
            resetKey={resetKey}
          />
        </div>
      )}
      {search.act === "create" && (
        <Suspense fallback={null}>
          <NewTopicDialog
            cluster={cluster}
            scope={tenant && namespace ? `${tenant}/${namespace}` : ""}
            onClose={() => show({ act: undefined }, true)}
            onDone={(made) =>
              openTopic({
                to: "/c/$cluster/t/$tenant/$namespace/$topic/manage",
                params: { cluster, tenant: made.tenant, namespace: made.namespace, topic: made.topic },
                search: topicSearchOf(made),
              })
            }
          />
        </Suspense>
      )}
    </Page>
  );
}

/** The columns of the address, else those chosen last in this browser, else the default ones. */
function useChoice(text: string | undefined, write: (text: string) => void) {
  const [stored, setStored] = useState(storedChoice);
  const choice = useMemo(() => parseChoice(text) ?? stored ?? [...DEFAULT_CHOICE], [text, stored]);
  const choose = (next: Choice[]) => {
    storeChoice(next);
    setStored(next);
    write(choiceText(next));
  };
  return [choice, choose] as const;
}

const ARROW_PX = 18; // beside the header of the sorted column
// Wide enough for the longest word in a badge, in a wide font.
const STATE = { key: "state", header: "State", min: 154, narrow: 128, always: true };
const TREND = { key: "trend", header: "Trend", min: 62, narrow: 42, always: true };
type Text = (value: number) => string;
/** Width, and how the number reads. */
const NUMBERS: Record<
  Exclude<Choice, "tenant" | "namespace" | "oldest_age">,
  [number, (row: ListedRow) => number | null, Text]
> = {
  msg_rate_in: [66, (row) => row.msg_rate_in, rate],
  msg_rate_out: [66, (row) => row.msg_rate_out, rate],
  bytes_rate_in: [92, (row) => row.bytes_rate_in, byteRate],
  bytes_rate_out: [92, (row) => row.bytes_rate_out, byteRate],
  storage_bytes: [92, (row) => row.storage_bytes, bytes],
  producers: [88, (row) => row.producers, count],
  consumers: [92, (row) => row.consumers, count],
  subscriptions: [108, (row) => row.subscriptions, count],
  partitions: [86, (row) => row.partitions, count],
};

function None({ cluster }: { cluster: string }) {
  if (!useMayRead(cluster, "listBrokers"))
    return (
      <Empty title="No topic that you may see">
        An administrator of a tenant can grant your role its topics.
      </Empty>
    );
  return (
    <Empty title="No topic yet">Publish to any name, e.g. public/default/hello, and it appears here.</Empty>
  );
}

function useColumns(
  cluster: string,
  choice: readonly Choice[],
  sort: SortOrder,
  setSort: (sort: SortOrder) => void,
): GridColumn<ListedRow>[] {
  return useMemo(() => {
    const sorted = sort.replace(/^-/, "");
    const by = sorting<TopicSort>(sort, setSort);
    const sortable = (key: TopicSort, descending: boolean) => ({
      key,
      header: TITLES[key],
      ...by(key, descending),
      always: key === sorted,
    });
    const number = (
      key: TopicSort,
      min: number,
      value: (row: ListedRow) => number | null,
      text: Text,
    ): GridColumn<ListedRow> => ({
      ...sortable(key, true),
      min: key === sorted ? min + ARROW_PX : min,
      numeric: true,
      cell: (row) => {
        const figure = <Figure of={row} value={value(row)} text={text} />;
        const several = severalTimes(key, row);
        if (several) return <span title={several}>{figure}</span>;
        return value(row) === 0 ? <span className={styles.zero}>{figure}</span> : figure;
      },
    });
    const shown = withSorted(choice, sort);
    const scoped = !(shown.includes("tenant") && shown.includes("namespace"));
    return [
      {
        ...sortable("topic", false),
        min: 230,
        grow: 3,
        cell: (row) => <Name cluster={cluster} row={row} scoped={scoped} />,
      },
      { ...STATE, cell: (row) => <State row={row} /> },
      { ...TREND, cell: (row) => <BacklogTrend row={row} /> },
      {
        ...sortable("backlog", true),
        min: 168 + (sorted === "backlog" ? ARROW_PX : 0),
        narrow: 80 + (sorted === "backlog" ? ARROW_PX : 0),
        numeric: true,
        always: true,
        cell: (row) => (
          <span className={row.backlog === 0 ? styles.zero : undefined}>
            <BacklogFigure of={row} />
          </span>
        ),
      },
      ...shown.map((key): GridColumn<ListedRow> => {
        if (key === "tenant" || key === "namespace")
          return {
            ...sortable(key, false),
            min: key === sorted ? 100 + ARROW_PX : 100,
            grow: 1,
            cell: (row) => row[key],
          };
        if (key === "oldest_age")
          return {
            ...sortable(key, true),
            min: key === sorted ? 176 + ARROW_PX : 176,
            numeric: true,
            cell: (row) => (
              <span className={row.oldest_at ? undefined : styles.zero}>
                <OldestAge at={row.oldest_at} />
              </span>
            ),
          };
        return number(key, ...NUMBERS[key]);
      }),
    ];
  }, [cluster, choice, sort, setSort]);
}

function Name({ cluster, row, scoped }: { cluster: string; row: ListedRow; scoped: boolean }) {
  return (
    <span className={styles.name}>
      <PathLink
        key={row.name} // the name of another topic in this place is not this one, moved
        path={topicPagePath(cluster, row, "overview")}
        className={`topic-link ${styles.link}`}
        title={row.name}
        label={`${scoped ? `${row.tenant}/${row.namespace}/` : ""}${row.topic}`}
        tabIndex={-1}
      >
        {scoped && (
          <span className="topic-scope">
            {row.tenant}/{row.namespace}/
          </span>
        )}
        <Ends text={row.topic} />
      </PathLink>
      {row.partitions > 0 && <span className={styles.tag}>{plural(row.partitions, "partition")}</span>}
      {row.domain === "non-persistent" && (
        <span className={styles.tagBox}>
          <Badge>non-persistent</Badge>
        </span>
      )}
    </span>
  );
}

const TAIL = 8;

/** A name that keeps its end when there is no room: numbered topics differ only there. */
function Ends({ text }: { text: string }) {
  const letters = [...text];
  if (letters.length < 3 * TAIL) return <span className={styles.short}>{text}</span>;
  return (
    <>
      <span>{letters.slice(0, -TAIL).join("")}</span>
      <span className={styles.tail}>{letters.slice(-TAIL).join("")}</span>
    </>
  );
}

function State({ row }: { row: ListedRow }) {
  const state = rowState(row);
  return (
    <span title={state.title}>
      <Badge tone={state.tone} dot>
        {state.label}
      </Badge>
    </span>
  );
}

function BacklogTrend({ row }: { row: ListedRow }) {
  const trend = row.trend ?? [];
  if (trend.every((value) => value === null)) return <span className={styles.zero}>—</span>;
  const values = [...trend, row.backlog];
  return <Trend values={values} label={trendText(trend, row.backlog)} />;
}
