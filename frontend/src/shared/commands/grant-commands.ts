import { namespaceOf } from "./commands";
import { type Commands, curl, line, path } from "./shell";

interface GrantPlace {
  tenant?: string;
  namespace?: string;
  topic?: string;
}

const ALL_AT_ONCE = "It sets all roles of the list at once, and this changes one of them.";
const why = (text: string): Commands => ({
  curl: { why: text },
  pulsarctl: { why: text },
  pulsarAdmin: { why: text },
});

/** The commands that grant words to a role, or without words take them from it. */
export function grantCommands(
  { tenant = "", namespace = "", topic = "" }: GrantPlace,
  { role, words, subscription }: { role: string; words: string[]; subscription?: string },
): Commands {
  if (subscription || (!namespace && !topic)) return why(ALL_AT_ONCE);
  const isGrant = words.length > 0;
  const method = isGrant ? "POST" : "DELETE";
  const given = isGrant ? ["--role", role, "--actions", words.join(",")] : ["--role", role];
  const verb = isGrant ? "grant" : "revoke";
  const body = isGrant ? words : undefined;
  const call = (base: string) => curl(method, `${base}/permissions/${path(role)}`, body);
  if (topic) {
    const [domain = "", rest = ""] = topic.split("://");
    const parts = rest.split("/");
    // Three slashes mean a legacy name, whose tree has the cluster as a segment.
    const base = `${parts.length > 3 ? "/admin" : "/admin/v2"}/${path(domain, ...parts)}`;
    return {
      curl: call(base),
      pulsarctl: line("pulsarctl", "topics", `${verb}-permissions`, ...given, topic),
      pulsarAdmin: line("pulsar-admin", "topics", `${verb}-permission`, ...given, topic),
    };
  }
  const name = `${tenant}/${namespace}`;
  return {
    curl: call(namespaceOf({ tenant, namespace })),
    pulsarctl: line("pulsarctl", "namespaces", `${verb}-permission`, ...given, name),
    pulsarAdmin: line("pulsar-admin", "namespaces", `${verb}-permission`, ...given, name),
  };
}
