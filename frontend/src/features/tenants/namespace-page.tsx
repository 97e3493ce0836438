import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { failureOf } from "../../lib/errors";
import { plural, time } from "../../lib/format";
import { Badge } from "../../ui/badge";
import { Copy } from "../../ui/copy";
import { Crumb, Page, PageHead, Panel } from "../../ui/panel";
import { ErrorNotice, Loading, Notice } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import { NamespaceDeletion } from "./deletions";
import { ReadAt } from "./listing";
import { PolicyDialog } from "./policy-dialog";
import { namespaceQuery, type Policy } from "./queries";
import styles from "./tenants.module.css";
import { describe, type Value } from "./values";

const route = getRouteApi("/c/$cluster/tenants/$tenant/$namespace");

export function NamespacePage() {
  const id = route.useParams();
  const name = `${id.tenant}/${id.namespace}`;
  useTitle(name);
  const navigate = useNavigate();
  const found = useQuery(namespaceQuery(id));
  const [change, setChange] = useState<{ policy: Policy; remove: boolean } | null>(null);
  const [deletion, setDeletion] = useState(false);
  const shown = found.data;
  const set = shown?.policies.filter((policy) => policy.own !== null).length ?? 0;
  return (
    <Page>
      <PageHead
        crumbs={
          <>
            <Crumb>
              <Link to="/c/$cluster/tenants" params={{ cluster: id.cluster }}>
                Tenants
              </Link>
            </Crumb>
            <Crumb>
              <Link to="/c/$cluster/tenants/$tenant" params={{ cluster: id.cluster, tenant: id.tenant }}>
                {id.tenant}
              </Link>
            </Crumb>
          </>
        }
        title={
          <>
            {id.namespace}
            <Copy value={name} what="the full name" />
          </>
        }
        badges={
          shown && (
            <>
              <Link
                to="/c/$cluster/topics"
                params={{ cluster: id.cluster }}
                search={{ tenant: id.tenant, namespace: id.namespace }}
              >
                <Badge tone="accent">{plural(shown.topics, "stored topic")}</Badge>
              </Link>
              <Badge>{plural(shown.bundles, "bundle")}</Badge>
            </>
          )
        }
        freshness={<ReadAt at={found.dataUpdatedAt} failed={found.isError} />}
        actions={
          <Button variant="default" disabled={!shown} onClick={() => setDeletion(true)}>
            Delete…
          </Button>
        }
      />
      {failureOf(found) && (
        <ErrorNotice
          error={found.error}
          title={
            shown
              ? `The namespace could not be read again; this is from ${time(found.dataUpdatedAt)}`
              : `${name} could not be read`
          }
          onRetry={() => found.refetch()}
        />
      )}
      {shown?.unknown && (
        <Notice tone="warning">
          <p>
            No broker says what holds where nothing is set here: {shown.unknown}. What is set here is known,
            and can be changed once a broker answers.
          </p>
        </Notice>
      )}
      {found.isPending && !found.error && <Loading label="Loading the namespace" rows={10} />}
      {shown && (
        <Panel title="Policies" note={`${set} of ${shown.policies.length} set here`} flush>
          <ul className={styles.policies}>
            {shown.policies.map((policy) => (
              <PolicyItem
                key={policy.name}
                policy={policy}
                editable={shown.unknown === ""}
                onChange={(remove) => setChange({ policy, remove })}
              />
            ))}
          </ul>
        </Panel>
      )}
      {change && shown && (
        <PolicyDialog id={id} {...change} topics={shown.topics} onClose={() => setChange(null)} />
      )}
      {deletion && (
        <NamespaceDeletion
          id={id}
          onClose={() => setDeletion(false)}
          onDone={() =>
            navigate({
              to: "/c/$cluster/tenants/$tenant",
              params: { cluster: id.cluster, tenant: id.tenant },
            })
          }
        />
      )}
    </Page>
  );
}

function PolicyItem({
  policy,
  editable,
  onChange,
}: {
  policy: Policy;
  editable: boolean;
  onChange: (remove: boolean) => void;
}) {
  const isOwn = policy.own !== null;
  return (
    <li className={styles.policy} aria-label={policy.title}>
      <div>
        <h3>{policy.title}</h3>
        <p className={styles.dim}>{policy.meaning}</p>
      </div>
      <dl className={styles.force}>
        <dt className="visually-hidden">In force</dt>
        <dd>{describe(policy, policy.value as Value)}</dd>
        {isOwn && (
          <>
            <dt className={styles.dim}>without it</dt>
            <dd className={styles.dim}>{describe(policy, policy.inherited as Value)}</dd>
          </>
        )}
      </dl>
      <div className={styles.source}>
        <Badge tone={isOwn ? "accent" : "neutral"}>{policy.level ?? "unknown"}</Badge>
      </div>
      <div className={styles.actions}>
        {isOwn && (
          <Button
            variant="default"
            size="compact-xs"
            disabled={!editable}
            aria-label={`Remove… ${policy.title}`}
            onClick={() => onChange(true)}
          >
            Remove…
          </Button>
        )}
        <Button
          variant="default"
          size="compact-xs"
          disabled={!editable}
          aria-label={`${isOwn ? "Change" : "Set"}… ${policy.title}`}
          onClick={() => onChange(false)}
        >
          {isOwn ? "Change…" : "Set…"}
        </Button>
      </div>
    </li>
  );
}
