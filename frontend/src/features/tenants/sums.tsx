import { NativeSelect } from "@mantine/core";
import { bytes, count, rate } from "../../lib/format";
import { OldestAge } from "../../shared/backlog/backlog-figures";
import { backlogText } from "../../shared/backlog/backlog-words";
import type { Column } from "../../ui/grid/table";
import type { TenantNumbers } from "./queries";

const SORTS = [
  { value: "", label: "By name" },
  { value: "-backlog", label: "Largest backlog first" },
  { value: "-oldest_age", label: "Oldest message first" },
  { value: "-storage_bytes", label: "Most stored first" },
  { value: "-msg_rate_in", label: "Most in first" },
  { value: "-msg_rate_out", label: "Most out first" },
  { value: "-topics", label: "Most topics first" },
];

/** The order of a search; undefined for one that the lists do not offer. */
export function orderOf(sort: string | undefined): string | undefined {
  return SORTS.find(({ value }) => value !== "" && value === sort)?.value;
}

/** The order of a list of tenants or namespaces. */
export function Order({
  value,
  onPick,
}: {
  value: string | undefined;
  onPick: (sort: string | undefined) => void;
}) {
  return (
    <NativeSelect
      aria-label="Order"
      size="xs"
      value={value ?? ""}
      data={SORTS}
      onChange={(event) => onPick(event.currentTarget.value || undefined)}
    />
  );
}

/** The columns of the sums over topics. */
export function sumColumns<Row extends { numbers: TenantNumbers | null }>(): Column<Row>[] {
  return [
    {
      key: "backlog",
      header: "Backlog",
      numeric: true,
      cell: (row) => <Sum of={row.numbers}>{(sums) => backlogText(sums)}</Sum>,
    },
    {
      key: "oldest",
      header: "Oldest unacknowledged",
      numeric: true,
      wide: true,
      cell: ({ numbers }) => (numbers === null ? "—" : <OldestAge at={numbers.oldest_at} />),
    },
    {
      key: "in",
      header: "In/s",
      numeric: true,
      cell: (row) => <Sum of={row.numbers}>{(sums) => rate(sums.msg_rate_in)}</Sum>,
    },
    {
      key: "out",
      header: "Out/s",
      numeric: true,
      cell: (row) => <Sum of={row.numbers}>{(sums) => rate(sums.msg_rate_out)}</Sum>,
    },
    {
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
