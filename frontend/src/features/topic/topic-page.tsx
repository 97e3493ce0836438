import { Button } from "@mantine/core";
import { Link, Outlet, useLocation, useMatchRoute, useNavigate, useParams } from "@tanstack/react-router";
import type { TopicDetail } from "../../api/types";
import { asApiError, failureOf } from "../../lib/errors";
import { count, plural } from "../../lib/format";
import { afterName, withMoments } from "../../lib/moments";
import { Freshness } from "../../shared/freshness";
import { lackOfPage, useLacks } from "../../shared/lacking/lacking";
import { NotHere } from "../../shared/lacking/not-here";
import type { TopicId } from "../../shared/topic/queries";
import { nameOf, useLiveTopic, useTopic, useTopicId } from "../../shared/topic/use-topic";
import { topicSearchOf } from "../../shared/topic-link";
import { Badge } from "../../ui/badge";
import { Copy } from "../../ui/copy";
import { AnalysesIcon } from "../../ui/icons";
import { Crumb, Page, PageHead } from "../../ui/panel";
import { ErrorNotice, Loading, Notice } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import { numbers } from "./partition-numbers";
import { heldUp, summaryOf } from "./subscription-state";
import styles from "./topic.module.css";

export function TopicPage() {
  const id = useTopicId();
  const { cluster } = useParams({ from: "/c/$cluster/t/$tenant/$namespace/$topic" });
  useTitle(id.topic);
  useLiveTopic(id);
  const topic = useTopic(id);
  const navigate = useNavigate();
  const lacks = useLacks();
  const lack = lackOfPage(useLocation({ select: ({ pathname }) => pathname }), lacks);
  const name = nameOf(id);
  const isMissing =
    topic.data === undefined && topic.error !== null && asApiError(topic.error).status === 404;
  return (
    <Page>
      <PageHead
        crumbs={
          <>
            <Crumb>
              <Link to="/c/$cluster/topics" params={{ cluster }}>
                Topics
              </Link>
            </Crumb>
            <Crumb>
              <Link to="/c/$cluster/topics" params={{ cluster }} search={{ tenant: id.tenant }}>
                {id.tenant}
              </Link>
            </Crumb>
            <Crumb>
              <Link
                to="/c/$cluster/topics"
                params={{ cluster }}
                search={{ tenant: id.tenant, namespace: id.namespace }}
              >
                {id.namespace}
              </Link>
            </Crumb>
          </>
        }
        title={
          <>
            {id.topic}
            <Copy value={name} what="the full topic name" />
          </>
        }
        badges={topic.data && <Badges topic={topic.data} cluster={cluster} />}
        freshness={topic.data && <Freshness at={topic.data.at} />}
        actions={
          !lacks.analyses && (
            <Button
              leftSection={<AnalysesIcon />}
              onClick={() => navigate({ to: "/analyses", search: { topic: name } })}
              disabled={id.domain !== "persistent" || isMissing}
              title={id.domain === "persistent" ? undefined : "Only stored messages can be analysed"}
            >
              Analyse
            </Button>
          )
        }
      />
      {!isMissing && <Tabs id={id} cluster={cluster} topic={topic.data} />}
      {failureOf(topic) && (
        <ErrorNotice
          error={topic.error}
          title={
            isMissing
              ? "Topic not found"
              : topic.data
                ? "The topic could not be refreshed"
                : `${name} could not be read`
          }
          onRetry={() => topic.refetch()}
        />
      )}
      {topic.data && <TopicState topic={topic.data} id={id} />}
      {lack ? (
        <NotHere why={lack} />
      ) : topic.data ? (
        <Outlet />
      ) : (
        topic.isPending && <Loading label="Loading the topic" rows={8} />
      )}
    </Page>
  );
}

