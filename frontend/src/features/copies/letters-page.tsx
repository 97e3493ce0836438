import { Button } from "@mantine/core";
import { keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { useServerNow } from "../../lib/clock";
import { failureOf } from "../../lib/errors";
import { age, bytes, count, dateTime, known, rate } from "../../lib/format";
import { Freshness } from "../../shared/freshness";
import { TopicLink } from "../../shared/topic-link";
import { FilterInput } from "../../ui/filter-input";
import { Pages } from "../../ui/grid/pages";
import type { SortableBy } from "../../ui/grid/sorting";
import { type Column, Table } from "../../ui/grid/table";
import { useOrder } from "../../ui/grid/use-order";
import { Page, PageHead, Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading, Notice } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import { CopyDialog } from "./copy-dialog";
import { looks } from "./looks";
import {
  type Group,
  type GroupKey,
  groupsQuery,
  LETTER_SORTS,
  type LetterTopic,
  lettersQuery,
  PER_PAGE,
  type Topic,
} from "./queries";
import { joined, refOf, scannedText, shortName } from "./words";

const route = getRouteApi("/c/$cluster/dead-letters");

/** Topics of dead letters and retries, and the groups of one. */
export function LettersPage() {
  useTitle("Dead letters");
  const { cluster } = route.useParams();
  const { q, topic, shape, reason = "", origin = "", subscription = "" } = route.useSearch();
  const { sort, page, show, by, turning } = useOrder(LETTER_SORTS, "name");
  const list = useQuery({
    ...lettersQuery(cluster, q, sort, page),
    placeholderData: keepPreviousData,
  });
  const columns = useTopicColumns(by);
  const failure = failureOf(list);
  const chosen = topic ? refOf(topic) : null;
  return (
    <Page>
      <PageHead
        title="Dead letters"
        freshness={list.data && <Freshness at={list.data.at} />}
        actions={
          <Link to="/c/$cluster/copies" params={{ cluster }}>
            Copies
          </Link>
        }
      />
      <search>
        <FilterInput
          key={`q ${cluster}`}
          label="Filter by name"
          value={q ?? ""}
          write={(value, replace) => show({ q: value || undefined }, replace)}
        />
      </search>
      <Panel
        title="Topics"
        note={list.data && count(list.data.total)}
        flush
        actions={<Pages {...turning} total={list.data?.total} per={PER_PAGE} />}
      >
        {failure && <ErrorNotice error={failure} title="The topics could not be read" />}
        {!list.data && !failure && <Loading label="Looking for dead letters" rows={4} />}
        {list.data && (
          <Table<LetterTopic>
            caption="Topics of dead letters and retries"
            columns={columns}
            rows={list.data.rows}
            rowKey={({ name }) => name}
            empty={
              <Empty title="No topic of dead letters">
                Clients name them …-DLQ and …-RETRY. Any other topic can be copied from its messages.
              </Empty>
            }
          />
        )}
      </Panel>
      {topic && chosen && (
        <Groups
          key={topic}
          name={topic}
          topic={{ cluster, ...chosen }}
          linked={shape ? { origin, subscription, reason, shape } : null}
        />
      )}
    </Page>
  );
}

function useTopicColumns(by: SortableBy<(typeof LETTER_SORTS)[number]>): Column<LetterTopic>[] {
  const now = useServerNow();
  return [
    {
      ...by("name"),
      key: "name",
      header: "Topic",
      grow: true,
      cell: (row) => (
        <span style={looks.text}>
          <Link
            from="/c/$cluster/dead-letters"
            search={({ q, sort, page }) => ({ q, sort, page, topic: row.name })}
            aria-label={`Groups of ${shortName(row.name)}`}
          >
            {shortName(row.name)}
          </Link>
          {row.problem && (
            <span style={{ ...looks.dim, display: "block" }}>
              Not looked into: <span lang="en">{row.problem}</span>
            </span>
          )}
          {row.known === "last" && (
            <span style={{ ...looks.dim, display: "block" }}>
              Numbers as last known: its broker does not answer
            </span>
          )}
        </span>
      ),
    },
    {
      key: "origin",
      header: "Origin",
      grow: true,
      cell: (row) => {
        const ref = row.origin ? refOf(row.origin) : null;
        return (
          <span style={looks.text}>
            {ref ? <TopicLink topic={ref} /> : "unknown"}
            {row.subscription && ` · ${row.subscription}`}
          </span>
        );
      },
    },
    { key: "entries", header: "Stored", numeric: true, cell: (row) => known(row.entries, count) },
    {
      ...by("backlog", true),
      key: "backlog",
      header: "Unacknowledged",
      numeric: true,
      cell: (row) => known(row.backlog, count),
    },
    {
      key: "oldest",
      header: "Oldest",
      numeric: true,
      cell: (row) => known(row.oldest_at, (at) => age(at, now)),
    },
    {
      ...by("msg_rate_in", true),
      key: "rate",
      header: "In /s",
      numeric: true,
      cell: (row) => known(row.msg_rate_in, rate),
    },
  ];
}

/** `linked`: the group that an address names, whose dialog is open. */
function Groups({ name, topic, linked }: { name: string; topic: Topic; linked: GroupKey | null }) {
  const scan = useInfiniteQuery(groupsQuery(topic));
  const [redriven, setRedriven] = useState<GroupKey | "all" | null>(linked);
  const pages = scan.data?.pages ?? [];
  const last = pages.at(-1);
  const groups = joined(pages.map((page) => page.groups));
  const sum = (value: (page: (typeof pages)[number]) => number) =>
    pages.reduce((total, page) => total + value(page), 0);
  const columns: Column<Group>[] = [
    {
      key: "reason",
      header: "Reason",
      grow: true,
      cell: (row) => <span style={looks.text}>{row.reason || "none given"}</span>,
    },
    {
      key: "origin",
      header: "Origin",
      grow: true,
      cell: (row) => (
        <span style={looks.text}>
          {row.origin ? shortName(row.origin) : "unknown"}
          {row.subscription && ` · ${row.subscription}`}
        </span>
      ),
    },
    { key: "shape", header: "Value", wide: true, cell: (row) => <span style={looks.text}>{row.shape}</span> },
    { key: "messages", header: "Messages", numeric: true, cell: (row) => count(row.messages) },
    { key: "bytes", header: "Size", numeric: true, wide: true, cell: (row) => bytes(row.bytes) },
    { key: "first", header: "First", wide: true, cell: (row) => dateTime(row.first_published) },
    { key: "last", header: "Last", wide: true, cell: (row) => dateTime(row.last_published) },
    {
      key: "act",
      header: "Redrive",
      headerHidden: true,
      cell: (row) => (
        <Button
          size="compact-sm"
          variant="default"
          aria-label={`Redrive: ${row.reason || "none given"}, ${row.shape}`}
          onClick={() => setRedriven(row)}
        >
          Redrive…
        </Button>
      ),
    },
  ];
  return (
    <Panel
      title="Groups"
      note={shortName(name)}
      actions={
        <Button size="compact-sm" onClick={() => setRedriven("all")}>
          Redrive all…
        </Button>
      }
      flush
    >
      {scan.error && (
        <ErrorNotice error={scan.error} title="The messages could not be read" onRetry={scan.refetch} />
      )}
      {scan.isPending && <Loading label="Reading the messages" rows={4} />}
      {last && last.missing.length > 0 && (
        <Notice tone="warning">
          <p>Partitions that did not answer: {last.missing.join(", ")}. They follow when you go on.</p>
        </Notice>
      )}
      {last && (
        <>
          <Table<Group>
            caption="Groups of dead letters"
            columns={columns}
            rows={groups}
            rowKey={(row) => `${row.origin} ${row.subscription} ${row.reason} ${row.shape}`}
            empty={<Empty title="No message is stored" />}
          />
          <div style={looks.foot}>
            <p role="status">
              {scannedText({
                scanned: sum((page) => page.scanned),
                scanned_entries: sum((page) => page.scanned_entries),
                entries: last.entries,
              })}
            </p>
            <Button variant="default" loading={scan.isFetching} onClick={() => scan.fetchNextPage()}>
              {last.stopped === "end" ? "Look for newer ones" : "Go on"}
            </Button>
          </div>
        </>
      )}
      {redriven && (
        <CopyDialog
          topic={topic}
          name={name}
          group={redriven === "all" ? undefined : redriven}
          toOrigin
          onClose={() => setRedriven(null)}
        />
      )}
    </Panel>
  );
}
