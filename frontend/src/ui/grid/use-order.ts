import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useMemo } from "react";
import { type Sort, sortIn, sorting } from "./sorting";

/** The parameters of a list in its address, besides its filters. */
interface Named {
  page?: number | undefined;
  sort?: string | undefined;
}

/**
 * The order and the page of a list that the address names, and what changes them. An address that names neither has
 * the order `fallback` and the first page.
 */
export function useOrder<Key extends string>(fields: readonly Key[], fallback: Sort<Key>) {
  const { page = 1, sort: named }: Named = useSearch({ strict: false });
  const navigate = useNavigate();
  const sort = sortIn(fields, named, fallback);
  /** Changes parameters of the address. Another list than the one shown begins at its first page. */
  const show = useCallback(
    (change: Record<string, string | number | undefined>, replace = false) =>
      void navigate({
        to: ".",
        search: (before: object) => ({ ...before, page: undefined, ...change }),
        replace,
      } as Parameters<typeof navigate>[0]),
    [navigate],
  );
  return {
    page,
    sort,
    show,
    by: useMemo(() => sorting<Key>(sort, (next) => show({ sort: next })), [sort, show]),
    /** The page, and the function of the buttons that turn the pages. */
    turning: { page, onTurn: (to: number | undefined) => show({ page: to }) },
  };
}
