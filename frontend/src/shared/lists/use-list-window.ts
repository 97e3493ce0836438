import { type QueryKey, useQueries, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { useLive, usePolling } from "../../api/live";
import type { Channel, Params } from "../../api/socket";
import { failureOf } from "../../lib/errors";

export const PAGE_ROWS = 100;

const SETTLE_MS = 150;

/** A window of a list, as its GET and its channel return it. */
export interface ListPage<R> {
  at: number;
  total: number;
  offset: number;
  limit: number;
  rows: R[];
}

/** Source of a list: pages of `PAGE_ROWS` rows, each by its offset. */
export interface ListSource<F, P> {
  channel: Channel;
  key: (filter: F, offset: number) => QueryKey;
  read: (filter: F, offset: number, signal: AbortSignal) => Promise<P>;
}

export interface ListWindow<R, P> {
  /** The newest page. */
  page: P | undefined;
  total: number | undefined;
  at: number | undefined;
  rowAt: (index: number) => R | undefined;
  setRange: (first: number, last: number) => void;
  busy: boolean;
  error: unknown;
  retry: () => void;
}

/** Offsets of the pages that hold rows first to last, inclusive: one or two for a screen of rows. */
export function pagesOf(first: number, last: number): number[] {
  const start = Math.floor(Math.max(0, first) / PAGE_ROWS);
  const end = Math.floor(Math.max(0, last) / PAGE_ROWS);
  return Array.from({ length: end - start + 1 }, (_, index) => (start + index) * PAGE_ROWS);
}

/**
 * The rows around the visible ones, page by page. The socket keeps the visible pages current once the
 * scrolling settles; until another filter's first page arrives, the old rows stay.
 */
export function useListWindow<R, P extends ListPage<R>, F extends Params>(
  source: ListSource<F, P>,
  filter: F,
): ListWindow<R, P> {
  const client = useQueryClient();
  const identity = JSON.stringify(filter);
  const [range, setRangeState] = useState({ first: 0, last: 40, identity });
  // Another list starts at its top, whatever was visible of the one before.
  const shown = range.identity === identity ? range : { first: 0, last: 40, identity };
  const offsets = pagesOf(shown.first, shown.last);
  const polling = usePolling();

  const results = useQueries({
    queries: offsets.map((offset) => ({
      queryKey: source.key(filter, offset),
      queryFn: ({ signal }: { signal: AbortSignal }) => source.read(filter, offset, signal),
      gcTime: 30_000,
      refetchInterval: polling,
    })),
  });

  const settled = useSettled(`${offsets[0]}:${offsets.length}`, offsets, SETTLE_MS);
  const windowParams = {
    ...filter,
    offset: settled[0] ?? 0,
    limit: Math.min(200, settled.length * PAGE_ROWS),
  };
  // Files a live window under the pages it covers, so that scrolling finds them warm.
  const write = useCallback(
    (data: P) => {
      for (let start = 0; start < Math.max(1, data.rows.length); start += PAGE_ROWS) {
        const offset = data.offset + start;
        const rows = data.rows.slice(start, start + PAGE_ROWS);
        client.setQueryData(source.key(JSON.parse(identity) as F, offset), {
          ...data,
          offset,
          limit: PAGE_ROWS,
          rows,
        });
      }
    },
    [client, identity, source],
  );
  const key = [`${source.channel}-live`, identity, windowParams.offset];
  useLive<P>(source.channel, windowParams, key, { write });

  const pages = results.flatMap((result) => (result.data ? [result.data] : []));
  const newest = pages.reduce<P | undefined>(
    (best, page) => (!best || page.at >= best.at ? page : best),
    undefined,
  );
  const before = useRef<{ page: P; identity: string; rows: Map<number, R> } | null>(null);
  const rows = useMemo(() => {
    const found = new Map<number, R>();
    for (const page of pages) {
      for (const [index, row] of page.rows.entries()) found.set(page.offset + index, row);
    }
    return found;
  }, [pages]);
  const waiting = newest === undefined && before.current !== null && before.current.identity !== identity;
  useEffect(() => {
    if (newest) before.current = { page: newest, identity, rows };
  });

  const old = before.current;
  const shownRows = waiting && old ? old.rows : rows;
  const failed = results.find((result) => failureOf(result));
  return {
    page: newest ?? old?.page,
    total: (newest ?? old?.page)?.total,
    at: (newest ?? old?.page)?.at,
    rowAt: (index) => shownRows.get(index),
    setRange: useCallback(
      (first: number, last: number) => setRangeState({ first, last, identity }),
      [identity],
    ),
    busy: results.some((result) => result.isPending),
    error: failed?.error ?? null,
    retry: () => {
      for (const result of results) if (result.error) result.refetch();
    },
  };
}

/** A value that follows once it has stopped changing: fast scrolling must not resubscribe on every page. */
function useSettled<T>(key: string, value: T, delay: number): T {
  const [settled, setSettled] = useState(value);
  // biome-ignore lint/correctness/useExhaustiveDependencies: key stands for the value
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), delay);
    return () => clearTimeout(timer);
  }, [key, delay]);
  return settled;
}
