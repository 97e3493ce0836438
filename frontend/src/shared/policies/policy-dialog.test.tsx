// @vitest-environment jsdom
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { configure, render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, test, vi } from "vitest";
import { PolicyDialog } from "./policy-dialog";
import type { Policy, PolicyEffects, PolicyPlace } from "./policy-queries";

configure({ asyncUtilTimeout: 30_000 });
vi.setConfig({ testTimeout: 60_000 });
afterEach(() => vi.unstubAllGlobals());

const namespace: PolicyPlace = {
  level: "namespace",
  id: { cluster: "c", tenant: "t", namespace: "n" },
  topics: 3,
};
const topic: PolicyPlace = {
  level: "topic",
  id: { cluster: "c", domain: "persistent", tenant: "t", namespace: "n", topic: "x" },
};
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
  inherited_level: "broker",
  rest: { path: "messageTTL", method: "POST", value_query: "", removal: null },
  commands: [],
};
const nothing: PolicyEffects = {
  ...{ topics: 3, counted: 3, at_rest: 0, bytes: 0, subscriptions: [], subscriptions_total: 0 },
  ...{ entries: 0, deleted: [], deleted_total: 0, producers: 0, not_counted: [], not_counted_total: 0 },
  within_s: 300,
};
const lost: PolicyEffects = {
  ...nothing,
  entries: 5,
  subscriptions: [
    { topic: "persistent://t/n/x", name: "s", deleted: false, entries: 5, messages: 5, exact: true },
  ],
  subscriptions_total: 1,
};

function previewOf(token: string, row: Policy, effects: PolicyEffects | null) {
  return { token, at: 1, row, effects, overriding: [], overriding_total: 0, unknown: "" };
}

type Answer = [number, unknown];
type Asked = { preview: boolean; value?: unknown; token?: string };

/** A gateway that answers every preview while the user types, and each saving with the next answer. */
function gateway(preview: (asked: Asked) => Answer, ...saved: Answer[]) {
  const sent: { path: string; body: Asked }[] = [];
  vi.stubGlobal("fetch", async (request: Request) => {
    const body: Asked = await request.json();
    sent.push({ path: new URL(request.url).pathname, body });
    const [status, answer] = body.preview ? preview(body) : (saved.shift() ?? [500, {}]);
    return Response.json(answer, { status });
  });
  return sent;
}

function open(place: PolicyPlace) {
  const saved = vi.fn();
  render(
    <MantineProvider>
      <QueryClientProvider client={new QueryClient()}>
        <PolicyDialog place={place} policy={ttl} onSaved={saved} onClose={() => {}} />
      </QueryClientProvider>
    </MantineProvider>,
  );
  return { user: userEvent.setup(), saved };
}

async function type(user: ReturnType<typeof userEvent.setup>, text: string) {
  const field = screen.getByRole("textbox");
  await user.clear(field);
  await user.type(field, text);
  return field as HTMLInputElement;
}

test("the effect of a topic's policy is shown before it is saved with the preview's token", async () => {
  const after: Policy = { ...ttl, value: 600, level: "topic", own: 600 };
  const sent = gateway(
    ({ value }) => [200, previewOf(`of ${value}`, ttl, value === 600 ? lost : nothing)],
    [200, { at: 2, row: after, effects: lost }],
  );
  const { user, saved } = open(topic);
  await type(user, "600");
  const button = await screen.findByRole("button", { name: "Save and lose 5 messages" });
  expect(screen.getByText("5 messages that s has not read are lost within 5 min")).toBeTruthy();
  expect(screen.getByText(/set by this topic\.$/)).toBeTruthy();
  await user.click(button);
  const receipt = (await screen.findByRole("status")).textContent;
  expect(receipt).toContain("Message TTL is 10 min (600 seconds), set by this topic.");
  expect(receipt).toContain("5 messages that s has not read are lost within 5 min");
  expect(saved).toHaveBeenCalledWith(after);
  const path = "/api/v1/clusters/c/topics/persistent/t/n/x/policies/messageTTL";
  expect(sent.slice(-2)).toEqual([
    { path, body: { preview: true, value: 600 } },
    { path, body: { preview: false, token: "of 600" } },
  ]);
});

