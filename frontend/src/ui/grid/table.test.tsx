// @vitest-environment jsdom
import { fireEvent, render, screen, within } from "@testing-library/react";
import { expect, test } from "vitest";
import { ALL_MAX, Table } from "./table";

const show = (count: number, maxHeight?: number) =>
  render(
    <Table
      caption="Ledgers"
      columns={[{ key: "n", header: "N", cell: (row: number) => `row ${row}` }]}
      rows={Array.from({ length: count }, (_, index) => index)}
      rowKey={(row) => row}
      {...(maxHeight && { maxHeight })}
    />,
  );
const rows = () => within(screen.getByRole("table", { name: "Ledgers" })).getAllByRole("row");

test("of a thousand rows only those around the visible ones are in the document", () => {
  show(1_000, 320);
  expect(rows().length).toBeLessThan(40);
  expect(screen.getByRole("table").getAttribute("aria-rowcount")).toBe("1001");
  const box = screen.getByRole("table").parentElement?.parentElement as HTMLElement;
  box.scrollTop = 500 * 36;
  fireEvent.scroll(box);
  expect(screen.getByText("row 500").closest("tr")?.getAttribute("aria-rowindex")).toBe("502");
  expect(rows().length).toBeLessThan(40);
  box.scrollTop = 2_000 * 36;
  fireEvent.scroll(box);
  expect(screen.getByText("row 999")).toBeTruthy();
});

test("a short table has all its rows in the document", () => {
  show(ALL_MAX, 320);
  expect(rows()).toHaveLength(ALL_MAX + 1);
});
