// @vitest-environment jsdom
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, configure, render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import type { ReactNode } from "react";
import { afterEach, expect, test, vi } from "vitest";
import { DeleteSubscriptionDialog } from "./delete-subscription-dialog";
import { DisconnectDialog } from "./disconnect-dialog";

configure({ asyncUtilTimeout: 30_000 });
vi.setConfig({ testTimeout: 60_000 });
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

const id = { cluster: "c", domain: "persistent", tenant: "t", namespace: "n", topic: "x" } as const;
const PREVIEW = {
  ...{ token: "t", at: 1, force: false, partitions: 3, durable: true, type: "Shared" },
  ...{ entries: 12, messages: 12, exact: true, consumers: [] as object[], unread: [] },
};
const CONSUMER = { name: "c", address: "c:1", partition: null, connected: 1, unacked: 3 };

const shown = (dialog: ReactNode) =>
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient()}>{dialog}</QueryClientProvider>
    </MantineProvider>,
  );

const deletion = (consumers: number) => (
  <DeleteSubscriptionDialog
    id={id}
    subscription="s"
    consumers={consumers}
    onChanged={() => {}}
    onClose={() => {}}
  />
);

test("a deletion on some partitions names them, and is no success", async () => {
  vi.stubGlobal("fetch", async (request: Request) => {
    if ((await request.json()).preview) return Response.json(PREVIEW);
    const parts = [
      { partition: 0, done: true, entries: 4, later: 0 },
      { partition: 1, done: false, why: "unknown", reason: "Broker did not answer" },
      { partition: 2, done: true, entries: 4, later: 0 },
    ];
    const body = { at: 1, done: false, entries: 8, later: 0, parts, reason: "It is not known whether …" };
    return Response.json(body, { status: 503 });
  });
  const user = userEvent.setup();
  shown(deletion(0));
  await user.click(await screen.findByRole("button", { name: "Delete with 12 unacknowledged messages" }));
  const alert = await screen.findByRole("alert");
  expect(alert.textContent).toContain("It was done on some partitions only");
  expect(alert.textContent).toContain("Partition 1: Broker did not answer");
  expect(alert.textContent).toContain("Done: partition 0, partition 2.");
  expect(screen.queryByText("Done", { exact: true })).toBeNull();
});

test("consumers that are connected are disconnected only when that is chosen", async () => {
  const asked: object[] = [];
  vi.stubGlobal("fetch", async (request: Request) => {
    const body = await request.json();
    asked.push(body);
    return Response.json({ ...PREVIEW, force: body.force, consumers: [CONSUMER] });
  });
  const user = userEvent.setup();
  shown(deletion(1));
  await screen.findByText(/1 consumer is connected: stop it first/);
  const button = () => screen.getByRole("button", { name: "Delete with 12 unacknowledged messages" });
  expect(button()).toHaveProperty("disabled", true);
  await user.click(screen.getByRole("checkbox", { name: "Disconnect its consumer" }));
  await screen.findByText(/it will be disconnected/);
  await waitFor(() => expect(button()).toHaveProperty("disabled", false));
  expect(asked).toEqual([
    { preview: true, force: false },
    { preview: true, force: true },
  ]);
});

test("a consumer is chosen among several before one is disconnected", async () => {
  const asked: object[] = [];
  vi.stubGlobal("fetch", async (request: Request) => {
    const body = await request.json();
    asked.push(body);
    if (!body.preview) return Response.json({ at: 1, disconnected: 1 });
    return Response.json({
      token: "t",
      at: 1,
      type: "Shared",
      durable: true,
      consumers: [CONSUMER],
      others: 1,
    });
  });
  const user = userEvent.setup();
  const one = { name: "c", address: "c:1", partition: null };
  shown(
    <DisconnectDialog
      id={id}
      subscription="s"
      consumer={undefined}
      consumers={[{ ...one, name: "b" }, one]}
      onChanged={() => {}}
      onClose={() => {}}
    />,
  );
  expect(asked).toEqual([]);
  await user.selectOptions(await screen.findByLabelText("Consumer"), "c (c:1)");
  await screen.findByText(/may reconnect at once/);
  const button = screen.getByRole("button", { name: "Disconnect" });
  await waitFor(() => expect(button).toHaveProperty("disabled", false));
  await user.click(button);
  await screen.findByText(/The consumer was disconnected/);
  expect(asked).toEqual([
    { preview: true, ...one },
    { preview: false, token: "t" },
  ]);
});
