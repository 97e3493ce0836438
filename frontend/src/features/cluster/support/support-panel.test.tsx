// @vitest-environment jsdom
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, test, vi } from "vitest";
import { SupportPanel } from "./support-panel";

const ZIP = { headers: { "Content-Type": "application/zip" } };

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

function show(answer: () => Response): { bodies: unknown[]; saved: string[] } {
  const seen = { bodies: [] as unknown[], saved: [] as string[] };
  vi.stubGlobal("fetch", async (request: Request) => {
    seen.bodies.push(await request.json());
    return answer();
  });
  vi.stubGlobal(
    "URL",
    Object.assign(URL, { createObjectURL: () => "blob:bundle", revokeObjectURL: () => {} }),
  );
  vi.spyOn(HTMLAnchorElement.prototype, "click").mockImplementation(function (this: HTMLAnchorElement) {
    seen.saved.push(`${this.href} ${this.download}`);
  });
  render(
    <MantineProvider>
      <QueryClientProvider client={new QueryClient()}>
        <SupportPanel why={null} />
      </QueryClientProvider>
    </MantineProvider>,
  );
  return seen;
}

test("a bundle is collected and saved; names are replaced only when that is chosen", async () => {
  const { bodies, saved } = show(() => new Response("PK", ZIP));
  await userEvent.click(screen.getByRole("button", { name: "Collect and download" }));
  await screen.findByText("Downloaded as magnetar-support.zip.");
  expect(saved).toEqual(["blob:bundle magnetar-support.zip"]);
  await userEvent.click(screen.getByRole("checkbox"));
  expect(screen.getByText("magnetar support --hash-names magnetar-support.zip")).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Collect and download" }));
  await vi.waitFor(() => expect(saved).toHaveLength(2));
  expect(bodies).toEqual([{ hash_names: false }, { hash_names: true }]);
});

test("a collection that fails is shown with its reason, and nothing is saved", async () => {
  const reason = "a support bundle is being collected: try again when it is complete";
  const { saved } = show(() => Response.json({ reason }, { status: 409 }));
  await userEvent.click(screen.getByRole("button", { name: "Collect and download" }));
  await screen.findByText(reason);
  expect(saved).toEqual([]);
});
