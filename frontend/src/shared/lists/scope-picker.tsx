import { Select } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { scopesQuery } from "./list-queries";
import styles from "./lists.module.css";

const SHOWN = 50;
const everything = ({ options }: { options: unknown[] }) => options as never[]; // the server has filtered

/** A tenant, or a namespace as tenant/namespace, found by words of its name. */
export function ScopePicker({
  kind,
  cluster,
  tenant,
  value,
  onPick,
}: {
  kind: "tenants" | "namespaces";
  cluster: string;
  tenant?: string | undefined; // whose namespaces
  value: string;
  onPick: (name: string) => void; // empty: any
}) {
  const label = kind === "tenants" ? "Tenant" : "Namespace";
  const [open, setOpen] = useState(false);
  const [text, setText] = useState(value);
  const q = text === value ? "" : text;
  const found = useQuery({
    ...scopesQuery(cluster, q, SHOWN, kind === "namespaces" ? tenant : undefined),
    enabled: open,
    placeholderData: keepPreviousData,
  });
  const names = found.data?.[kind].names ?? [];
  const more = found.data ? found.data[kind].total - names.length : 0;
  return (
    <Select
      size="xs"
      className={styles.scope}
      aria-label={label}
      placeholder={`Any ${label.toLowerCase()}`}
      searchable
      clearable
      value={value || null}
      data={value && !names.includes(value) ? [value, ...names] : names}
      filter={everything}
      onSearchChange={setText}
      onDropdownOpen={() => setOpen(true)}
      onDropdownClose={() => setOpen(false)}
      onChange={(name) => onPick(name ?? "")}
      nothingFoundMessage={
        found.error
          ? `Could not be read: ${found.error.message}`
          : found.isFetching
            ? "Searching…"
            : `No ${label.toLowerCase()} name contains this`
      }
      maxDropdownHeight={320}
      comboboxProps={{ width: "max-content", position: "bottom-start", transitionProps: { duration: 0 } }}
      clearButtonProps={{ "aria-label": `Any ${label.toLowerCase()}` }}
      {...(more > 0 ? { description: undefined, "aria-description": `${more} more: type to find them` } : {})}
    />
  );
}
