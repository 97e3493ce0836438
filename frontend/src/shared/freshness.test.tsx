// @vitest-environment jsdom
import { act, render } from "@testing-library/react";
import { expect, test } from "vitest";
import { health } from "../api/health";
import { Freshness } from "./freshness";

test("the status line shows the age of all numbers; a page shows only its own greater age", () => {
  const now = Date.now();
  health.receive({ now, at: now, late_ms: 2_000, current: true, hops: [] });
  const page = render(<Freshness at={now - 1_000} />);
  expect(page.container.textContent).toBe("");

  page.rerender(<Freshness at={now - 60_000} />);
  expect(page.container.textContent).toMatch(/^Stale · as of \d\d:\d\d:\d\d$/);

  page.rerender(<Freshness at={now - 1_000} />);
  act(() => health.receive({ now, at: now - 30_000, late_ms: 2_000, current: true, hops: [] }));
  expect(page.container.firstElementChild?.className).toMatch(/narrow/); // only where the line has no room
});
