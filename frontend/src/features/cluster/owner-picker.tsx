import { NativeSelect } from "@mantine/core";

/** Selects the owner of the listed bundles; also a broker that no longer exists. */
export function OwnerPicker({
  value,
  ids,
  onPick,
}: {
  value: string;
  ids: readonly string[];
  onPick: (id: string) => void;
}) {
  const all = value && !ids.includes(value) ? [value, ...ids] : ids;
  return (
    <NativeSelect
      aria-label="Owner"
      size="xs"
      value={value}
      data={[{ value: "", label: "Any owner" }, ...all.map((id) => ({ value: id, label: id }))]}
      onChange={(event) => onPick(event.currentTarget.value)}
    />
  );
}
