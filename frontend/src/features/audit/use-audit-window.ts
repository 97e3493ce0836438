import { useQueries, useQuery } from "@tanstack/react-query";
import { useCallback, useRef, useState } from "react";
import { type AuditFilter, type AuditRow, auditQuery, PAGE_ROWS } from "./queries";

const AT_FIRST = { first: 0, last: 40 };

/**
 * The entries around the visible ones, page by page. All pages are of the entries that the first one's answer knows, so
 * that entries that are written meanwhile do not shift them; `renew` reads the list again.
 */
export function useAuditWindow(filter: AuditFilter, sort: string) {
  const key = JSON.stringify([filter, sort]);
  const [range, setRange] = useState({ ...AT_FIRST, key });
  const { first, last } = range.key === key ? range : AT_FIRST;
  const head = useQuery(auditQuery(filter, sort, 0));
  const until = head.data?.until_id;
  const offsets: number[] = [];
  for (let page = Math.floor(first / PAGE_ROWS); page <= Math.floor(last / PAGE_ROWS); page += 1)
    if (page > 0 && until !== undefined) offsets.push(page * PAGE_ROWS);
  const further = useQueries({ queries: offsets.map((offset) => auditQuery(filter, sort, offset, until)) });
  const rows = new Map<number, AuditRow>();
  for (const { data } of [head, ...further])
    for (const [index, row] of data?.rows.entries() ?? []) rows.set((data?.offset ?? 0) + index, row);
  // The rows of the search before stay until those of another arrive.
  const before = useRef({ total: undefined as number | undefined, rows });
  if (head.data) before.current = { total: head.data.total, rows };
  const shown = before.current;
  const failed = [head, ...further].find(({ error }) => error !== null);
  return {
    head: head.data,
    readAt: head.dataUpdatedAt,
    total: shown.total,
    rowAt: (index: number) => shown.rows.get(index),
    setRange: useCallback((from: number, to: number) => setRange({ first: from, last: to, key }), [key]),
    busy: head.isFetching || further.some(({ isPending }) => isPending),
    error: failed?.error ?? null,
    renew: () => {
      for (const result of [head, ...further]) result.refetch();
    },
  };
}
