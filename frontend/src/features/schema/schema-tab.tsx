import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { useLive, usePolling } from "../../api/live";
import type { SchemaVersions, TopicDetail } from "../../api/types";
import { failureOf } from "../../lib/errors";
import { useWhyNot } from "../../shared/access/may";
import { nameOf, useTopic, useTopicId } from "../../shared/topic/use-topic";
import { ActionButton } from "../../ui/action-button";
import { Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { CandidatePanel } from "./candidate";
import { DefinitionPanel } from "./definition";
import { DeleteDialog } from "./delete-dialog";
import { versionsQuery } from "./queries";
import styles from "./schema.module.css";
import { usersOf } from "./users";
import { VersionsPanel } from "./versions";

const route = getRouteApi("/c/$cluster/t/$tenant/$namespace/$topic/schema");

/** Versions of the topic's schema with their clients, one or two of them side by side, and a candidate's effect. */
export function SchemaTab() {
  const id = useTopicId();
  const topic = useTopic(id).data;
  const { before } = route.useSearch();
  useLive("schemas", { ...id }, versionsQuery(id).queryKey);
  const newest = useQuery({ ...versionsQuery(id), refetchInterval: usePolling() });
  const older = useQuery({ ...versionsQuery(id, before), enabled: before !== undefined });
  const listed = before === undefined ? newest : older;
  if (!topic) return null;
  return (
    <>
      {failureOf(listed) && (
        <ErrorNotice
          error={listed.error}
          title={listed.data ? "The versions could not be refreshed" : "The schema could not be read"}
          onRetry={() => listed.refetch()}
        />
      )}
      {listed.data && newest.data ? (
        <Content topic={topic} listed={listed.data} newest={newest.data} />
      ) : (
        listed.isPending && <Loading label="Loading the schema" rows={8} />
      )}
    </>
  );
}

function Content({
  topic,
  listed,
  newest,
}: {
  topic: TopicDetail;
  listed: SchemaVersions;
  newest: SchemaVersions;
}) {
  const id = useTopicId();
  const search = route.useSearch();
  const [deleting, setDeleting] = useState(false);
  const whyNot = useWhyNot(id.cluster, { topic: nameOf(id) });
  const users = useMemo(() => usersOf(topic), [topic]);
  const shown = search.version ?? (newest.newest >= 0 ? newest.newest : null);
  return (
    <>
      {newest.total === 0 && search.version === undefined ? (
        <Panel title="Versions" flush>
          <Empty title="No schema">
            Messages of this topic are bytes whose content is not checked. The first producer with a schema
            registers it; a candidate can be registered below.
          </Empty>
        </Panel>
      ) : (
        <div className={styles.sides}>
          <VersionsPanel
            listed={listed}
            newest={newest}
            users={users}
            shown={shown}
            actions={
              newest.total > 0 && (
                <ActionButton
                  variant="default"
                  size="compact-xs"
                  why={whyNot("deleteSchemas")}
                  onClick={() => setDeleting(true)}
                >
                  Delete…
                </ActionButton>
              )
            }
          />
          {shown !== null && (
            <DefinitionPanel
              key={shown}
              id={id}
              version={shown}
              compared={search.with}
              others={listed.versions}
              users={users.get(shown)}
            />
          )}
        </div>
      )}
      <CandidatePanel id={id} newest={newest} shown={shown} />
      {deleting && <DeleteDialog id={id} newest={newest} users={users} onClose={() => setDeleting(false)} />}
    </>
  );
}
