import { Button, Switch } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link as RouterLink } from "@tanstack/react-router";
import { useLive, usePolling } from "../../api/live";
import { useServerNow } from "../../lib/clock";
import { failureOf } from "../../lib/errors";
import { age, count, duration, known, plural, rate } from "../../lib/format";
import { AnalyseLink } from "../../shared/analyses/analyse-link";
import { Freshness } from "../../shared/freshness";
import { Badge } from "../../ui/badge";
import { Fact } from "../../ui/fact";
import { FilterInput } from "../../ui/filter-input";
import { Pages } from "../../ui/grid/pages";
import type { SortableBy } from "../../ui/grid/sorting";
import { Table } from "../../ui/grid/table";
import { useOrder } from "../../ui/grid/use-order";
import { Crumb, Page, PageHead, Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import styles from "./geo.module.css";
import { type LinkAnswer, type LinkTopic, linkQuery, PAGE_ROWS, windowOf } from "./geo-queries";
import { CAUSES } from "./joined-links";
import { LINK_SORTS } from "./link-search";

const route = getRouteApi("/c/$cluster/geo/$remote");

/** The topics of one link that are behind, and why. */
export function LinkPage() {
  const { cluster, remote } = route.useParams();
  const { q, cause, all } = route.useSearch();
  const { sort, page, show, by, turning } = useOrder(LINK_SORTS, "-delay");
  useTitle(`${cluster} → ${remote}`);
  const filter = { cluster, remote, q, cause, all, sort, page };
  const query = linkQuery(filter);
  useLive("link", windowOf(filter), query.queryKey);
  const found = useQuery({ ...query, refetchInterval: usePolling(), placeholderData: (before) => before });
  const answer = found.data;
  return (
    <Page>
      <PageHead
        crumbs={
          <Crumb>
            <RouterLink to="/c/$cluster/geo" params={{ cluster }}>
              Geo
            </RouterLink>
          </Crumb>
        }
        title={`${cluster} → ${remote}`}
        freshness={answer && <Freshness at={answer.at} />}
      />
      {failureOf(found) && (
        <ErrorNotice error={found.error} title="The link could not be read" onRetry={() => found.refetch()} />
      )}
      {answer === undefined ? (
        found.isPending && <Loading label="Loading the link" rows={8} />
      ) : (
        <>
          {answer.link && <Summary link={answer.link} />}
          <Panel
            title={all ? "Topics" : "Who is behind"}
            note={plural(answer.total, "topic or partition", "topics and partitions")}
            actions={<Pages {...turning} total={answer.total} per={PAGE_ROWS} />}
            flush
          >
            <search className={styles.filters}>
              <FilterInput
                key={`q ${cluster} ${remote}`}
                label="Words of the topic"
                value={q ?? ""}
                write={(value, replace) => show({ q: value || undefined }, replace)}
              />
              <Switch
                label="Also topics that are not behind"
                checked={all === "1"}
                onChange={(event) => show({ all: event.currentTarget.checked ? "1" : undefined })}
              />
            </search>
            <CausePicker answer={answer} cause={cause} show={show} />
            <Topics
              remote={remote}
              rows={answer.rows}
              cluster={cluster}
              isFiltered={Boolean(q || cause || all)}
              by={by}
            />
          </Panel>
        </>
      )}
    </Page>
  );
}

function Summary({ link }: { link: NonNullable<LinkAnswer["link"]> }) {
  const now = useServerNow();
  const oldest = link.oldest_at;
  return (
    <Panel
      title="Sent"
      note={link.known === "live" ? undefined : `as last known: ${link.silent.join(", ")} does not report`}
    >
      <dl className={styles.filters}>
        <Fact label="Messages/s">{known(link.msg_rate, rate)}</Fact>
        <Fact label="Backlog">{known(link.backlog, count)}</Fact>
        <Fact label="Delay">
          {oldest === null ? "—" : oldest === 0 ? "none" : duration((now - oldest) / 1000)}
        </Fact>
        <Fact label="Topics sent">
          {link.topics === null
            ? "—"
            : `${count(link.topics - (link.stopped ?? 0))} of ${count(link.topics)}`}
        </Fact>
        <Fact label="Received, messages/s">{known(link.received_msg_rate, rate)}</Fact>
      </dl>
    </Panel>
  );
}

/** The causes with their numbers of topics; one shows its topics alone. */
function CausePicker({
  answer,
  cause,
  show,
}: {
  answer: LinkAnswer;
  cause: string | undefined;
  show: (change: { cause: string | undefined }) => void;
}) {
  if (answer.causes.length === 0) return null;
  return (
    <fieldset className={styles.filters}>
      <legend className="visually-hidden">Cause</legend>
      {answer.causes.map((each) => (
        <Button
          key={each.cause}
          size="compact-sm"
          variant={cause === each.cause ? "filled" : "default"}
          aria-pressed={cause === each.cause}
          onClick={() => show({ cause: cause === each.cause ? undefined : each.cause })}
        >
          {`${count(each.topics)} × ${CAUSES[each.cause] ?? each.cause}`}
        </Button>
      ))}
    </fieldset>
  );
}

function Topics({
  rows,
  cluster,
  remote,
  isFiltered,
  by,
}: {
  rows: readonly LinkTopic[];
  cluster: string;
  remote: string;
  isFiltered: boolean;
  by: SortableBy<(typeof LINK_SORTS)[number]>;
}) {
  const now = useServerNow();
  return (
    <Table<LinkTopic>
      caption="Topics of the link"
      rows={rows}
      rowKey={({ name }) => name}
      empty={
        isFiltered ? (
          <Empty title="No topic matches" />
        ) : (
          <Empty title="No topic is behind">Every loaded topic is sent, without a backlog.</Empty>
        )
      }
      columns={[
        {
          ...by("topic"),
          key: "topic",
          header: "Topic",
          cell: ({ tenant, namespace, topic, name }) => (
            <RouterLink
              to="/c/$cluster/t/$tenant/$namespace/$topic"
              params={{ cluster, tenant, namespace, topic }}
              className="topic-link"
            >
              <span className="topic-scope">{`${tenant}/${namespace}/`}</span>
              {name.split("/").at(-1)}
            </RouterLink>
          ),
        },
        {
          ...by("cause"),
          key: "cause",
          header: "Why",
          grow: true,
          cell: ({ cause, why, since }) => (
            <div className={styles.why}>
              <Badge tone={cause === null ? "warn" : "bad"}>
                {cause === null ? "sending, not caught up" : (CAUSES[cause] ?? cause)}
              </Badge>
              {why !== "" && <p lang="en">{why}</p>}
              {since !== null && <p>{`for ${age(since, now)}`}</p>}
            </div>
          ),
        },
        {
          ...by("backlog", true),
          key: "backlog",
          header: "Backlog",
          numeric: true,
          cell: ({ backlog }) => count(backlog),
        },
        {
          ...by("delay", true),
          key: "delay",
          header: "Delay",
          numeric: true,
          cell: ({ oldest_at }) =>
            oldest_at === null ? "—" : oldest_at === 0 ? "none" : duration((now - oldest_at) / 1000),
        },
        {
          ...by("msg_rate", true),
          key: "rate",
          header: "Sent/s",
          numeric: true,
          cell: ({ msg_rate }) => rate(msg_rate),
        },
        {
          key: "audit",
          header: "Analysis",
          headerHidden: true,
          cell: ({ domain, name, topic }) =>
            domain === "persistent" && (
              <AnalyseLink
                place={{ topic: name, other_cluster: remote }}
                analysis="replication-audit"
                label={`Compare ${topic} in both clusters`}
              >
                Compare
              </AnalyseLink>
            ),
        },
        {
          key: "broker",
          header: "Broker",
          wide: true,
          cell: ({ broker }) => (broker ? <span className="mono">{broker}</span> : "none"),
        },
      ]}
    />
  );
}
