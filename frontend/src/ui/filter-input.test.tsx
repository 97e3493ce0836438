// @vitest-environment jsdom
import { MantineProvider } from "@mantine/core";
import { act, fireEvent, render, screen } from "@testing-library/react";
import { beforeEach, expect, test, vi } from "vitest";
import { ENTRY_MS, FilterInput } from "./filter-input";

beforeEach(() => {
  vi.useFakeTimers();
  return () => vi.useRealTimers();
});

function type(text: string): void {
  fireEvent.change(screen.getByRole("textbox", { name: "Words" }), { target: { value: text } });
  act(() => vi.advanceTimersByTime(100));
}

function show(write: (value: string, replace: boolean) => void, value = "") {
  return (
    <MantineProvider>
      <FilterInput label="Words" value={value} write={write} />
    </MantineProvider>
  );
}

test("one phase of typing is one entry of the browser's history", () => {
  const write = vi.fn();
  render(show(write));
  type("o");
  type("or");
  type("ord");
  expect(write.mock.calls).toEqual([
    ["o", false],
    ["or", true],
    ["ord", true],
  ]);
  act(() => vi.advanceTimersByTime(ENTRY_MS));
  type("orders");
  expect(write).toHaveBeenLastCalledWith("orders", false);
});

test("the text of the address replaces that of the field", () => {
  const write = vi.fn();
  const { rerender } = render(show(write, "old"));
  rerender(show(write, "from back"));
  expect(screen.getByRole<HTMLInputElement>("textbox").value).toBe("from back");
});
