// @vitest-environment jsdom
import { render, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { DataGrid, type GridColumn } from "./data-grid";

interface Row {
  name: string;
  backlog: number;
}

// jsdom lays nothing out: the grid's box is given a size, as a browser would measure it.
beforeEach(() => {
  vi.spyOn(HTMLElement.prototype, "offsetHeight", "get").mockReturnValue(720);
  vi.spyOn(HTMLElement.prototype, "offsetWidth", "get").mockReturnValue(1000);
  vi.spyOn(HTMLElement.prototype, "clientHeight", "get").mockReturnValue(720);
  HTMLElement.prototype.scrollTo = () => {};
});

function show(total: number, onOpen = vi.fn(), onSort = vi.fn()) {
  const columns: GridColumn<Row>[] = [
    { key: "name", header: "Topic", min: 200, sort: "none", onSort, cell: (row) => row.name },
    {
      key: "backlog",
      header: "Backlog",
      min: 80,
      numeric: true,
      sort: "descending",
      cell: (row) => row.backlog,
    },
  ];
  render(
    <DataGrid<Row>
      label="Topics"
      columns={columns}
      total={total}
      rowAt={(index) => (index < 100 ? { name: `t${index}`, backlog: index } : undefined)}
      onRange={() => {}}
      onOpen={onOpen}
      busy={false}
      resetKey=""
    />,
  );
  return { onOpen, onSort };
}

describe("the grid", () => {
  test("announces the whole list and contains only the visible rows", () => {
    show(100_000);
    const grid = screen.getByRole("grid", { name: "Topics" });
    expect(grid.getAttribute("aria-rowcount")).toBe("100001");
    expect(within(grid).getAllByRole("row").length).toBeLessThanOrEqual(60);
    expect(screen.getByRole("columnheader", { name: /Backlog/ }).getAttribute("aria-sort")).toBe(
      "descending",
    );
  });

  test("is one tab stop, and arrows move the focus", async () => {
    const user = userEvent.setup();
    show(100_000);
    await user.tab();
    expect(document.activeElement).toBe(screen.getByRole("columnheader", { name: /Topic/ }));
    await user.keyboard("{ArrowDown}{ArrowDown}{ArrowRight}");
    expect(document.activeElement?.textContent).toBe("1");
    expect(document.activeElement?.closest("[role=row]")?.getAttribute("aria-rowindex")).toBe("3");
    expect(document.querySelectorAll("[role=grid] [tabindex='0']").length).toBe(1);
  });

  test("Enter sorts by a header and opens a row", async () => {
    const user = userEvent.setup();
    const { onOpen, onSort } = show(100_000);
    await user.tab();
    await user.keyboard("{Enter}");
    expect(onSort).toHaveBeenCalledOnce();
    await user.keyboard("{ArrowDown}{Enter}");
    expect(onOpen).toHaveBeenCalledExactlyOnceWith({ name: "t0", backlog: 0 });
  });
});
