import { useQuery } from "@tanstack/react-query";
import { environmentQuery } from "../api/environment";
import { WarningIcon } from "../ui/icons";
import styles from "./open-to-anyone.module.css";

/** A line of the header as long as it is true. There is nothing to press: only the operator can change it. */
export function OpenToAnyone() {
  const environment = useQuery(environmentQuery).data;
  if (!environment?.open_to_anyone) return null;
  return (
    <p className={styles.open} role="note">
      <WarningIcon />
      Anyone who reaches this address may do everything: authentication is off
    </p>
  );
}
