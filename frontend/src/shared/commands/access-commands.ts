// Grants, tokens and payload rules as command lines.

import type { components, operations } from "../../api/schema";
import { adminPath, type TopicPath } from "./commands";
import { type Commands, curl, line, path } from "./shell";

type Schemas = components["schemas"];

export interface GrantPlace {
  tenant: string;
  /** Without the tenant; absent for a tenant. */
  namespace?: string;
  /** Absent for tenants and namespaces. */
  topic?: TopicPath;
}

const ONLY_HERE = { why: "Only the console has it: Pulsar has no equivalent." };
const only = (text: string): Commands => ({ curl: text, pulsarctl: ONLY_HERE, pulsarAdmin: ONLY_HERE });
const all = (why: string): Commands => ({ curl: { why }, pulsarctl: { why }, pulsarAdmin: { why } });

const nameOf = ({ domain, tenant, namespace, topic }: TopicPath) =>
  `${domain}://${tenant}/${namespace}/${topic}`;

/** Set the words of a role, of which none remove it. */
function changeGrant(
  { tenant, namespace, topic }: GrantPlace,
  { role, words, subscription }: { role: string; words: string[]; subscription?: string },
): Commands {
  if (namespace === undefined)
    return all("A tenant's roles are replaced together: the dialog of the tenant has the command.");
  if (subscription)
    return all("The roles of a subscription are replaced together, which a line of one role cannot do.");
  const tree = namespace.includes("/") ? "/admin" : "/admin/v2";
  const place = topic ? adminPath(topic) : `${tree}/namespaces/${path(tenant, ...namespace.split("/"))}`;
  const name = topic ? nameOf(topic) : `${tenant}/${namespace}`;
  const kind = topic ? "topics" : "namespaces";
  const [grant, revoke] = topic
    ? ["grant-permissions", "revoke-permissions"]
    : ["grant-permission", "revoke-permission"];
  const url = `${place}/permissions/${path(role)}`;
  if (words.length === 0)
    return {
      curl: curl("DELETE", url),
      pulsarctl: line("pulsarctl", kind, revoke, "--role", role, name),
      pulsarAdmin: line("pulsar-admin", kind, revoke, "--role", role, name),
    };
  return {
    curl: curl("POST", url, words),
    pulsarctl: line(
      ...["pulsarctl", kind, grant, "--role", role],
      ...words.flatMap((word) => ["--actions", word]),
      name,
    ),
    pulsarAdmin: line("pulsar-admin", kind, grant, "--role", role, "--actions", words.join(","), name),
  };
}

export const ACCESS_COMMANDS = {
  changeGrant,
  issueToken: (body: Schemas["NewTokenBodyRequest"]) => only(curl("POST", "/api/v1/tokens", body)),
  revokeToken: (id: string) => only(curl("DELETE", `/api/v1/tokens/${path(id)}`)),
  setPayloadRules: (body: Schemas["PayloadRulesBodyRequest"]) =>
    only(curl("PUT", "/api/v1/payload-rules", body)),
} satisfies Partial<Record<keyof operations, unknown>>;
