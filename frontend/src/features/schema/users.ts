import type { TopicDetail } from "../../api/types";

/** The clients of a topic that use one version of its schema. */
export interface Users {
  producers: TopicDetail["producers"];
  consumers: { subscription: string; name: string; address: string }[];
}

/** Clients by version; null: those without a version. */
export function usersOf(topic: TopicDetail): Map<number | null, Users> {
  const found = new Map<number | null, Users>();
  const of = (version: number | null) => {
    const users = found.get(version) ?? { producers: [], consumers: [] };
    found.set(version, users);
    return users;
  };
  for (const producer of topic.producers) of(producer.schema_version).producers.push(producer);
  for (const { name: subscription, consumers } of topic.subscriptions)
    for (const { name, address, schema_version } of consumers)
      of(schema_version).consumers.push({ subscription, name, address });
  return found;
}
