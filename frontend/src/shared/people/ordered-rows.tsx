import { ActionIcon } from "@mantine/core";
import { ChevronIcon } from "../../ui/icons";
import { CloseIcon } from "./icons";
import styles from "./people.module.css";

/** Changes of rows whose order matters. */
export function orderedRows<Row>(rows: readonly Row[], onChange: (rows: Row[]) => void) {
  return {
    put: (index: number, change: Partial<Row>) =>
      onChange(rows.map((row, at) => (at === index ? { ...row, ...change } : row))),
    moveUp: (index: number) => {
      const moved = rows.slice();
      moved.splice(index - 1, 0, ...moved.splice(index, 1));
      onChange(moved);
    },
    remove: (index: number) => onChange(rows.filter((_, at) => at !== index)),
  };
}

/** The buttons of a row. */
export function RowButtons({
  name,
  className,
  mayMoveUp,
  mayRemove,
  onMoveUp,
  onRemove,
}: {
  name: string;
  className?: string | undefined;
  mayMoveUp: boolean;
  mayRemove: boolean;
  onMoveUp: () => void;
  onRemove: () => void;
}) {
  return (
    <span className={`${styles.moves} ${className ?? ""}`}>
      <ActionIcon
        className={styles.up ?? ""}
        aria-label={`Move ${name} up`}
        disabled={!mayMoveUp}
        onClick={onMoveUp}
      >
        <ChevronIcon size={14} />
      </ActionIcon>
      <ActionIcon aria-label={`Remove ${name}`} disabled={!mayRemove} onClick={onRemove}>
        <CloseIcon size={14} />
      </ActionIcon>
    </span>
  );
}
