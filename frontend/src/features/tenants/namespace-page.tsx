import { useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { failureOf } from "../../lib/errors";
import { plural, time } from "../../lib/format";
import { useWhyNot } from "../../shared/access/may";
import { AnalyseLink } from "../../shared/analyses/analyse-link";
import { PolicyChange } from "../../shared/policies/policy-change";
import { PolicyList } from "../../shared/policies/policy-list";
import type { Policy } from "../../shared/policies/policy-queries";
import { Unloading } from "../../shared/unloading/unloading";
import { ActionButton } from "../../ui/action-button";
import { Badge } from "../../ui/badge";
import { Copy } from "../../ui/copy";
import { Crumb, Page, PageHead } from "../../ui/panel";
import { ErrorNotice, Loading, Notice } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import { NamespaceDeletion } from "./deletions";
import { ReadAt } from "./listing";
import { NamespaceProperties } from "./namespace-properties";
import { namespaceQuery, putPolicy } from "./queries";

const AccessPanel = lazy(() =>
  import("../../shared/access/access-panel").then((module) => ({ default: module.AccessPanel })),
);
const NamespaceSpace = lazy(() =>
  import("./namespace-space").then((module) => ({ default: module.NamespaceSpace })),
);
const route = getRouteApi("/c/$cluster/tenants/$tenant/$namespace");

export function NamespacePage() {
  const id = route.useParams();
  const name = `${id.tenant}/${id.namespace}`;
  useTitle(name);
  const navigate = useNavigate();
  const found = useQuery(namespaceQuery(id));
  const [change, setChange] = useState<{ policy: Policy; remove: boolean } | null>(null);
  const [deletion, setDeletion] = useState(false);
  const [unloading, setUnloading] = useState(false);
  const shown = found.data;
  const client = useQueryClient();
  const whyNot = useWhyNot(id.cluster, { tenant: id.tenant, namespace: id.namespace });
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
          <>
            <AnalyseLink place={{ namespace: name }}>Analyse</AnalyseLink>
            <ActionButton
              variant="default"
              disabled={!shown}
              why={whyNot("unloadNamespace")}
              onClick={() => setUnloading(true)}
            >
              Unload…
            </ActionButton>
            <ActionButton
              variant="default"
              disabled={!shown}
              why={whyNot("deleteNamespace")}
              onClick={() => setDeletion(true)}
            >
              Delete…
            </ActionButton>
          </>
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
            No broker reports the values in force where nothing is set here: {shown.unknown}. What is set here
            is known, and can be changed once a broker answers.
          </p>
        </Notice>
      )}
      {found.isPending && !found.error && <Loading label="Loading the namespace" rows={10} />}
      {shown && (
        <>
          <NamespaceProperties id={id} shown={shown.properties} why={whyNot("setNamespaceProperties")} />
          <PolicyList
            policies={shown.policies}
            editable={shown.unknown === ""}
            why={whyNot("setNamespacePolicy")}
            onChange={(policy, remove) => setChange({ policy, remove })}
          />
        </>
      )}
      {shown && (
        <Suspense>
          <NamespaceSpace key={name} id={id} />
          <AccessPanel cluster={id.cluster} place={{ tenant: id.tenant, namespace: id.namespace }} />
        </Suspense>
      )}
      {change && shown && (
        <PolicyChange
          place={{ level: "namespace", id, topics: shown.topics }}
          {...change}
          onSaved={(row) => putPolicy(client, id, row)}
          onClose={() => setChange(null)}
        />
      )}
      {unloading && <Unloading whose={id} onClose={() => setUnloading(false)} />}
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
