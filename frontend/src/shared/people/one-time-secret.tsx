import { Copy } from "../../ui/copy";
import { Notice } from "../../ui/states";
import styles from "./people.module.css";

/** A secret that is shown this once. */
export function OneTimeSecret({ what, value }: { what: string; value: string }) {
  return (
    <>
      <p className={styles.secret}>
        <span className="mono">{value}</span>
        <Copy value={value} what={`the ${what}`} />
      </p>
      <Notice tone="warning">Copy the {what} now: it is not shown again.</Notice>
    </>
  );
}
