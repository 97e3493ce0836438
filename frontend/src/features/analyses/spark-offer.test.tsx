// @vitest-environment jsdom
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, test, vi } from "vitest";
import type { SparkSetup } from "../../api/types";
import { SparkOffer } from "./spark-offer";

const MISSING: SparkSetup = {
  state: "missing",
  done_mb: 0,
  total_mb: 2500,
  message: "",
  download_mb: 600,
  disk_mb: 900,
  peak_mb: 2500,
  problems: [],
  command: "make -C /srv/magnetar spark",
};

vi.mock("../../shared/topic-link", () => ({ useCluster: () => "standalone" }));
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

function show(setup: SparkSetup): string[] {
  const calls: string[] = [];
  vi.stubGlobal("fetch", async (request: Request) => {
    calls.push(request.method);
    return Response.json(request.method === "POST" ? { ...setup, state: "installing", done_mb: 500 } : setup);
  });
  render(
    <MantineProvider>
      <QueryClientProvider client={new QueryClient()}>
        <SparkOffer />
      </QueryClientProvider>
    </MantineProvider>,
  );
  return calls;
}

test("the offer names its sizes, and the progress is shown once it is accepted", async () => {
  const calls = show(MISSING);
  await screen.findByText(/600 MB to download/);
  await userEvent.click(screen.getByRole("button", { name: "Install Spark" }));
  const bar = await screen.findByRole("progressbar");
  expect(bar.getAttribute("aria-valuenow")).toBe("20");
  expect(calls).toContain("POST");
});

test("without Redis nothing can be installed yet, and the remedy is shown before any download", async () => {
  show({ ...MISSING, problems: ["no Redis found. Mend it with: sudo apt install redis-server"] });
  await screen.findByText(/sudo apt install redis-server/);
  expect(screen.getByRole("button", { name: "Install Spark" }).hasAttribute("disabled")).toBe(true);
});

test("a failed installation is shown with its reason and can be begun again", async () => {
  show({ ...MISSING, state: "failed", message: "the installation failed (exit 2): No space left on device" });
  await screen.findByRole("alert");
  expect(screen.getByRole("alert").textContent).toContain("No space left on device");
  expect(screen.getByRole("button", { name: "Install Spark" }).hasAttribute("disabled")).toBe(false);
});

test("nothing is shown where analyses can run", async () => {
  const calls = show({ ...MISSING, state: "installed" });
  await waitFor(() => expect(calls).toEqual(["GET"]));
  expect(screen.queryByText(/Spark/)).toBeNull();
});
