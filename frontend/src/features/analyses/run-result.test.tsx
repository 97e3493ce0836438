// @vitest-environment jsdom
import { MantineProvider } from "@mantine/core";
import { fireEvent, render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import type { ResultTable, Series } from "../../api/types";
import { amountsOf, axesOf, ResultRows, rowsOf } from "./run-result";

const AT = 1_700_000_000_000;
const rate: Series = {
  key: "rate",
  title: "Rate over time",
  kind: "line",
  x: { label: "Publish time", type: "time", unit: "ms" },
  y: { label: "Messages per second", unit: "messages/s" },
  points: [
    [AT, 3],
    [AT + 1000, 50],
    [AT + 2000, 4],
  ],
  partial: [AT, AT + 2000],
};

test("partly known points are separate from the line, so that it does not fall at its end", () => {
  const { xs, ys, partial } = axesOf(rate);
  expect(xs).toEqual([AT / 1000, AT / 1000 + 1, AT / 1000 + 2]);
  expect(ys).toEqual([null, 50, null]);
  expect(partial).toEqual([3, null, 4]);
});

test("a series without such points is one line", () => {
  const { partial: _, ...whole } = rate;
  expect(axesOf(whole).ys).toEqual([3, 50, 4]);
  expect(axesOf(whole).partial).toEqual([null, null, null]);
});

test("bins of a histogram are ranges up to the next power of two", () => {
  const sizes: Series = {
    key: "sizes",
    title: "Sizes of messages",
    kind: "histogram",
    x: { label: "Bytes", type: "number", unit: "bytes" },
    y: { label: "Messages", unit: "messages" },
    points: [],
  };
  const bytes = axesOf(sizes).xText;
  expect([0, 1, 64, 512, 1024].map(bytes)).toEqual(["0 B", "1 B", "64–127 B", "512–1,023 B", "1–2 KiB"]);
  const plain = axesOf({ ...sizes, x: { label: "Messages per key", type: "number" } }).xText;
  expect([1, 2, 1024].map(plain)).toEqual(["1", "2–3", "1,024–2,047"]);
});

test("a result states the data that was read, as far as its analysis counts it", () => {
  const whole = amountsOf({ messages: 5, entries: 1, ledgers: 2, bytes: 2048 });
  expect(whole).toBe("5 messages, 1 entry, 2 ledgers, 2 KiB");
  expect(amountsOf({ messages: 1 })).toBe("1 message");
  expect(amountsOf({})).toBe("");
});

const tableOf = (length: number): ResultTable => ({
  key: "shown_rows",
  title: "Rows",
  columns: [{ key: "n", label: "N", type: "string" }],
  rows: Array.from({ length }, (_, index) => [`row ${index}`]),
});

test("rows of a table are shown in pages of a hundred, of which the buttons know the ends", () => {
  const { rerender } = render(<ResultRows table={tableOf(250)} cluster="c" />, { wrapper: MantineProvider });
  const button = (name: string) => screen.getByRole("button", { name });
  expect(screen.getByText("Rows 1–100 of 250")).toBeTruthy();
  fireEvent.click(button("Previous"));
  expect(screen.getByText("row 0")).toBeTruthy();
  fireEvent.click(button("Next"));
  expect(screen.getByText("row 100")).toBeTruthy();
  expect(screen.queryByText("row 0")).toBeNull();
  fireEvent.click(button("Next"));
  expect(button("Next").getAttribute("aria-disabled")).toBe("true");
  fireEvent.click(button("Next"));
  expect(screen.getByText("Rows 201–250 of 250")).toBeTruthy();
  expect(screen.getByText("row 249")).toBeTruthy();
  rerender(<ResultRows table={tableOf(120)} cluster="c" />);
  expect(screen.getByText("Rows 101–120 of 120")).toBeTruthy();
  rerender(<ResultRows table={tableOf(100)} cluster="c" />);
  expect(screen.queryByRole("navigation")).toBeNull();
  expect(screen.getByText("row 0")).toBeTruthy();
});

test("a table says how many rows there are, as far as that is known", () => {
  expect(rowsOf(tableOf(2))).toBe("2 rows");
  expect(rowsOf({ ...tableOf(2), total: 2, at_least: false })).toBe("2 rows");
  expect(rowsOf({ ...tableOf(2), total: 5 })).toBe("2 of 5 rows");
  expect(rowsOf({ ...tableOf(2), total: 3, at_least: true })).toBe("2 of at least 3 rows");
});