test("the undo of a change is previewed like any other change", async () => {
  const after: Policy = { ...ttl, value: 600, level: "topic", own: 600 };
  const row = () => (sent.some(({ body }) => !body.preview) ? after : ttl);
  const sent = gateway(
    ({ value }) => [200, previewOf(`of ${value}`, row(), nothing)],
    [200, { at: 2, row: after, effects: nothing }],
    [200, { at: 3, row: ttl, effects: nothing }],
  );
  const { user, saved } = open(topic);
  await type(user, "600");
  const enabled = (name: string) => {
    const button = screen.getByRole<HTMLButtonElement>("button", { name });
    return waitFor(() => expect(button.disabled).toBe(false)).then(() => button);
  };
  await user.click(await enabled("Save"));
  await user.click(await screen.findByRole("button", { name: "Restore the previous value…" }));
  expect(screen.getByText(/^From 10 min \(600 seconds\), set by this topic, to never/)).toBeTruthy();
  await user.click(await enabled("Remove"));
  expect((await screen.findByRole("status")).textContent).toContain("is not set here any more");
  expect(saved).toHaveBeenLastCalledWith(ttl);
  await user.click(screen.getByRole("button", { name: "Restore the previous value…" }));
  expect((screen.getByRole("textbox") as HTMLInputElement).value).toBe("600");
});

test("a concurrent change of another user is shown, and overwritten only after a second confirmation", async () => {
  const theirs: Policy = { ...ttl, value: 60, level: "namespace", own: 60 };
  const ours: Policy = { ...theirs, value: 600, own: 600 };
  const saved = () => sent.filter(({ body }) => !body.preview).map(({ body }) => body.token);
  const sent = gateway(
    ({ value }) => [200, previewOf(`${value} ${saved().length}`, saved().length ? theirs : ttl, nothing)],
    [409, { reason: "messageTTL was changed meanwhile" }],
    [200, { at: 2, row: ours, effects: nothing }],
  );
  const { user } = open(namespace);
  const field = await type(user, "600");
  const button = screen.getByRole<HTMLButtonElement>("button", { name: "Save" });
  await waitFor(() => expect(button.disabled).toBe(false));
  await user.click(button);
  expect((await screen.findByRole("alert")).textContent).toContain("changed");
  await screen.findByText(/It is set here to 1 min \(60 seconds\) now/);
  expect(screen.getByText(/^From 1 min \(60 seconds\), set by this namespace, to 10 min/)).toBeTruthy();
  expect(field.value).toBe("600");
  await waitFor(() => expect(button.disabled).toBe(false));
  await user.click(button);
  expect((await screen.findByRole("status")).textContent).toContain("Message TTL is 10 min (600 seconds)");
  expect(saved()).toEqual(["600 0", "600 1"]);
});

test("a value that the server refuses is reported at its field", async () => {
  const sent = gateway(({ value }) =>
    value === 9 ? [412, { reason: "messageTTL is too long for us" }] : [200, previewOf("one", ttl, nothing)],
  );
  const { user } = open(namespace);
  const field = screen.getByRole("textbox");
  await user.clear(field);
  await user.click(screen.getByRole("button", { name: "Save" }));
  expect(screen.getByText("Give a value")).toBeTruthy();
  expect(sent.every(({ body }) => body.preview && body.value === 0)).toBe(true);
  expect(document.activeElement).toBe(field);
  await user.type(field, "9");
  await screen.findByText("messageTTL is too long for us");
  await waitFor(() => expect(field.getAttribute("aria-invalid")).toBe("true"));
  await user.type(field, "0");
  expect(screen.queryByText("messageTTL is too long for us")).toBeNull();
});

test("an unknown effect is not shown as none", async () => {
  const unknown = { overriding_total: null, unknown: "No answer in time" };
  gateway(() => [200, { ...previewOf("one", ttl, null), ...unknown }]);
  const { user } = open(namespace);
  await type(user, "600");
  expect(await screen.findByText("Its effect is not known: No answer in time.")).toBeTruthy();
  expect(screen.queryByText(/Nothing that is stored goes/)).toBeNull();
});
