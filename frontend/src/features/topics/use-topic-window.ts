import { useQueries, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { useLive, usePolling } from "../../api/live";
import type { ListedRow, TopicPage } from "../../api/types";
import { failureOf } from "../../lib/errors";
import { PAGE_ROWS, type TopicFilter, topicsQuery, writeTopicWindow } from "./queries";

const SETTLE_MS = 150;

export interface TopicWindow {
  total: number | undefined;
  at: number | undefined;
  rowAt: (index: number) => ListedRow | undefined;
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
export function useTopicWindow(filter: TopicFilter): TopicWindow {
  const client = useQueryClient();
  const identity = JSON.stringify(filter);
  const [range, setRangeState] = useState({ first: 0, last: 40, identity });
  // Another list starts at its top, whatever was visible of the one before.
  const shown = range.identity === identity ? range : { first: 0, last: 40, identity };
  const offsets = pagesOf(shown.first, shown.last);
  const polling = usePolling();

  const results = useQueries({
    queries: offsets.map((offset) => ({ ...topicsQuery(filter, offset), refetchInterval: polling })),
  });

  const settled = useSettled(`${offsets[0]}:${offsets.length}`, offsets, SETTLE_MS);
  const windowParams = {
    ...filter,
    offset: settled[0] ?? 0,
    limit: Math.min(200, settled.length * PAGE_ROWS),
  };
  const write = useCallback(
    (data: TopicPage) => writeTopicWindow(client, JSON.parse(identity) as TopicFilter, data),
    [client, identity],
  );
  useLive<TopicPage>("topics", windowParams, ["topics-live", identity, windowParams.offset], { write });

  const pages = results.flatMap((result) => (result.data ? [result.data] : []));
  const newest = pages.reduce<TopicPage | undefined>(
    (best, page) => (!best || page.at >= best.at ? page : best),
    undefined,
  );
  const before = useRef<{ total: number; at: number; identity: string; rows: Map<number, ListedRow> } | null>(
    null,
  );
  const rows = useMemo(() => {
    const found = new Map<number, ListedRow>();
    for (const page of pages) {
      for (const [index, row] of page.rows.entries()) found.set(page.offset + index, row);
    }
    return found;
  }, [pages]);
  const waiting = newest === undefined && before.current !== null && before.current.identity !== identity;
  useEffect(() => {
    if (newest) before.current = { total: newest.total, at: newest.at, identity, rows };
  });

  const old = before.current;
  const source = waiting && old ? old.rows : rows;
  const failed = results.find((result) => failureOf(result));
  return {
    total: newest?.total ?? old?.total,
    at: newest?.at ?? old?.at,
    rowAt: (index) => source.get(index),
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
