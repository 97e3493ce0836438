// @vitest-environment jsdom
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { configure, render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, test, vi } from "vitest";
import { TopicChangeDialog } from "./topic-change-dialog";

configure({ asyncUtilTimeout: 30_000 });
vi.setConfig({ testTimeout: 60_000 });
afterEach(() => vi.unstubAllGlobals());

const PREVIEW = {
  ...{ token: "t", at: 1, partitions: 0, partitions_after: null, bytes: 0, entries: 0 },
  ...{ terminated: false, producers: [], subscriptions: [], unread: [], remakes: false },
};

test("a dialog closed during the deletion reports the deleted topic once it is deleted", async () => {
  let answer = () => {};
  const isAnswered = new Promise<void>((resolve) => {
    answer = resolve;
  });
  vi.stubGlobal("fetch", async (request: Request) => {
    const { preview } = await request.json();
    if (preview) return Response.json(PREVIEW);
    await isAnswered;
    return Response.json({ change: "delete", at: 1, last: [] });
  });
  const closed: boolean[] = [];
  const user = userEvent.setup();
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient()}>
        <TopicChangeDialog
          id={{ cluster: "c", domain: "persistent", tenant: "t", namespace: "n", topic: "x" }}
          change="delete"
          partitions={0}
          onChanged={() => {}}
          onClose={(isGone) => closed.push(isGone)}
        />
      </QueryClientProvider>
    </MantineProvider>,
  );
  const button = await screen.findByRole("button", { name: /^Delete/ });
  await waitFor(() => expect(button).toHaveProperty("disabled", false));
  await user.click(button);
  await user.keyboard("{Escape}");
  expect(closed).toEqual([false]);
  answer();
  await waitFor(() => expect(closed).toEqual([false, true]));
});
