// @vitest-environment jsdom
import { readdirSync, readFileSync } from "node:fs";
import { MantineProvider } from "@mantine/core";
import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import { ApiError } from "../../lib/errors";
import { ChangeFailure } from "./change-failure";

afterEach(cleanup);

const failed = (status: number | null) =>
  new ApiError({
    reason: "Why",
    hop: "gateway",
    status,
    requestId: null,
    field: null,
    call: "POST /api/v1/thing",
  });

test.each([null, 500, 502, 503, 504])("after %s it is not known whether a change was made", (status) => {
  render(
    <MantineProvider>
      <ChangeFailure error={failed(status)} title="The thing was not saved" />
    </MantineProvider>,
  );
  expect(screen.getByRole("alert").textContent).toContain("It is not known whether this was done");
  expect(screen.queryByText("The thing was not saved")).toBeNull();
});

test.each([400, 403, 404, 409, 429, 501])("after a refusal by %s it was not made", (status) => {
  render(
    <MantineProvider>
      <ChangeFailure error={failed(status)} title="The thing was not saved" />
    </MantineProvider>,
  );
  expect(screen.getByRole("alert").textContent).toContain("The thing was not saved");
});

/** Failures of calls that change nothing: without their answer there is no result, whatever happened. */
const OF_READS = ["The function was not tried", "The bundle was not collected"];

test("no page states without a condition that a failed call changed nothing", () => {
  const paths = readdirSync("src", { recursive: true, encoding: "utf8" }).filter((path) =>
    path.endsWith(".tsx"),
  );
  expect(paths.length).toBeGreaterThan(100);
  const wrong: string[] = [];
  for (const path of paths) {
    const text = readFileSync(`src/${path}`, "utf8");
    for (const [notice] of text.matchAll(/<ErrorNotice\b[^>]*>/g)) {
      const title = /title="([^"]*)"/.exec(notice)?.[1] ?? "";
      const isDenial = /\b(was|were|is|are) not\b|^Nothing was|could not be cancelled/.test(title);
      if (isDenial && !/not known/.test(title) && !OF_READS.includes(title)) wrong.push(`${path}: ${title}`);
    }
  }
  expect(wrong).toEqual([]);
});
