import { bytes, count, rate } from "../../lib/format";
import { OldestAge } from "../../shared/backlog/backlog-figures";
import { backlogText } from "../../shared/backlog/backlog-words";
import type { SortableBy } from "../../ui/grid/sorting";
import type { Column } from "../../ui/grid/table";
import type { TenantField, TenantNumbers } from "./queries";

/** The columns of the sums over topics. */
export function sumColumns<Row extends { numbers: TenantNumbers | null }>(
  by: SortableBy<TenantField>,
): Column<Row>[] {
  return [
    {
      ...by("backlog", true),
      key: "backlog",
      header: "Backlog",
      numeric: true,
      cell: (row) => <Sum of={row.numbers}>{(sums) => backlogText(sums)}</Sum>,
    },
    {
      ...by("oldest_age", true),
      key: "oldest",
      header: "Oldest unacknowledged",
      numeric: true,
      wide: true,
      cell: ({ numbers }) => (numbers === null ? "—" : <OldestAge at={numbers.oldest_at} />),
    },
    {
      ...by("msg_rate_in", true),
      key: "in",
      header: "In/s",
      numeric: true,
      cell: (row) => <Sum of={row.numbers}>{(sums) => rate(sums.msg_rate_in)}</Sum>,
    },
    {
      ...by("msg_rate_out", true),
      key: "out",
      header: "Out/s",
      numeric: true,
      cell: (row) => <Sum of={row.numbers}>{(sums) => rate(sums.msg_rate_out)}</Sum>,
    },
    {
      ...by("storage_bytes", true),
      key: "stored",
      header: "Stored",
      numeric: true,
      cell: (row) => <Sum of={row.numbers}>{(sums) => bytes(sums.storage_bytes)}</Sum>,
    },
  ];
}

/** A sum over topics, marked where some of them are not in it. */
function Sum({ of, children }: { of: TenantNumbers | null; children: (sums: TenantNumbers) => string }) {
  if (of === null) return "—";
  if (of.unknown === 0) return children(of);
  if (of.unknown === of.topics) return "—";
  return <span title={`Without ${count(of.unknown)} topics that are not known`}>≥ {children(of)}</span>;
}
