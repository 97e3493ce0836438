import { operationWords } from "../../shared/operation-words";
import { Badge, type Tone } from "../../ui/badge";
import type { AuditRow } from "./queries";

/** Tone and words of an outcome. */
export function outcomeOf(status: number | null): [Tone, string] {
  if (status === null) return ["warn", "outcome not seen"];
  if (status < 400) return ["ok", `done ${status}`];
  return status < 500 ? ["neutral", `refused ${status}`] : ["bad", `failed ${status}`];
}

export function Outcome({ status }: Pick<AuditRow, "status">) {
  const [tone, text] = outcomeOf(status);
  return <Badge tone={tone}>{text}</Badge>;
}

/** The smallest place that an entry is about, as the search reads it; empty: nothing of the kind, or several. */
export function whereText({ topic, namespace, tenant }: AuditRow): string {
  return topic.replace(/^persistent:\/\//, "") || namespace || tenant;
}

/** The operation in words; of an entry without one, method and path. */
export function whatText({ operation, method, target }: AuditRow): string {
  return operationWords(operation) || `${method} ${target}`;
}

/** "ada as billing-admin"; a program has its role only. */
export function whoText({ actor, role }: AuditRow): string {
  if (role === "" || role === actor) return actor || "anonymous";
  return `${actor || "anonymous"} as ${role}`;
}
