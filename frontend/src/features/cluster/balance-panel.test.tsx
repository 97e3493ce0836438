// @vitest-environment jsdom
import type { UseQueryResult } from "@tanstack/react-query";
import { render, screen, within } from "@testing-library/react";
import { expect, test } from "vitest";
import type { Balance } from "./balance/balance-queries";
import { BalancePanels, Load } from "./balance-panel";

const balance: Balance = {
  ...{ leader: "a:8080", reason: "", at: 5_000, spread: 0.3, spread_max: 0.25, loads: [] },
  not_moved: [{ subject: "c:8080", reason: "takes no part: its load is unknown", kind: "no part" }],
  not_split: [
    {
      subject: "t/n/0x00000000_0x80000000",
      reason: "no split helps against t: give the topic partitions",
      kind: "hot",
    },
  ],
  silent: ["d:8080"],
  drains: [
    {
      ...{ broker: "e:8080", since: 1_000, by: "anna", left: 1, moved: 4, unloaded: 0 },
      refused: [
        { subject: "t/n/0x00000000_0x40000000", reason: "no other broker may serve it", kind: "drain" },
      ],
    },
  ],
  moves: [
    {
      ...{
        kind: "balance",
        bundle: "t/n/0x80000000_0xffffffff",
        from_broker: "a:8080",
        to_broker: "b:8080",
        at: 5_000,
      },
      ...{ reason: "load 0.9 of a:8080, 0.1 of b:8080", result: "" },
    },
  ],
};

function show(of: Partial<UseQueryResult<Balance>>) {
  render(<BalancePanels found={of as UseQueryResult<Balance>} />);
}

test("every reason, overloaded bundle and move is listed with its result", () => {
  show({ data: balance, isError: false });
  const panel = within(screen.getByRole("region", { name: "Balance of load" }));
  panel.getByText("Nothing else is moved because …");
  panel.getByText(/its load is unknown/);
  panel.getByText(/e:8080 is drained since .* by anna. 1 bundle is left./);
  panel.getByText(/no other broker may serve it/);
  panel.getByText(/give the topic partitions/);
  panel.getByText("d:8080: whether bundles are overloaded there is not known.");
  const moves = within(screen.getByRole("region", { name: "Last moves" }));
  moves.getByText("load 0.9 of a:8080, 0.1 of b:8080");
  moves.getByText("a:8080 → b:8080");
  moves.getByText("not known");
});

test("an unknown load is a dash with its reason", () => {
  const load = { broker: "a", load: null, why: "its load is unknown", at: null, bundles: null };
  render(<Load of={{ ...load, gains: null, losses: null }} />);
  screen.getByText("— not known");
  expect(screen.getByText("its load is unknown,").parentElement?.textContent).toBe(
    "its load is unknown, no report yet",
  );
});
