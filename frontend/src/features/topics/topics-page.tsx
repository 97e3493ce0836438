import { Button, CloseButton, NativeSelect, TextInput } from "@mantine/core";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import type { TopicRow } from "../../api/types";
import { byteRate, bytes, count, known, plural, rate } from "../../lib/format";
import { Freshness } from "../../shared/freshness";
import { topicPagePath, topicSearchOf } from "../../shared/topic-link";
import { Badge } from "../../ui/badge";
import { DataGrid, type GridColumn } from "../../ui/grid/data-grid";
import { SearchIcon } from "../../ui/icons";
import { Page, PageHead } from "../../ui/panel";
import { PathLink } from "../../ui/path-link";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import { DEFAULT_SORT, nextSort, type SortOrder, sortOf, type TopicSort } from "./search";
import styles from "./topics.module.css";
import { useTopicWindow } from "./use-topic-window";

const route = getRouteApi("/c/$cluster/topics");
const WRITE_MS = 60;

export function TopicsPage() {
  useTitle("Topics");
  const search = route.useSearch();
  const { cluster } = route.useParams();
  const navigate = useNavigate({ from: "/c/$cluster/topics" });
  const sort = search.sort ?? DEFAULT_SORT;
  const { q, tenant, namespace, domain } = search;
  const filter = useMemo(
    () => ({ cluster, q, tenant, namespace, domain, sort }),
    [cluster, q, tenant, namespace, domain, sort],
  );
  const list = useTopicWindow(filter);
  const resetKey = JSON.stringify(filter);
  const setSort = useCallback(
    (next: SortOrder) => navigate({ search: (before) => ({ ...before, sort: next }), replace: true }),
    [navigate],
  );
  const columns = useColumns(cluster, sort, setSort);
  const openTopic = useNavigate();
  const filtered = Boolean(q || tenant || namespace || domain);

  return (
    <Page shape="wide">
      <PageHead
        title="Topics"
        badges={list.total !== undefined && <span className={styles.total}>{count(list.total)}</span>}
        freshness={list.at !== undefined && <Freshness at={list.at} />}
      />
      <search className={styles.filters}>
        <FilterInput
          key={`q ${cluster}`}
          label="Part of the name"
          value={q ?? ""}
          write={(value) =>
            navigate({ search: (before) => ({ ...before, q: value || undefined }), replace: true })
          }
          icon
        />
        <FilterInput
          label="Tenant"
          value={tenant ?? ""}
          write={(value) =>
            navigate({ search: (before) => ({ ...before, tenant: value || undefined }), replace: true })
          }
        />
        <FilterInput
          label="Namespace"
          value={namespace ?? ""}
          write={(value) =>
            navigate({ search: (before) => ({ ...before, namespace: value || undefined }), replace: true })
          }
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
            navigate({ search: (before) => ({ ...before, domain: value || undefined }), replace: true });
          }}
        />
        {filtered && (
          <Button
            variant="subtle"
            onClick={() => navigate({ search: (before) => ({ sort: before.sort }), replace: true })}
          >
            Clear filters
          </Button>
        )}
        <Announce total={list.total} busy={list.busy} />
      </search>
      {list.error !== null && list.total === undefined ? (
        <ErrorNotice error={list.error} title="The topics could not be listed" onRetry={list.retry} />
      ) : list.total === undefined ? (
        <Loading label="Loading topics" rows={12} />
      ) : list.total === 0 ? (
        <div className={styles.none}>
          {filtered ? (
            <Empty title="No topic matches">Clear or loosen the filters.</Empty>
          ) : (
            <Empty title="No topic yet">
              Publish to any name, e.g. persistent://public/default/hello, and it appears here.
            </Empty>
          )}
        </div>
      ) : (
        <div className={styles.grid}>
          {list.error !== null && (
            <ErrorNotice error={list.error} title="Some rows could not be read" onRetry={list.retry} />
          )}
          <DataGrid<TopicRow>
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
            minWidth={1080}
            resetKey={resetKey}
          />
        </div>
      )}
    </Page>
  );
}

