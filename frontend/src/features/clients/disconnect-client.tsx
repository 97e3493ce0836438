import { count, dateTime, plural } from "../../lib/format";
import { ChangeDialog } from "../../shared/changes/change-dialog";
import { COMMANDS } from "../../shared/commands/commands";
import styles from "../../ui/dialog.module.css";
import { CheckIcon } from "../../ui/icons";
import { Facts } from "./client-facts";
import {
  applyDisconnect,
  type ClientPlace,
  type DisconnectPreview,
  type DisconnectReceipt,
  previewDisconnect,
} from "./client-queries";
import { closedText } from "./client-words";

const NAMED_MAX = 8;

/** Closes a client's connection, with the producers and consumers of its preview. */
export function DisconnectClient({
  place,
  onChanged,
  onClose,
}: {
  place: ClientPlace;
  onChanged: () => void;
  onClose: () => void;
}) {
  return (
    <ChangeDialog<ClientPlace, DisconnectPreview, DisconnectReceipt>
      title="Disconnect a client"
      target={
        <>
          <span>Connection</span> <b>{place.connection}</b> <span>of</span> <b>{place.broker}</b>
        </>
      }
      what="client"
      id={["client disconnection", place]}
      wanted={place}
      ask={previewDisconnect}
      apply={(token) => applyDisconnect(place, token)}
      preview={(_, preview) => <Preview of={preview} />}
      receipt={(_, receipt) => (
        <p>
          <CheckIcon /> {dateTime(receipt.at)}: {closedText(receipt)}
        </p>
      )}
      label={() => "Disconnect"}
      commands={() => COMMANDS.disconnectClient()}
      nothing="The client was not disconnected"
      onChanged={onChanged}
      onClose={onClose}
    />
  );
}

function Preview({ of: { connection } }: { of: DisconnectPreview }) {
  const { clients, producers, consumers, unacked } = connection;
  const unnamed = producers + consumers - Math.min(clients.length, NAMED_MAX);
  return (
    <>
      <Facts of={connection} />
      <p>
        {plural(producers, "producer")} and {plural(consumers, "consumer")} are closed.
      </p>
      <ul className={styles.names}>
        {clients.slice(0, NAMED_MAX).map((client) => (
          <li key={`${client.kind} ${client.topic} ${client.subscription} ${client.name}`}>
            {client.kind} {client.name} <span className="mono">{client.topic}</span>
            {client.subscription && ` (${client.subscription})`}
          </li>
        ))}
        {unnamed > 0 && <li>and {count(unnamed)} more</li>}
      </ul>
      <ul className={styles.remarks}>
        <li>The client may connect again at once: libraries do so by themselves.</li>
        {unacked > 0 && (
          <li>{plural(unacked, "message")} that it did not acknowledge are delivered again.</li>
        )}
      </ul>
    </>
  );
}
