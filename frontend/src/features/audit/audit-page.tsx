import { Button, NativeSelect, TextInput } from "@mantine/core";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { count, dateTime, time } from "../../lib/format";
import { fromLocalInput, toLocalInput } from "../../lib/local-time";
import { FilterInput } from "../../ui/filter-input";
import { DataGrid, type GridColumn } from "../../ui/grid/data-grid";
import { useOrder } from "../../ui/grid/use-order";
import { DownloadIcon } from "../../ui/icons";
import { Page, PageHead } from "../../ui/panel";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import styles from "./audit.module.css";
import { Outcome, whatText, whereText, whoText } from "./audit-words";
import { type AuditRow, exportPath } from "./queries";
import {
  AUDIT_SORTS,
  type AuditField,
  type AuditSearch,
  filterOf,
  METHODS,
  NEWEST_FIRST,
  OUTCOMES,
} from "./search";
import { useAuditWindow } from "./use-audit-window";
import { VerificationDialog } from "./verification-dialog";

const route = getRouteApi("/audit");

type AuditColumn = GridColumn<AuditRow> & { field?: AuditField };

const COLUMNS: AuditColumn[] = [
  {
    key: "at",
    field: "at",
    header: "When",
    min: 206,
    cell: ({ id, at }) => (
      <Link to="/audit/$id" params={{ id }} className="topic-link" tabIndex={-1}>
        {dateTime(at)}
      </Link>
    ),
  },
  {
    key: "who",
    field: "actor",
    header: "Who",
    min: 150,
    narrow: 92,
    grow: 1,
    always: true,
    cell: (row) => whoText(row),
  },
  {
    key: "what",
    field: "operation",
    header: "What",
    min: 190,
    grow: 2,
    always: true,
    cell: (row) => whatText(row),
  },
  {
    key: "outcome",
    field: "status",
    header: "Outcome",
    min: 138,
    narrow: 126,
    always: true,
    cell: Outcome,
  },
  {
    key: "where",
    field: "namespace",
    header: "Where",
    min: 200,
    grow: 2,
    cell: (row) => whereText(row) || "—",
  },
  { key: "address", header: "From", min: 120, cell: ({ address }) => address },
];

/** The changes that were made, refused or tried. */
export function AuditPage() {
  useTitle("Audit log");
  const search = route.useSearch();
  const { sort, show, by } = useOrder(AUDIT_SORTS, NEWEST_FIRST);
  const open = useNavigate();
  const key = JSON.stringify(search);
  // biome-ignore lint/correctness/useExhaustiveDependencies: `key` stands for the search
  const filter = useMemo(() => filterOf(search), [key]);
  const list = useAuditWindow(filter, sort);
  const columns = COLUMNS.map(({ field, ...column }) =>
    field ? { ...column, ...by(field, field === "at" || field === "status") } : column,
  );
  const isFiltered = Object.keys(filter).length > 0;
  const [isVerifying, setVerifying] = useState(false);
  const isUnread = list.error !== null && list.total === undefined;
  const since = list.head?.searched_since ?? null;
  return (
    <Page shape="wide">
      <PageHead
        title="Audit log"
        badges={
          <span className={styles.total}>
            {list.total === undefined
              ? "…"
              : `${count(list.total)}${list.head?.exact === false ? " and more" : ""}`}
          </span>
        }
        freshness={<span className={styles.dim}>{list.readAt > 0 ? `as of ${time(list.readAt)}` : "…"}</span>}
        actions={
          <>
            <Button variant="default" onClick={list.renew}>
              Read again
            </Button>
            {!isUnread && (
              <>
                <Button variant="default" onClick={() => setVerifying(true)}>
                  Verify
                </Button>
                <Button
                  component="a"
                  variant="default"
                  leftSection={<DownloadIcon size={14} />}
                  href={exportPath(filter)}
                  download="audit.csv"
                >
                  CSV
                </Button>
              </>
            )}
          </>
        }
      />
      {isVerifying && <VerificationDialog onClose={() => setVerifying(false)} />}
      <Filters search={search} isFiltered={isFiltered} show={show} />
      {isUnread ? (
        <ErrorNotice error={list.error} title="The audit log could not be read" onRetry={list.renew} />
      ) : list.total === undefined ? (
        <Loading label="Loading the audit log" rows={12} />
      ) : (
        <div className={styles.grid}>
          {list.error !== null && (
            <ErrorNotice error={list.error} title="Some entries could not be read" onRetry={list.renew} />
          )}
          {list.total === 0 ? (
            <div className={styles.none}>
              <Empty title={isFiltered ? "No entry matches" : "No entry yet"} />
            </div>
          ) : (
            <DataGrid<AuditRow>
              label="Audit log"
              columns={columns}
              total={list.total}
              rowAt={list.rowAt}
              onRange={list.setRange}
              onOpen={({ id }) => open({ to: "/audit/$id", params: { id } })}
              busy={list.busy}
              resetKey={key}
            />
          )}
          <p className={styles.dim} role="status">
            {since !== null ? (
              <>
                Only entries since {dateTime(since)} were searched.{" "}
                <Link from="/audit" search={(before) => ({ ...before, to: String(since) })}>
                  Search older ones
                </Link>
              </>
            ) : list.head?.exact === false ? (
              "Narrow the search to see older entries, or download them all."
            ) : null}
          </p>
        </div>
      )}
    </Page>
  );
}

