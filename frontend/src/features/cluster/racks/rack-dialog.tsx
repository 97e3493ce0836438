import { NativeSelect, TextInput } from "@mantine/core";
import { useState } from "react";
import { dateTime } from "../../../lib/format";
import { ChangeDialog } from "../../../shared/changes/change-dialog";
import { COMMANDS } from "../../../shared/commands/commands";
import styles from "../../../ui/dialog.module.css";
import { Fact } from "../../../ui/fact";
import { CheckIcon } from "../../../ui/icons";
import { applyRack, previewRack, type RackPreview, type RackReceipt, type Wanted } from "./rack-queries";
import { changeOf, doneOf, rackText, remarksOf } from "./rack-words";

/** Sets a bookie's rack and group, or removes the setting. */
export function RackDialog({
  cluster,
  bookie,
  onChanged,
  onClose,
}: {
  cluster: string;
  bookie: { id: string; rack: string; group: string };
  onChanged: () => void;
  onClose: () => void;
}) {
  const [{ id, rack: storedRack, group: storedGroup }] = useState(bookie);
  const [isRemoval, setRemoval] = useState(false);
  const [rack, setRack] = useState(storedRack);
  const [group, setGroup] = useState(storedGroup || "default");
  const isWhole = rack.trim() !== "" && group.trim() !== "";
  return (
    <ChangeDialog<Wanted, RackPreview, RackReceipt>
      title="Rack of a bookie"
      target={
        <>
          Bookie <b className="mono">{id}</b>
        </>
      }
      what="bookie"
      id={["rack", cluster, id]}
      wanted={isRemoval ? { rack: null, group: "default" } : isWhole ? { rack, group } : null}
      form={(isDisabled, problem) => (
        <>
          {storedGroup !== "" && (
            <NativeSelect
              label="What to do"
              disabled={isDisabled}
              value={isRemoval ? "remove" : "set"}
              data={[
                { value: "set", label: "Set its rack and group" },
                { value: "remove", label: "Remove them" },
              ]}
              onChange={(event) => setRemoval(event.currentTarget.value === "remove")}
            />
          )}
          {!isRemoval && (
            <>
              <TextInput
                label="Rack"
                description="A name such as /rack-1, or with a region /eu/rack-1: bookies that fail together share one"
                disabled={isDisabled}
                value={rack}
                error={problem}
                data-autofocus
                autoComplete="off"
                spellCheck={false}
                onChange={(event) => setRack(event.currentTarget.value)}
              />
              <TextInput
                label="Group"
                disabled={isDisabled}
                value={group}
                autoComplete="off"
                spellCheck={false}
                onChange={(event) => setGroup(event.currentTarget.value)}
              />
            </>
          )}
        </>
      )}
      ask={(wanted) => previewRack(cluster, id, wanted)}
      apply={(token) => applyRack(cluster, id, token)}
      preview={(_, preview) => <Preview preview={preview} />}
      receipt={(_, receipt) => (
        <p>
          <CheckIcon /> {dateTime(receipt.at)}: {doneOf(id, receipt)}
        </p>
      )}
      label={(wanted, preview) =>
        preview?.token === null ? "Nothing to change" : wanted?.rack === null ? "Remove rack" : "Set rack"
      }
      red={isRemoval}
      commands={(_, { token, after }) =>
        token === null ? undefined : COMMANDS.changeRack({ bookie: id }, { rack: after })
      }
      onChanged={onChanged}
      onClose={onClose}
    />
  );
}

function Preview({ preview }: { preview: RackPreview }) {
  const { before, after } = preview;
  return (
    <>
      <p>{changeOf(preview)}</p>
      <dl className={styles.facts}>
        <Fact label="Set now">{rackText(before)}</Fact>
        <Fact label="After the change">{rackText(after)}</Fact>
        {after?.hostname && (
          <Fact label="Hostname">
            {after.hostname}
            <small>unchanged</small>
          </Fact>
        )}
      </dl>
      <ul className={styles.remarks}>
        {remarksOf(preview).map((remark) => (
          <li key={remark}>{remark}</li>
        ))}
      </ul>
    </>
  );
}
