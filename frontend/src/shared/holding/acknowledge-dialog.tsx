import { dateTime } from "../../lib/format";
import styles from "../../ui/dialog.module.css";
import { Fact } from "../../ui/fact";
import { CheckIcon } from "../../ui/icons";
import { ChangeDialog } from "../changes/change-dialog";
import { COMMANDS } from "../commands/commands";
import type { TopicId } from "../topic/queries";
import { nameOf } from "../topic/use-topic";
import {
  type AcknowledgePreview,
  type AcknowledgeReceipt,
  applyAcknowledgement,
  type Held,
  previewAcknowledgement,
} from "./holding-queries";
import { acknowledgeRemarks } from "./holding-words";

/** Acknowledges one message for a subscription: the cancellation of a delayed one. */
export function AcknowledgeDialog({
  id,
  subscription,
  held,
  onChanged,
  onClose,
}: {
  id: TopicId;
  subscription: string;
  held: Held;
  onChanged: () => void;
  onClose: () => void;
}) {
  return (
    <ChangeDialog<Held, AcknowledgePreview, AcknowledgeReceipt>
      title="Acknowledge a message"
      target={
        <>
          <span>Message</span> <b>{held.message}</b>
          {held.partition !== null && <span> of partition {held.partition}</span>} <span>for</span>{" "}
          <b>{subscription}</b> <span>of</span> <b>{nameOf(id)}</b>
        </>
      }
      what="message"
      id={["acknowledgement", id, subscription]}
      wanted={held}
      ask={(wanted) => previewAcknowledgement(id, subscription, wanted)}
      apply={(token) => applyAcknowledgement(id, subscription, token)}
      preview={(_, preview) => (
        <>
          {preview.deliver_at !== null && (
            <dl className={styles.facts}>
              <Fact label="Not delivered before">{dateTime(preview.deliver_at)}</Fact>
            </dl>
          )}
          <ul className={styles.remarks}>
            {acknowledgeRemarks(preview).map((remark) => (
              <li key={remark}>{remark}</li>
            ))}
          </ul>
        </>
      )}
      receipt={(_, { at, message, was }) => (
        <p>
          <CheckIcon /> {dateTime(at)}:{" "}
          {was === "held"
            ? `message ${message} is acknowledged`
            : `message ${message} had been acknowledged meanwhile`}
        </p>
      )}
      losesData={() => true}
      label={(_, preview) => (preview?.state === "delayed" ? "Cancel the delivery" : "Acknowledge")}
      red
      commands={() => COMMANDS.acknowledgeMessage()}
      nothing="The message was not acknowledged"
      onChanged={onChanged}
      onClose={onClose}
    />
  );
}
