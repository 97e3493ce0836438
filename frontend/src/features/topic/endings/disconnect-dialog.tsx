import { NativeSelect } from "@mantine/core";
import { useState } from "react";
import { dateTime } from "../../../lib/format";
import { ChangeDialog } from "../../../shared/changes/change-dialog";
import { COMMANDS } from "../../../shared/commands/commands";
import type { TopicId } from "../../../shared/topic/queries";
import { nameOf } from "../../../shared/topic/use-topic";
import styles from "../../../ui/dialog.module.css";
import { Fact } from "../../../ui/fact";
import { CheckIcon } from "../../../ui/icons";
import {
  applyDisconnect,
  type Consumer,
  type DisconnectPreview,
  type DisconnectReceipt,
  previewDisconnect,
} from "./ending-queries";
import { disconnectedOf, disconnectRemarks } from "./ending-words";

const titleOf = ({ name, address, partition }: Consumer) =>
  `${name} (${address}${partition === null ? "" : `, partition ${partition}`})`;

/** Disconnects one consumer of a subscription; without `consumer` the user chooses one of `consumers`. */
export function DisconnectDialog({
  id,
  subscription,
  consumer,
  consumers,
  onChanged,
  onClose,
}: {
  id: TopicId;
  subscription: string;
  consumer: Consumer | undefined;
  consumers: readonly Consumer[];
  /** Called whenever something may have been changed. */
  onChanged: () => void;
  onClose: () => void;
}) {
  // The consumers as they were: connections and disconnections must not change the choice.
  const [choices] = useState(() =>
    consumers.map(({ name, address, partition }) => ({ name, address, partition })),
  );
  const [chosen, setChosen] = useState<Consumer | null>(
    consumer ?? (choices.length === 1 ? (choices[0] ?? null) : null),
  );
  return (
    <ChangeDialog<Consumer, DisconnectPreview, DisconnectReceipt>
      title="Disconnect a consumer"
      target={
        <>
          <span>Subscription</span> <b>{subscription}</b> <span>of</span> <b>{nameOf(id)}</b>
        </>
      }
      what="consumer"
      id={["disconnection", id, subscription]}
      wanted={chosen && { name: chosen.name, address: chosen.address, partition: chosen.partition }}
      form={
        consumer
          ? undefined
          : (isDisabled) => (
              <NativeSelect
                label="Consumer"
                disabled={isDisabled}
                value={chosen ? choices.findIndex((one) => titleOf(one) === titleOf(chosen)) : -1}
                onChange={(event) => setChosen(choices[Number(event.currentTarget.value)] ?? null)}
                data={[
                  {
                    value: "-1",
                    label: choices.length === 0 ? "No consumer is connected" : "Choose a consumer",
                  },
                  ...choices.map((one, index) => ({ value: String(index), label: titleOf(one) })),
                ]}
              />
            )
      }
      ask={(wanted) => previewDisconnect(id, subscription, wanted)}
      apply={(token) => applyDisconnect(id, subscription, token)}
      preview={(_, preview) => <Preview preview={preview} />}
      receipt={(_, receipt) => (
        <p>
          <CheckIcon /> {dateTime(receipt.at)}: {disconnectedOf(receipt)}
        </p>
      )}
      label={() => "Disconnect"}
      commands={() => COMMANDS.disconnectConsumer()}
      nothing="No consumer was disconnected"
      onChanged={onChanged}
      onClose={onClose}
    />
  );
}

function Preview({ preview }: { preview: DisconnectPreview }) {
  return (
    <>
      <dl className={styles.facts}>
        {preview.consumers.map((one, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: several are alike, and the list does not change
          <Fact key={index} label="Consumer">
            {titleOf(one)}
            <small>connected since {dateTime(one.connected)}</small>
          </Fact>
        ))}
      </dl>
      <ul className={styles.remarks}>
        {disconnectRemarks(preview).map((remark) => (
          <li key={remark}>{remark}</li>
        ))}
      </ul>
    </>
  );
}
