import { Button } from "@mantine/core";
import type { ReactNode } from "react";
import { Copy } from "../../ui/copy";
import { Dialog } from "../../ui/dialog";
import dialog from "../../ui/dialog.module.css";
import { Notice } from "../../ui/states";
import styles from "./people.module.css";

/** A secret that is shown this once. */
export function OneTimeSecret({ what, value }: { what: string; value: string }) {
  return (
    <>
      <p className={styles.secret}>
        <span className="mono">{value}</span>
        <Copy value={value} what={what} />
      </p>
      <Notice tone="warning">{`Copy the ${what} now: it is not shown again.`}</Notice>
    </>
  );
}

/** The receipt of a change that made a secret: `intro` is above it, `children` are below. */
export function OneTimeSecretDialog({
  what,
  value,
  size,
  intro,
  onClose,
  children,
}: {
  what: string;
  value: string;
  size?: "md" | "lg";
  intro?: ReactNode;
  onClose: () => void;
  children?: ReactNode;
}) {
  return (
    <Dialog title="Done" onClose={onClose} closeOnClickOutside={false} {...(size && { size })}>
      <div className={dialog.dialog}>
        {intro && (
          <div className={dialog.preview} role="status">
            {intro}
          </div>
        )}
        <OneTimeSecret what={what} value={value} />
        {children}
        <div className={dialog.buttons}>
          <Button onClick={onClose} data-autofocus>
            Close
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
