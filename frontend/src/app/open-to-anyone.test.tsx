// @vitest-environment jsdom
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import { environmentQuery } from "../api/environment";
import { OpenToAnyone } from "./open-to-anyone";

afterEach(cleanup);

function shown(open: boolean) {
  const queries = new QueryClient();
  queries.setQueryData(environmentQuery.queryKey, { open_to_anyone: open } as never);
  render(
    <QueryClientProvider client={queries}>
      <OpenToAnyone />
    </QueryClientProvider>,
  );
  return screen.queryByRole("note");
}

test("an instance open to other hosts without authentication always shows a warning", () => {
  const note = shown(true);
  expect(note?.textContent).toBe("Anyone who reaches this address may do everything: authentication is off");
  expect(screen.queryByRole("button")).toBeNull();
});

test("an instance with authentication, or only on loopback, shows no such warning", () => {
  expect(shown(false)).toBeNull();
});
