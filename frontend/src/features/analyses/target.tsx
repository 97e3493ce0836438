import { Link } from "@tanstack/react-router";
import { parseNamespace, parseTopicName } from "../../lib/url-state";
import type { Place } from "../../shared/access/may";
import { TopicLink, useCluster } from "../../shared/topic-link";

/** A full topic name as a link to its page; any other text as it is. */
export function TopicName({ name }: { name: string }) {
  const topic = parseTopicName(name);
  return topic ? <TopicLink topic={topic} /> : <span className="mono">{name}</span>;
}

/** The target of an analysis, as a link to its page where it has one. */
export function TargetName({ kind, name }: { kind: string; name: string }) {
  const cluster = useCluster();
  if (kind === "cluster") return <>the whole cluster</>;
  if (kind === "topic") return <TopicName name={name} />;
  if (kind === "tenant")
    return (
      <Link to="/c/$cluster/tenants/$tenant" params={{ cluster, tenant: name }}>
        {name}
      </Link>
    );
  return (
    <Link to="/c/$cluster/tenants/$tenant/$namespace" params={{ cluster, ...parseNamespace(name) }}>
      {name}
    </Link>
  );
}

/** The place whose rights count for an analysis of a target. */
export function placeOfTarget(kind: string, target: string): Place {
  if (kind === "topic") return { topic: target };
  if (kind === "namespace") return parseNamespace(target);
  return kind === "tenant" ? { tenant: target } : {};
}
