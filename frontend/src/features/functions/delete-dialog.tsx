import { dateTime, plural } from "../../lib/format";
import { ChangeDialog } from "../../shared/changes/change-dialog";
import { FUNCTION_COMMANDS } from "../../shared/commands/function-commands";
import styles from "../../ui/dialog.module.css";
import { CheckIcon } from "../../ui/icons";
import {
  applyDelete,
  type DeletePreview,
  type DeleteReceipt,
  type FunctionPlace,
  previewDelete,
} from "./model/function-queries";
import { fullName, nounOf } from "./model/function-words";

/** Deletes the function, source or sink of its preview. */
export function DeleteDialog({
  place,
  onChanged,
  onClose,
}: {
  place: FunctionPlace;
  onChanged: () => void;
  onClose: (isDone: boolean) => void;
}) {
  const noun = nounOf(place.component);
  return (
    <ChangeDialog<FunctionPlace, DeletePreview, DeleteReceipt>
      title={`Delete a ${noun}`}
      target={
        <>
          <span>{noun}</span> <b>{fullName(place)}</b>
        </>
      }
      what={noun}
      id={["function deletion", place]}
      wanted={place}
      ask={previewDelete}
      apply={(token) => applyDelete(place, token)}
      preview={(_, preview) => <Preview of={preview} />}
      receipt={(_, { at }) => (
        <p>
          <CheckIcon /> {`${dateTime(at)}: ${fullName(place)} was deleted.`}
        </p>
      )}
      label={() => "Delete"}
      red
      losesData={({ deletes_subscription }) => deletes_subscription}
      commands={() => FUNCTION_COMMANDS.deleteFunction(place)}
      nothing={`The ${noun} was not deleted`}
      onChanged={onChanged}
      onClose={onClose}
    />
  );
}

function Preview({ of }: { of: DeletePreview }) {
  const { inputs, output } = of.function;
  return (
    <>
      <p>{`It ends, with ${plural(of.instances, "instance")}. Its uploaded code and its state are deleted.`}</p>
      <ul className={styles.remarks}>
        {of.subscription &&
          (of.deletes_subscription ? (
            <li>{`The subscription ${of.subscription} of ${plural(inputs.length, "topic")} is deleted, with its backlog.`}</li>
          ) : (
            <li>{`The subscription ${of.subscription} remains, and keeps the backlog.`}</li>
          ))}
        {output && <li>{`The topic it writes to, ${output}, remains with its messages.`}</li>}
      </ul>
    </>
  );
}
