import { Button } from "@mantine/core";
import { Link, Outlet, useNavigate, useParams } from "@tanstack/react-router";
import type { TopicDetail } from "../../api/types";
import { asApiError, failureOf } from "../../lib/errors";
import { count, plural } from "../../lib/format";
import { Freshness } from "../../shared/freshness";
import type { TopicId } from "../../shared/topic/queries";
import { nameOf, useLiveTopic, useTopic, useTopicId } from "../../shared/topic/use-topic";
import { topicSearchOf } from "../../shared/topic-link";
import { Badge } from "../../ui/badge";
import { Copy } from "../../ui/copy";
import { AnalysesIcon } from "../../ui/icons";
import { Crumb, Page, PageHead } from "../../ui/panel";
import { ErrorNotice, Loading } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import styles from "./topic.module.css";
import { TopicState } from "./topic-state";

export function TopicPage() {
  const id = useTopicId();
  const { cluster } = useParams({ from: "/c/$cluster/t/$tenant/$namespace/$topic" });
  useTitle(id.topic);
  useLiveTopic(id);
  const topic = useTopic(id);
  const navigate = useNavigate();
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
          <Button
            leftSection={<AnalysesIcon />}
            onClick={() => navigate({ to: "/analyses", search: { topic: name } })}
            disabled={id.domain !== "persistent" || isMissing}
            title={id.domain === "persistent" ? undefined : "Only stored messages can be analysed"}
          >
            Analyse
          </Button>
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
      {topic.data ? <Outlet /> : topic.isPending && <Loading label="Loading the topic" rows={8} />}
    </Page>
  );
}

function Tabs({ id, cluster, topic }: { id: TopicId; cluster: string; topic: TopicDetail | undefined }) {
  const tab = {
    params: { cluster, tenant: id.tenant, namespace: id.namespace, topic: id.topic },
    search: topicSearchOf(id),
    activeProps: { "aria-current": "page" },
  } as const;
  return (
    <nav aria-label="Views of the topic" className={styles.tabs}>
      <Link to="/c/$cluster/t/$tenant/$namespace/$topic/overview" {...tab}>
        Overview
      </Link>
      <Link to="/c/$cluster/t/$tenant/$namespace/$topic/subscriptions" {...tab}>
        Subscriptions <span>{topic ? count(topic.subscriptions.length) : "…"}</span>
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
