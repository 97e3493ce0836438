import { Button } from "@mantine/core";
import type { CursorReceipt } from "../../api/types";
import { useServerNow } from "../../lib/clock";
import { dateTime, duration, plural } from "../../lib/format";
import dialog from "../../ui/dialog.module.css";
import { CheckIcon } from "../../ui/icons";
import { CommandLines } from "../commands/command-lines";
import type { Commands } from "../commands/shell";
import styles from "./cursor.module.css";
import { inEntries, loses, outcome, repeats } from "./cursor-words";

/** The completed change, as the brokers counted it, with its undo. */
export function Receipt({
  receipt,
  commands,
  undoing,
  onUndo,
  onClose,
}: {
  receipt: CursorReceipt;
  /** Null for an undo, which Pulsar has no command for. */
  commands: Commands | null;
  undoing: boolean;
  onUndo: (change: string) => void;
  onClose: () => void;
}) {
  const [only] = receipt.parts;
  const single = receipt.parts.length === 1 ? only : undefined;
  const entries = inEntries(receipt);
  return (
    <>
      <div className={dialog.preview} role="status">
        <p>
          <CheckIcon /> Done at {dateTime(receipt.at)}: {outcome(receipt)}
          {entries && ` (${entries})`}
          {receipt.parts.length > 1 && ` on ${plural(receipt.parts.length, "partition")}`}.
        </p>
        {receipt.meanwhile > 0 && (
          <p>
            {plural(receipt.meanwhile, "entry", "entries")} of the preview{" "}
            {receipt.meanwhile === 1 ? "was" : "were"} acknowledged before it was confirmed.
          </p>
        )}
        {single?.from && (
          <dl className={dialog.facts}>
            <div>
              <dt>Next message</dt>
              <dd>
                <span className="mono">{single.from}</span> → <span className="mono">{single.to}</span>
              </dd>
            </div>
            <div>
              <dt>Acknowledged up to</dt>
              <dd className="mono">{single.mark_delete}</dd>
            </div>
          </dl>
        )}
      </div>
      {commands && (
        <CommandLines of={commands} note="They do the same from the subscription's position at that time." />
      )}
      {receipt.undo && loses(receipt) && <Kept until={receipt.undo_until ?? 0} />}
      <div className={dialog.buttons}>
        {receipt.undo ? (
          <Button variant="default" loading={undoing} onClick={() => receipt.undo && onUndo(receipt.undo)}>
            Undo
          </Button>
        ) : (
          <span className={styles.hint}>
            {loses(receipt) || repeats(receipt)
              ? "It cannot be undone: the state before was too large to be kept."
              : "There is nothing to undo; the change before it stays the last one."}
          </span>
        )}
        <Button onClick={onClose} data-autofocus>
          Close
        </Button>
      </div>
    </>
  );
}

/** The time for which all discarded messages can still be restored. */
function Kept({ until }: { until: number }) {
  const left = until - useServerNow();
  return (
    <p className={styles.hint}>
      {left > 0
        ? `Undo restores everything for another ${duration(left / 1000)}.`
        : "Undo restores what is still stored."}
    </p>
  );
}
