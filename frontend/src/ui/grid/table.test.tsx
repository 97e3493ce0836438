// @vitest-environment jsdom
import { fireEvent, render, screen, within } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { sorting } from "./sorting";
import { ALL_MAX, SortBar, Table } from "./table";

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

test("a header that sorts is a button, announces its order and writes the next one", () => {
  const write = vi.fn();
  const by = sorting<"n" | "m">("-n", write);
  render(
    <Table
      caption="Sorted"
      columns={[
        { ...by("n", true), key: "n", header: "N", cell: (row: number) => row },
        { ...by("m"), key: "m", header: "M", cell: (row: number) => row },
        { key: "o", header: "O", cell: (row: number) => row },
      ]}
      rows={[1]}
      rowKey={(row) => row}
    />,
  );
  const order = (name: RegExp) => screen.getByRole("columnheader", { name }).getAttribute("aria-sort");
  expect([order(/^N/), order(/^M/), order(/^O/)]).toEqual(["descending", "none", null]);
  fireEvent.click(screen.getByRole("button", { name: /^N/ }));
  fireEvent.click(screen.getByRole("button", { name: "M" }));
  expect(write.mock.calls).toEqual([["n"], ["m"]]);
  expect(screen.queryByRole("button", { name: "O" })).toBeNull();
});

test("a list without a table has its headers in a bar, the order said in words", () => {
  const write = vi.fn();
  const by = sorting<"n" | "m">("n", write);
  render(
    <SortBar
      columns={[
        { header: "Number", ...by("n") },
        { header: "Month", ...by("m", true) },
      ]}
    />,
  );
  const bar = screen.getByRole("group", { name: "Order of the list" });
  expect(bar.querySelector("[aria-current]")?.textContent).toMatch(/^Number.*ascending$/);
  fireEvent.click(within(bar).getByRole("button", { name: "Month" }));
  expect(write).toHaveBeenCalledExactlyOnceWith("-m");
});
