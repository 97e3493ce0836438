import { Button } from "@mantine/core";
import { count } from "../../lib/format";
import styles from "./table.module.css";

/** Buttons that turn the pages of a list; nothing where it has one page. */
export function Pages({
  page,
  total,
  per,
  onTurn,
}: {
  page: number;
  /** Rows; undefined while not known. */
  total: number | undefined;
  per: number;
  /** Receives the page; undefined for the first. */
  onTurn: (page: number | undefined) => void;
}) {
  if (total === undefined) return null;
  const pages = Math.max(1, Math.ceil(total / per));
  if (pages === 1 && page === 1) return null;
  const turn = (to: number) => onTurn(to > 1 ? to : undefined);
  return (
    <span className={styles.pages}>
      <Button variant="default" disabled={page <= 1} onClick={() => turn(page - 1)}>
        Previous
      </Button>
      <span>
        {count(page)} of {count(pages)}
      </span>
      <Button variant="default" disabled={page >= pages} onClick={() => turn(page + 1)}>
        Next
      </Button>
    </span>
  );
}
