import { queryOptions } from "@tanstack/react-query";
import { answerOf, api } from "../../api/client";
import { type Message, messageQuery, readMessage, valueUrl } from "../../shared/messages/message";
import type { TopicId } from "../../shared/topic/queries";

const SCHEMAS = "/api/v1/clusters/{cluster}/topics/{domain}/{tenant}/{namespace}/{topic}/schemas";
const VALUE_MAX = 700_000;

/** The newest versions of the topic's schema. */
export function schemasQuery(id: TopicId) {
  return queryOptions({
    queryKey: ["schemas", id.cluster, id.domain, id.tenant, id.namespace, id.topic, "to publish"],
    queryFn: ({ signal }) => answerOf(api.GET(SCHEMAS, { params: { path: { ...id }, query: {} }, signal })),
  });
}

export interface Stored {
  message: Message;
  base64: string | null;
  /** The reason for not sending it again from a form. */
  problem: string | null;
}

/** A stored message, with its value in base64 where it is no text that can be encoded again. */
export function storedQuery(id: TopicId, message: string) {
  const read = messageQuery(id, message);
  return queryOptions({
    queryKey: [...read.queryKey, "to send again"],
    queryFn: async (context): Promise<Stored> => {
      const stored = await readMessage(id, message, context.signal);
      const problem =
        stored.kind !== "message"
          ? "It is no whole message that a consumer receives."
          : stored.value.bytes > VALUE_MAX
            ? "Its value is too large for a form."
            : null;
      const isText = stored.value.form !== "bytes" && stored.value.error === null;
      if (isText || problem !== null) return { message: stored, base64: null, problem };
      const answer = await fetch(valueUrl(id, message), { signal: context.signal });
      const octets = new Uint8Array(await answer.arrayBuffer());
      const characters = Array.from(octets, (octet) => String.fromCharCode(octet)).join("");
      return { message: stored, base64: btoa(characters), problem };
    },
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  });
}
