// @vitest-environment jsdom
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, test, vi } from "vitest";
import { PolicyDialog } from "./policy-dialog";
import type { Namespace, Policy } from "./queries";

afterEach(() => vi.unstubAllGlobals());

const id = { cluster: "c", tenant: "t", namespace: "n" };
const ttl: Policy = {
  name: "messageTTL",
  title: "Message TTL",
  meaning: "Messages older than this count as acknowledged; 0 is never",
  parts: [
    { name: "", type: "integer", optional: false, minimum: "0", maximum: "2147483647", unit: "seconds" },
  ],
  topics_own: true,
  value: 0,
  level: "broker",
  own: null,
  inherited: 0,
};

/** A gateway that answers each PUT with the next of these, and the namespace with `row` in it. */
function gateway(answers: [number, unknown][], row: Policy) {
  const sent: unknown[] = [];
  const namespace: Namespace = {
    ...{ tenant: "t", name: "n", bundles: 4, topics: 3, first_topics: [], unknown: "" },
    policies: [row],
  };
  vi.stubGlobal("fetch", async (request: Request) => {
    if (request.method === "GET") return Response.json(namespace);
    sent.push(await request.json());
    const [status, body] = answers.shift() ?? [500, {}];
    return Response.json(body, { status });
  });
  return sent;
}

function open() {
  render(
    <MantineProvider>
      <QueryClientProvider client={new QueryClient()}>
        <PolicyDialog id={id} policy={ttl} topics={3} onClose={() => {}} />
      </QueryClientProvider>
    </MantineProvider>,
  );
  return userEvent.setup();
}

test("what somebody else changed meanwhile is shown, and saved over only when asked again", async () => {
  const theirs: Policy = { ...ttl, value: 60, level: "namespace", own: 60 };
  const ours: Policy = { ...theirs, value: 600, own: 600 };
  const sent = gateway(
    [
      [409, { reason: "messageTTL was changed meanwhile" }],
      [200, ours],
    ],
    theirs,
  );
  const user = open();
  const field = screen.getByRole("textbox");
  await user.clear(field);
  await user.type(field, "600{Enter}");
  expect((await screen.findByRole("alert")).textContent).toContain(
    "It is set here to 1 min (60 seconds) now",
  );
  expect(screen.getByText(/^From 1 min \(60 seconds\), set by this namespace, to 10 min/)).toBeTruthy();
  expect((field as HTMLInputElement).value).toBe("600");
  await user.click(screen.getByRole("button", { name: "Save" }));
  expect((await screen.findByRole("status")).textContent).toContain("Message TTL is 10 min (600 seconds)");
  expect(sent).toEqual([
    { value: 600, expected: null },
    { value: 600, expected: 60 },
  ]);
});

test("a value that the server refuses is said at its field", async () => {
  const sent = gateway([[412, { reason: "messageTTL is too long for us" }]], ttl);
  const user = open();
  const field = screen.getByRole("textbox");
  await user.clear(field);
  await user.click(screen.getByRole("button", { name: "Save" }));
  expect(screen.getByText("Give a value")).toBeTruthy();
  expect(sent).toEqual([]);
  expect(document.activeElement).toBe(field);
  await user.type(field, "9");
  await user.click(screen.getByRole("button", { name: "Save" }));
  await screen.findByText("messageTTL is too long for us");
  await waitFor(() => expect(field.getAttribute("aria-invalid")).toBe("true"));
  expect(document.activeElement).toBe(field);
  await user.type(field, "0");
  expect(screen.queryByText("messageTTL is too long for us")).toBeNull();
});
