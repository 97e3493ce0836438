import { dateTime, plural } from "../../lib/format";
import { ChangeDialog } from "../../shared/changes/change-dialog";
import { FUNCTION_COMMANDS } from "../../shared/commands/function-commands";
import styles from "../../ui/dialog.module.css";
import { CheckIcon } from "../../ui/icons";
import {
  applyRun,
  type FunctionPlace,
  previewRun,
  type Run,
  type RunPreview,
  type RunReceipt,
} from "./model/function-queries";
import { fullName } from "./model/function-words";

const WORDS = {
  start: { title: "Start", done: "started", effect: "They read on where they were stopped." },
  stop: {
    title: "Stop",
    done: "stopped",
    effect:
      "They stay so until they are started, also when workers restart. Their subscriptions keep the backlog.",
  },
  restart: {
    title: "Restart",
    done: "restarted",
    effect: "What was not acknowledged is delivered again. Stopped instances stay stopped.",
  },
} as const;

/** Starts, stops or restarts the instances of its preview. */
export function RunDialog({
  place,
  run,
  onChanged,
  onClose,
}: {
  place: FunctionPlace;
  run: Run;
  onChanged: () => void;
  onClose: () => void;
}) {
  const words = WORDS[run.verb];
  return (
    <ChangeDialog<Run, RunPreview, RunReceipt>
      title={`${words.title} a ${place.component}`}
      target={
        <>
          <span>{place.component}</span> <b>{fullName(place)}</b>
          {run.instance !== undefined && run.instance !== null && ` instance ${run.instance}`}
        </>
      }
      what={place.component}
      id={["function run", place]}
      wanted={run}
      ask={(wanted) => previewRun(place, wanted)}
      apply={(token) => applyRun(place, token)}
      preview={(_, { instances }) => (
        <>
          <p>
            {plural(instances, "instance")} {instances === 1 ? "is" : "are"} {words.done}.
          </p>
          <ul className={styles.remarks}>
            <li>{words.effect}</li>
          </ul>
        </>
      )}
      receipt={(_, { at }) => (
        <p>
          <CheckIcon /> {dateTime(at)}: {fullName(place)} is {words.done}.
        </p>
      )}
      label={() => words.title}
      commands={(wanted) => FUNCTION_COMMANDS.runFunction(place, wanted)}
      nothing={`The ${place.component} was not ${words.done}`}
      onChanged={onChanged}
      onClose={onClose}
    />
  );
}
