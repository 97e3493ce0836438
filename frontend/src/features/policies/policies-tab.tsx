import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { failureOf } from "../../lib/errors";
import { partitionedOf } from "../../lib/url-state";
import { useWhyNot } from "../../shared/access/may";
import { PolicyChange } from "../../shared/policies/policy-change";
import { PolicyList } from "../../shared/policies/policy-list";
import { type Policy, topicPoliciesQuery } from "../../shared/policies/policy-queries";
import type { TopicId } from "../../shared/topic/queries";
import { nameOf, useTopicId } from "../../shared/topic/use-topic";
import { TopicLink } from "../../shared/topic-link";
import { ErrorNotice, Loading, Notice } from "../../ui/states";

export function PoliciesTab() {
  const id = useTopicId();
  const partitioned = partitionedOf(id.topic);
  const namespace = (
    <Link
      to="/c/$cluster/tenants/$tenant/$namespace"
      params={{ cluster: id.cluster, tenant: id.tenant, namespace: id.namespace }}
    >
      {id.tenant}/{id.namespace}
    </Link>
  );
  if (id.domain !== "persistent")
    return (
      <Notice tone="info">
        <p>A topic that is not persistent has no policies of its own: those of {namespace} hold.</p>
      </Notice>
    );
  if (partitioned !== null)
    return (
      <Notice tone="info">
        <p>
          A partition has the policies of its topic,{" "}
          <TopicLink topic={{ ...id, topic: partitioned }} tab="policies" scope={false} />.
        </p>
      </Notice>
    );
  return <OfTopic id={id} />;
}

function OfTopic({ id }: { id: TopicId }) {
  const client = useQueryClient();
  const query = topicPoliciesQuery(id);
  const found = useQuery(query);
  const [change, setChange] = useState<{ policy: Policy; remove: boolean } | null>(null);
  const whyNot = useWhyNot(id.cluster, { topic: nameOf(id) });
  const policies = found.data?.policies;
  return (
    <>
      {failureOf(found) && (
        <ErrorNotice
          error={found.error}
          title={policies ? "The policies could not be read again" : "The policies could not be read"}
          onRetry={() => found.refetch()}
        />
      )}
      {found.isPending && !found.error && <Loading label="Loading the policies" rows={10} />}
      {policies && (
        <PolicyList
          policies={policies}
          editable={!found.isError}
          why={whyNot("setTopicPolicy")}
          onChange={(policy, remove) => setChange({ policy, remove })}
        />
      )}
      {change && (
        <PolicyChange
          place={{ level: "topic", id }}
          {...change}
          onSaved={(row) =>
            client.setQueryData(
              query.queryKey,
              (before) =>
                before && {
                  policies: before.policies.map((one) => (one.name === row.name ? row : one)),
                },
            )
          }
          onClose={() => setChange(null)}
        />
      )}
    </>
  );
}
