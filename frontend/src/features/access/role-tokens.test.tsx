// @vitest-environment jsdom
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { configure, render, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, test, vi } from "vitest";
import { session } from "../../api/session/session";
import { RoleTokens } from "./role-tokens";

configure({ asyncUtilTimeout: 30_000 });
vi.setConfig({ testTimeout: 60_000 });
const sent: [string, string, unknown][] = [];
/** The parameters of the lists that were asked for. */
const asked: Record<string, string>[] = [];
afterEach(() => {
  vi.unstubAllGlobals();
  session.view = { session: null, ended: null, viewer: 0 };
  sent.length = 0;
  asked.length = 0;
});

const ROW = {
  ...{ id: "3", token_id: "j", name: "ci", role: "app", level: "read", kind: "role", person: "" },
  ...{ created_by: "ada", created_at: 1, expires_at: null, used_at: null, revoked_at: null },
  revoked_by: "",
};

function show(reads_everything = true, obstacle = "") {
  session.view.session = {
    authentication: true,
    person: { name: "ada", reads_everything, viewing_as: null },
  } as never;
  let row: object = ROW;
  vi.stubGlobal("fetch", async (request: Request) => {
    const url = new URL(request.url);
    if (request.method === "GET") {
      asked.push(Object.fromEntries(url.searchParams));
      return Response.json({ obstacle, total: 120, offset: 0, limit: 100, rows: [row] });
    }
    const text = await request.text();
    sent.push([request.method, url.pathname, text ? JSON.parse(text) : null]);
    if (request.method === "POST") return Response.json({ token: "SECRET", row: ROW }, { status: 201 });
    row = { ...ROW, revoked_at: 5 };
    return Response.json(row);
  });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient()}>
        <RoleTokens cluster="standalone" role={ROW.role} />
      </QueryClientProvider>
    </MantineProvider>,
  );
  return userEvent.setup();
}

test("a token is created with level and expiry, and is shown once", async () => {
  const user = show();
  await screen.findByText("ci");
  await user.click(screen.getByRole("button", { name: "New token…" }));
  const dialog = await screen.findByRole("dialog");
  await user.type(within(dialog).getByLabelText("Name"), "nightly");
  await user.selectOptions(within(dialog).getByLabelText("Level"), "full");
  await user.selectOptions(within(dialog).getByLabelText("Expires after"), "Never");
  await user.click(within(dialog).getByRole("button", { name: "Create token" }));
  await screen.findByText("SECRET");
  const body = { name: "nightly", role: "app", level: "full", expires_in_s: null };
  expect(sent).toEqual([["POST", "/api/v1/tokens", body]]);
  await user.click(screen.getByRole("button", { name: "Close" }));
  await vi.waitFor(() => expect(screen.queryByText("SECRET")).toBeNull());
});

test("a token is revoked once that is confirmed", async () => {
  const user = show();
  await user.click(await screen.findByRole("button", { name: "Revoke… ci" }));
  expect(sent).toEqual([]);
  await user.click(await screen.findByRole("button", { name: "Revoke" }));
  await screen.findByText("ci is revoked.");
  expect(sent).toEqual([["DELETE", "/api/v1/tokens/3", null]]);
  await user.click(screen.getByRole("button", { name: "Close" }));
  expect(await screen.findByText("revoked")).toBeDefined();
});

test("without a signing key the page says why no token can be created", async () => {
  show(true, "No signing key is set");
  await screen.findByText("No signing key is set.");
  expect(screen.getByRole<HTMLButtonElement>("button", { name: "New token…" }).disabled).toBe(true);
});

test("the tokens of one role are listed page by page, in an order of the gateway", async () => {
  const user = show();
  await screen.findByText("ci");
  const shown = { role: "app", kind: "role", limit: "100" };
  expect(asked.at(-1)).toEqual({ ...shown, sort: "-created_at", offset: "0" });
  await user.click(screen.getByRole("button", { name: "Next" }));
  await vi.waitFor(() => expect(asked.at(-1)).toEqual({ ...shown, sort: "-created_at", offset: "100" }));
  await user.click(screen.getByRole("button", { name: "Expires" }));
  await vi.waitFor(() => expect(asked.at(-1)).toEqual({ ...shown, sort: "expires_at", offset: "0" }));
});

test("tokens are for superusers", () => {
  show(false);
  expect(screen.queryByRole("button")).toBeNull();
});
