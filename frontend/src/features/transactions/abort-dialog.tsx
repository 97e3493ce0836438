import { dateTime, duration, plural } from "../../lib/format";
import { ChangeDialog } from "../../shared/changes/change-dialog";
import { COMMANDS } from "../../shared/commands/commands";
import styles from "../../ui/dialog.module.css";
import { Fact } from "../../ui/fact";
import { CheckIcon } from "../../ui/icons";
import { Since } from "../../ui/since";
import {
  type AbortPreview,
  type AbortReceipt,
  applyAbort,
  previewAbort,
  type Transaction,
  type TransactionPlace,
} from "./transaction-queries";
import { idOf, NAMED_MAX, placesOf } from "./transaction-words";

/** Aborts the transaction of its preview. */
export function AbortDialog({
  place,
  onChanged,
  onClose,
}: {
  place: TransactionPlace;
  onChanged: () => void;
  onClose: () => void;
}) {
  return (
    <ChangeDialog<TransactionPlace, AbortPreview, AbortReceipt>
      title="Abort a transaction"
      target={
        <>
          <span>Transaction</span> <b>{idOf(place)}</b>
        </>
      }
      what="transaction"
      id={["transaction abort", place]}
      wanted={place}
      ask={previewAbort}
      apply={(token) => applyAbort(place, token)}
      preview={(_, preview) => <Preview of={preview.transaction} />}
      receipt={(_, receipt) => (
        <p>
          <CheckIcon /> {dateTime(receipt.at)}: transaction {idOf(receipt.transaction)} was aborted.
        </p>
      )}
      label={() => "Abort"}
      red
      losesData={({ transaction }) => transaction.topics.length > 0}
      commands={(wanted) => COMMANDS.abortTransaction(wanted)}
      nothing="The transaction was not aborted"
      onChanged={onChanged}
      onClose={onClose}
    />
  );
}

function Preview({ of }: { of: Transaction }) {
  const places = placesOf(of);
  return (
    <>
      <dl className={styles.facts}>
        <Fact label="State">{of.status}</Fact>
        <Fact label="Owner">{of.owner ?? "none: authentication is off"}</Fact>
        <Fact label="Age">
          <Since at={of.since} />
          <small>aborted by itself after {duration(of.timeout_ms / 1000)}</small>
        </Fact>
      </dl>
      <ul className={styles.names}>
        {places.slice(0, NAMED_MAX).map(({ name, text }) => (
          <li key={text + name}>
            {text} <span className="mono">{name}</span>
          </li>
        ))}
        {places.length > NAMED_MAX && <li>and {places.length - NAMED_MAX} more</li>}
      </ul>
      <ul className={styles.remarks}>
        {of.topics.length > 0 && (
          <li>
            What it published to {plural(of.topics.length, "topic")} is never delivered; the messages behind
            it are.
          </li>
        )}
        {of.subscriptions.length > 0 && (
          <li>
            What it acknowledged on {plural(of.subscriptions.length, "subscription")} is delivered again.
          </li>
        )}
        {places.length === 0 && <li>It has neither published nor acknowledged anything.</li>}
        <li>Its client is refused what it does in it from now on.</li>
      </ul>
    </>
  );
}
