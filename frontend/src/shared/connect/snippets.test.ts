import { expect, test } from "vitest";
import { LANGUAGES, problemOfTopic } from "./snippets";

const instance = {
  brokerUrl: "pulsar://10.0.0.7:16650",
  httpUrl: "https://console.example:8443",
  topic: "tenant/space/orders",
  authentication: false,
};

test.each(LANGUAGES.map((language) => [language.label, language] as const))(
  "the %s program names this instance's addresses and the topic, and a token only where one is needed",
  (label, { program }) => {
    const text = program(instance);
    expect(text).toContain("tenant/space/orders");
    const address =
      label === "curl"
        ? "https://console.example:8443/admin/v2/"
        : label === "WebSocket"
          ? "wss://console.example:8443/ws/v2/"
          : "pulsar://10.0.0.7:16650";
    expect(text).toContain(address);
    expect(text).not.toMatch(/token/i);
    expect(program({ ...instance, authentication: true })).toMatch(/token/i);
  },
);

test("a name that a program cannot contain is refused with a reason", () => {
  expect(problemOfTopic("public/default/hello-1.x_y")).toBeNull();
  for (const name of ["hello", "a/b", "a/b/", 'a/b/c"', "a/b/c d", "a/b/c/d"])
    expect(problemOfTopic(name)).not.toBeNull();
});