interface FilterProps {
  search: AuditSearch;
  isFiltered: boolean;
  show: (change: Partial<AuditSearch>, replace?: boolean) => void;
}

const TEXTS = [
  ["actor", "Who: exact name"],
  ["where", "Where: tenant/namespace/topic"],
  ["q", "What: part of path or query"],
] as const;
/** Filters that only links set. */
const LINKED = ["role", "operation"] as const;

function Filters({ search, isFiltered, show }: FilterProps) {
  const outcomes = OUTCOMES.some(({ value }) => value === (search.status ?? ""))
    ? OUTCOMES
    : [...OUTCOMES, { value: search.status ?? "", label: `Status ${search.status}` }];
  return (
    <search className={styles.filters}>
      {TEXTS.map(([name, label]) => (
        <FilterInput
          key={name}
          label={label}
          value={search[name] ?? ""}
          write={(value, replace) => show({ [name]: value || undefined }, replace)}
        />
      ))}
      <NativeSelect
        aria-label="Method"
        size="xs"
        value={search.method ?? ""}
        data={[{ value: "", label: "Any method" }, ...METHODS]}
        onChange={(event) =>
          show({ method: (event.currentTarget.value || undefined) as AuditSearch["method"] })
        }
      />
      <NativeSelect
        aria-label="Outcome"
        size="xs"
        value={search.status ?? ""}
        data={outcomes}
        onChange={(event) => show({ status: event.currentTarget.value || undefined })}
      />
      <TimeInput label="From" value={search.from} write={(from) => show({ from }, true)} />
      <TimeInput label="Until" value={search.to} write={(to) => show({ to }, true)} />
      {LINKED.map(
        (name) =>
          search[name] && (
            <Button
              key={name}
              size="compact-sm"
              variant="default"
              aria-label={`Remove the filter ${name} ${search[name]}`}
              onClick={() => show({ [name]: undefined })}
            >
              {name} {search[name]} ×
            </Button>
          ),
      )}
      {isFiltered && (
        <Button
          variant="subtle"
          onClick={() =>
            show({
              ...{ q: undefined, actor: undefined, role: undefined, operation: undefined },
              ...{ method: undefined, status: undefined, where: undefined },
              ...{ from: undefined, to: undefined },
            })
          }
        >
          Clear filters
        </Button>
      )}
    </search>
  );
}

function TimeInput({
  label,
  value,
  write,
}: {
  label: string;
  value: string | undefined;
  write: (value: string | undefined) => void;
}) {
  const text = value === undefined ? "" : toLocalInput(Number(value));
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: the field is inside
    <label>
      {label}
      <TextInput
        key={text}
        type="datetime-local"
        step={1}
        size="xs"
        className={styles.time ?? ""}
        defaultValue={text}
        // A field that is being filled is not complete yet: it counts once it is left.
        onBlur={(event) => {
          const at = fromLocalInput(event.currentTarget.value);
          const next = at === null ? undefined : String(at);
          if (event.currentTarget.value !== text) write(next);
        }}
        onKeyDown={(event) => event.key === "Enter" && event.currentTarget.blur()}
      />
    </label>
  );
}
