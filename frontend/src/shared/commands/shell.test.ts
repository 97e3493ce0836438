// @vitest-environment jsdom
import { expect, test } from "vitest";
import { withCredential } from "./shell";

test("every command of a line carries the credential by reference", () => {
  const by = '-H "@$PULSAR_HEADER_FILE"';
  expect(withCredential("curl -f -X PUT 'https://a/x' && \\\ncurl -f -X PUT https://a/y")).toBe(
    `curl ${by} -f -X PUT 'https://a/x' && \\\ncurl ${by} -f -X PUT https://a/y`,
  );
  expect(withCredential("a | \\\nwhile read -r b; do curl -f $b; done")).toContain(`do curl ${by} -f`);
  expect(withCredential("pulsarctl tenants delete a")).toBe(
    'pulsarctl --token-file "$PULSAR_TOKEN_FILE" tenants delete a',
  );
  expect(withCredential("pulsar-admin topics delete 'curl -x'")).toMatch(
    /^pulsar-admin --auth-plugin \S+ --auth-params "file:\/\/\$PULSAR_TOKEN_FILE" topics delete 'curl -x'$/,
  );
});
