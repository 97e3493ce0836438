import { useQueryClient } from "@tanstack/react-query";
import { getRouteApi, useNavigate, useRouter } from "@tanstack/react-router";
import { lazy, Suspense } from "react";
import { partitionedOf } from "../../lib/url-state";
import { useWhyNot } from "../../shared/access/may";
import { topicQuery } from "../../shared/topic/queries";
import { nameOf, useTopic, useTopicId } from "../../shared/topic/use-topic";
import { ActionButton } from "../../ui/action-button";
import { Panel } from "../../ui/panel";
import { CHANGES, type TopicChange, WORDS } from "./change-words";
import styles from "./manage.module.css";
import { TopicProperties } from "./topic-properties";

const route = getRouteApi("/c/$cluster/t/$tenant/$namespace/$topic/manage");
const TopicChangeDialog = lazy(() =>
  import("./topic-change-dialog").then((module) => ({ default: module.TopicChangeDialog })),
);

/** The ids of the operations in the API's document. */
const OPERATIONS: Record<TopicChange, string> = {
  partitions: "addPartitions",
  unload: "unloadTopic",
  terminate: "terminateTopic",
  delete: "deleteTopic",
};

/** The reason why a change is not possible for this topic; null when it is. */
function obstacle(change: TopicChange, id: { domain: string; topic: string }, partitions: number) {
  if (change === "delete" && partitionedOf(id.topic) !== null)
    return "A partition is deleted with its topic: delete the topic.";
  if (change === "partitions" && partitions === 0) return "The topic was created without partitions.";
  if (change === "terminate" && id.domain !== "persistent") return "It stores no messages.";
  if (change === "terminate" && partitions > 0) return "Terminate its partitions, one by one.";
  return null;
}

export function ManageTab() {
  const id = useTopicId();
  const topic = useTopic(id).data;
  const client = useQueryClient();
  const router = useRouter();
  const { act } = route.useSearch();
  const navigate = useNavigate({ from: "/c/$cluster/t/$tenant/$namespace/$topic/manage" });
  const whyNot = useWhyNot(id.cluster, { topic: nameOf(id) });
  if (!topic) return null;
  const partitions = topic.row.partitions;
  const ask = (change?: TopicChange) =>
    navigate({ search: ({ domain }) => ({ domain, act: change }), replace: change === undefined });
  // By the parameters as they are decoded: an address with a blank is not equal to one with %20.
  const isHere = () =>
    router.state.matches.some(({ params }) =>
      (["cluster", "tenant", "namespace", "topic"] as const).every(
        (name) => (params as Record<string, string>)[name] === id[name],
      ),
    );
  const open = act && obstacle(act, id, partitions) === null ? act : undefined;
  return (
    <>
      {id.domain === "persistent" && <TopicProperties id={id} why={whyNot("setTopicProperties")} />}
      <Panel title="Topic actions" flush>
        <ul className={styles.changes}>
          {CHANGES.map((change) => {
            const why = obstacle(change, id, partitions);
            return (
              <li key={change}>
                <p>{why ? `${WORDS[change].meaning} Not here: ${why}` : WORDS[change].meaning}</p>
                <ActionButton
                  variant="default"
                  disabled={why !== null}
                  why={whyNot(OPERATIONS[change])}
                  onClick={() => ask(change)}
                >
                  {WORDS[change].label}
                </ActionButton>
              </li>
            );
          })}
        </ul>
      </Panel>
      {open && (
        <Suspense fallback={null}>
          <TopicChangeDialog
            id={id}
            change={open}
            partitions={partitions}
            onChanged={() => {
              if (open !== "delete") client.invalidateQueries({ queryKey: topicQuery(id).queryKey });
            }}
            onClose={(isGone) => {
              if (isGone && !isHere()) return; // it was deleted while another page was opened
              if (isGone)
                navigate({
                  to: "/c/$cluster/topics",
                  params: { cluster: id.cluster },
                  search: { tenant: id.tenant, namespace: id.namespace },
                });
              else ask();
            }}
          />
        </Suspense>
      )}
    </>
  );
}
