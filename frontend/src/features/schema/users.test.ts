import { expect, test } from "vitest";
import type { TopicDetail } from "../../api/types";
import { usersOf } from "./users";

test("clients are listed by version, with those without one", () => {
  const topic = {
    producers: [
      { name: "old", schema_version: 0 },
      { name: "new", schema_version: 2 },
      { name: "bytes", schema_version: null },
    ],
    subscriptions: [
      { name: "s", consumers: [{ name: "c", address: "a", schema_version: 2 }] },
      { name: "t", consumers: [{ name: "d", address: "b", schema_version: null }] },
    ],
  } as unknown as TopicDetail;
  const users = usersOf(topic);
  expect(users.get(0)?.producers.map(({ name }) => name)).toEqual(["old"]);
  expect(users.get(2)?.consumers).toEqual([{ subscription: "s", name: "c", address: "a" }]);
  expect(users.get(null)?.producers).toHaveLength(1);
  expect(users.get(1)).toBeUndefined();
});