function Tabs({ id, cluster, topic }: { id: TopicId; cluster: string; topic: TopicDetail | undefined }) {
  const tab = {
    params: { cluster, tenant: id.tenant, namespace: id.namespace, topic: id.topic },
    search: topicSearchOf(id),
    activeProps: { "aria-current": "page" },
  } as const;
  const lacks = useLacks();
  const isOfMessages = useLocation({ select: ({ pathname }) => /\/(tail|publish)$/.test(pathname) });
  return (
    <nav aria-label="Views of the topic" className={styles.tabs}>
      <Link to="/c/$cluster/t/$tenant/$namespace/$topic/overview" {...tab}>
        Overview
      </Link>
      <Link to="/c/$cluster/t/$tenant/$namespace/$topic/subscriptions" {...tab}>
        Subscriptions <span>{topic ? count(topic.subscriptions.length) : "…"}</span>
      </Link>
      <Link
        to="/c/$cluster/t/$tenant/$namespace/$topic/messages"
        {...tab}
        {...(isOfMessages && tab.activeProps)}
      >
        Messages
      </Link>
      <Link to="/c/$cluster/t/$tenant/$namespace/$topic/schema" {...tab}>
        Schema
      </Link>
      <Link to="/c/$cluster/t/$tenant/$namespace/$topic/policies" {...tab}>
        Policies
      </Link>
      <Link to="/c/$cluster/t/$tenant/$namespace/$topic/manage" {...tab}>
        Manage
      </Link>
      {!lacks.traces && (
        <Link to="/c/$cluster/t/$tenant/$namespace/$topic/traces" {...tab}>
          Traces
        </Link>
      )}
      {!lacks.grants && (
        <Link to="/c/$cluster/t/$tenant/$namespace/$topic/access" {...tab}>
          Access
        </Link>
      )}
      {topic && topic.row.partitions > 0 && (
        <Link to="/c/$cluster/t/$tenant/$namespace/$topic/partitions" {...tab}>
          Partitions <span>{count(topic.row.partitions)}</span>
        </Link>
      )}
    </nav>
  );
}

function Badges({ topic, cluster }: { topic: TopicDetail; cluster: string }) {
  return (
    <>
      <Badge>{topic.row.domain}</Badge>
      {topic.row.partitions > 0 && <Badge>{plural(topic.row.partitions, "partition")}</Badge>}
      {topic.owner ? (
        <Badge>
          owned by{" "}
          <Link
            to="/c/$cluster/bundles"
            params={{ cluster }}
            search={{ broker: topic.owner, q: `${topic.row.tenant}/${topic.row.namespace}` }}
          >
            {topic.owner}
          </Link>
        </Badge>
      ) : (
        topic.row.partitions === 0 && <Badge tone="warn">no owner</Badge>
      )}
    </>
  );
}

const NAMED_MAX = 3;
const CARDS = "/c/$cluster/t/$tenant/$namespace/$topic/subscriptions";

/**
 * Problems of the topic, its partitions and its subscriptions, above all numbers; without problems a summary of the
 * subscriptions. Always present, since a line that appears later would move all numbers below it.
 */
export function TopicState({ topic, id }: { topic: TopicDetail; id: TopicId }) {
  const matchRoute = useMatchRoute();
  const { trouble, subscriptions } = topic;
  const held = heldUp(subscriptions);
  // A few cards are all in sight, and each states its own cause.
  const hasCards = subscriptions.length <= NAMED_MAX && Boolean(matchRoute({ to: CARDS }));
  const named = hasCards ? [] : held.slice(0, NAMED_MAX);
  const missing = missingText(topic);
  if (trouble === null && missing === null && named.length === 0)
    return hasCards ? null : <p className={styles.state}>{summaryOf(subscriptions)}</p>;
  const isError = trouble?.severity === "error" || named.some(({ lag }) => lag?.severity === "error");
  return (
    <Notice tone={isError ? "error" : "warning"}>
      {trouble && <p lang="en">{withMoments(trouble.title, topic.at)}.</p>}
      {missing && <p>{missing}</p>}
      {named.map(({ name, lag }) => (
        <p key={name}>
          <Link to={CARDS} params={id} search={topicSearchOf(id)} hash={encodeURIComponent(name)}>
            {name}
          </Link>{" "}
          {lag && (
            <>
              <span lang="en">{afterName("", lag.title).trim()}</span>:{" "}
              <span lang="en">{withMoments(lag.detail, topic.at)}</span>
            </>
          )}
        </p>
      ))}
      {!hasCards && held.length > NAMED_MAX && (
        <p>and {plural(held.length - NAMED_MAX, "more subscription")}</p>
      )}
    </Notice>
  );
}

/** The visible fields of partitions that have only a last known row; null: all of them answer. */
function missingText(topic: TopicDetail): string | null {
  const missing = topic.missing.flatMap((number) => (number === null ? [] : [number]));
  if (missing.length === 0) return null;
  const several = missing.length > 1;
  return (
    `${several ? "Partitions" : "Partition"} ${numbers(missing, 0)} ${several ? "do" : "does"} not answer: ` +
    `${several ? "their" : "its"} backlog and rates are the last known ones, producers, subscriptions and ledgers ` +
    "are those of the other partitions."
  );
}
