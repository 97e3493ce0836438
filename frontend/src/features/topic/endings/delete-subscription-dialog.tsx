import { Checkbox } from "@mantine/core";
import { useState } from "react";
import { count, dateTime, plural } from "../../../lib/format";
import { ChangeDialog } from "../../../shared/changes/change-dialog";
import { SUBSCRIPTION_COMMANDS } from "../../../shared/commands/subscription-commands";
import type { TopicId } from "../../../shared/topic/queries";
import { nameOf } from "../../../shared/topic/use-topic";
import styles from "../../../ui/dialog.module.css";
import { Fact } from "../../../ui/fact";
import { CheckIcon, WarningIcon } from "../../../ui/icons";
import { applyDeletion, type DeletionPreview, type DeletionReceipt, previewDeletion } from "./ending-queries";
import { deletedOf, deleteLabel, deletionRemarks, isHeld, losesData, lossOf } from "./ending-words";

const NAMED_MAX = 3;

interface Wanted {
  force: boolean;
}

/** Deletes a subscription with its unacknowledged messages. */
export function DeleteSubscriptionDialog({
  id,
  subscription,
  consumers,
  onChanged,
  onClose,
}: {
  id: TopicId;
  subscription: string;
  /** The number of connected consumers. */
  consumers: number;
  /** Called whenever something may have been changed. */
  onChanged: () => void;
  onClose: () => void;
}) {
  const [force, setForce] = useState(false);
  return (
    <ChangeDialog<Wanted, DeletionPreview, DeletionReceipt>
      title="Delete the subscription"
      target={
        <>
          <span>Subscription</span> <b>{subscription}</b> <span>of</span> <b>{nameOf(id)}</b>
        </>
      }
      what="subscription"
      id={["subscription-deletion", id, subscription]}
      wanted={{ force }}
      form={
        consumers > 0 || force
          ? (isDisabled) => (
              <Checkbox
                label={consumers === 1 ? "Disconnect its consumer" : "Disconnect its consumers"}
                checked={force}
                disabled={isDisabled}
                onChange={(event) => setForce(event.currentTarget.checked)}
              />
            )
          : undefined
      }
      ask={async (wanted) => {
        const found = await previewDeletion(id, subscription, wanted.force);
        return isHeld(found) ? { ...found, token: null } : found; // the broker would refuse it
      }}
      apply={(token) => applyDeletion(id, subscription, token)}
      preview={(_, preview) => <Preview preview={preview} />}
      losesData={losesData}
      receipt={(_, receipt) => (
        <p>
          <CheckIcon /> {dateTime(receipt.at)}: {deletedOf(receipt)}
        </p>
      )}
      label={(_, preview) => deleteLabel(preview)}
      red
      commands={(wanted) => SUBSCRIPTION_COMMANDS.deleteSubscription({ ...id, subscription }, wanted)}
      note="The commands delete it with everything that it holds at that time, previewed or not."
      nothing="Nothing was deleted"
      onChanged={onChanged}
      onClose={onClose}
    />
  );
}

function Preview({ preview }: { preview: DeletionPreview }) {
  const { consumers } = preview;
  return (
    <>
      {losesData(preview) ? (
        <p className={styles.lost}>
          <WarningIcon />
          <span>
            {preview.entries === null ? (
              <strong>How much is lost is not known.</strong>
            ) : (
              <>
                <strong>{lossOf(preview)}</strong> are lost to this subscription.
              </>
            )}
          </span>
        </p>
      ) : (
        <p>It has acknowledged all messages.</p>
      )}
      <dl className={styles.facts}>
        <Fact label="Consumers">
          {consumers.length === 0 ? (
            "none connected"
          ) : (
            <>
              {plural(consumers.length, "consumer")} connected
              {preview.force && `; ${consumers.length === 1 ? "it" : "they"} will be disconnected`}
              <small>
                {consumers
                  .slice(0, NAMED_MAX)
                  .map(({ name, address }) => `${name} (${address})`)
                  .join(", ")}
                {consumers.length > NAMED_MAX && ` and ${count(consumers.length - NAMED_MAX)} more`}
              </small>
            </>
          )}
        </Fact>
      </dl>
      <ul className={styles.remarks}>
        {deletionRemarks(preview).map((remark) => (
          <li key={remark}>{remark}</li>
        ))}
      </ul>
    </>
  );
}
