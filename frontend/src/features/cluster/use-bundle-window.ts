import { useQueries } from "@tanstack/react-query";
import { useCallback, useRef, useState } from "react";
import { failureOf } from "../../lib/errors";
import { type Bundle, type BundleFilter, bundlesQuery, PAGE_ROWS } from "./queries";

/** The rows around the visible ones, page by page; old rows stay until the first page of another filter arrives. */
export function useBundleWindow(filter: BundleFilter) {
  const identity = JSON.stringify(filter);
  const [range, setRangeState] = useState({ first: 0, last: 0, identity });
  const { first, last } = range.identity === identity ? range : { first: 0, last: 0 };
  const start = Math.floor(first / PAGE_ROWS);
  const pages = Array.from({ length: Math.floor(last / PAGE_ROWS) - start + 1 }, (_, index) => start + index);
  const results = useQueries({ queries: pages.map((page) => bundlesQuery(filter, page * PAGE_ROWS)) });
  const found = results.flatMap(({ data }) => (data ? [data] : []));
  const before = useRef(found);
  if (found.length > 0) before.current = found;
  const shown = before.current;
  const failed = results.find((result) => failureOf(result));
  return {
    total: shown[0]?.total,
    at: Math.max(0, ...results.map(({ dataUpdatedAt }) => dataUpdatedAt)),
    rowAt: (index: number): Bundle | undefined => {
      const page = shown.find(({ offset }) => index >= offset && index < offset + PAGE_ROWS);
      return page?.rows[index - page.offset];
    },
    setRange: useCallback(
      (top: number, bottom: number) => setRangeState({ first: top, last: bottom, identity }),
      [identity],
    ),
    busy: results.some(({ isPending }) => isPending),
    isError: results.some(({ isError }) => isError),
    error: failed?.error ?? null,
    retry: () => {
      for (const result of results) if (result.error) result.refetch();
    },
  };
}
