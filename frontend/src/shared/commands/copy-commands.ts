// Copies of messages as command lines.

import type { components, operations } from "../../api/schema";
import type { TopicRef } from "../topic-link";
import { type Commands, curl, path } from "./shell";

type Body = components["schemas"]["CopyBodyRequest"];
interface CopyAt {
  cluster: string;
  copy_id: string;
}

const ONLY_HERE = { why: "Pulsar's tools cannot copy messages between topics." };
const only = (text: string): Commands => ({ curl: text, pulsarctl: ONLY_HERE, pulsarAdmin: ONLY_HERE });
const at = ({ cluster, copy_id }: CopyAt, verb: string) =>
  `/api/v1/clusters/${path(cluster)}/copies/${path(copy_id)}/${verb}`;

/** A request for the preview, and one that confirms it by the token of its answer. */
function confirmed(url: string, body: object): string {
  const start = curl("POST", url, { token: "TOKEN" }).replace(`'{"token":"TOKEN"}'`, "@-");
  const take = `python3 -c 'import json,sys; print(json.dumps({"token": json.load(sys.stdin)["token"]}))'`;
  return `${curl("POST", url, { ...body, preview: true })} | \\\n${take} | \\\n${start}`;
}

export const COPY_COMMANDS = {
  copyMessages: (topic: TopicRef & { cluster: string }, body: Omit<Body, "preview" | "token">) =>
    only(
      confirmed(
        `/api/v1/clusters/${path(topic.cluster, "topics", topic.domain, topic.tenant, topic.namespace, topic.topic)}/copies`,
        body,
      ),
    ),
  stopCopy: (copy: CopyAt) => only(curl("POST", at(copy, "stop"), {})),
  resumeCopy: (copy: CopyAt) => only(curl("POST", at(copy, "resume"), {})),
  undoCopy: (copy: CopyAt) => only(confirmed(at(copy, "undo"), {})),
} satisfies Partial<Record<keyof operations, unknown>>;