/** Says the number of matches to a screen reader when typing pauses, not at every push. */
function Announce({ total, busy }: { total: number | undefined; busy: boolean }) {
  const [said, setSaid] = useState("");
  const text = total === undefined || busy ? "" : plural(total, "topic");
  const rounded = useDeferredValue(text);
  const spokenAt = useRef(0);
  useEffect(() => {
    if (!rounded) return;
    const wait = Math.max(800, 10_000 - (Date.now() - spokenAt.current));
    const timer = setTimeout(() => {
      spokenAt.current = Date.now();
      setSaid(rounded);
    }, wait);
    return () => clearTimeout(timer);
  }, [rounded]);
  return (
    <output className="visually-hidden" aria-live="polite">
      {said}
    </output>
  );
}

/** Text that filters while it is typed. The field is ahead of the address by a few keystrokes at most. */
function FilterInput({
  label,
  value,
  write,
  icon = false,
}: {
  label: string;
  value: string;
  write: (value: string) => void;
  icon?: boolean;
}) {
  const [text, setText] = useState(value);
  const [written, setWritten] = useState(value);
  if (value !== written) {
    // The address changed by something else than this field: a link, back, "Clear filters".
    setWritten(value);
    setText(value);
  }
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const change = (next: string) => {
    setText(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      setWritten(next);
      write(next);
    }, WRITE_MS);
  };
  return (
    <TextInput
      size="xs"
      aria-label={label}
      placeholder={label}
      className={icon ? styles.query : styles.scope}
      value={text}
      maxLength={500}
      spellCheck={false}
      onChange={(event) => change(event.currentTarget.value)}
      {...(icon ? { leftSection: <SearchIcon size={14} /> } : {})}
      {...(text
        ? { rightSection: <CloseButton size={24} aria-label={`Clear ${label}`} onClick={() => change("")} /> }
        : {})}
    />
  );
}

function useColumns(
  cluster: string,
  sort: string,
  setSort: (sort: SortOrder) => void,
): GridColumn<TopicRow>[] {
  return useMemo(() => {
    const numeric = (
      key: TopicSort,
      header: string,
      width: string,
      cell: (row: TopicRow) => string,
    ): GridColumn<TopicRow> => ({
      key,
      header,
      width,
      numeric: true,
      sort: sortOf(sort, key),
      onSort: () => setSort(nextSort(sort, key, true)),
      cell: (row) => {
        const text = cell(row);
        return text === "0" || text === "0 B" || text === "0 B/s" ? (
          <span className={styles.zero}>{text}</span>
        ) : (
          text
        );
      },
    });
    const text = (
      key: TopicSort,
      header: string,
      width: string,
      cell: GridColumn<TopicRow>["cell"],
    ): GridColumn<TopicRow> => ({
      key,
      header,
      width,
      sort: sortOf(sort, key),
      onSort: () => setSort(nextSort(sort, key, false)),
      cell,
    });
    return [
      text("topic", "Topic", "minmax(220px, 3fr)", (row) => (
        <>
          <PathLink
            path={topicPagePath(cluster, row, "overview")}
            className="topic-link"
            title={row.name}
            tabIndex={-1}
          >
            {row.topic}
          </PathLink>
          {row.partitions > 0 && <span className={styles.tag}>{plural(row.partitions, "partition")}</span>}
          {row.domain === "non-persistent" && (
            <span className={styles.tagBox}>
              <Badge>non-persistent</Badge>
            </span>
          )}
        </>
      )),
      text("tenant", "Tenant", "minmax(96px, 1fr)", (row) => row.tenant),
      text("namespace", "Namespace", "minmax(90px, 1fr)", (row) => row.namespace),
      numeric("backlog", "Backlog", "100px", (row) => known(row.backlog, count)),
      numeric("msg_rate_in", "In/s", "74px", (row) => known(row.msg_rate_in, rate)),
      numeric("msg_rate_out", "Out/s", "74px", (row) => known(row.msg_rate_out, rate)),
      numeric("bytes_rate_in", "Bytes in", "96px", (row) => known(row.bytes_rate_in, byteRate)),
      numeric("storage_bytes", "Stored", "88px", (row) => known(row.storage_bytes, bytes)),
      numeric("producers", "Producers", "96px", (row) => known(row.producers, count)),
      numeric("consumers", "Consumers", "100px", (row) => known(row.consumers, count)),
      numeric("subscriptions", "Subs", "64px", (row) => known(row.subscriptions, count)),
    ];
  }, [cluster, sort, setSort]);
}
