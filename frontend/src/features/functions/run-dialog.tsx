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
import { fullName, nounOf } from "./model/function-words";

interface Words {
  label: string;
  effect: string;
  title: (noun: string) => string;
  preview: (instances: string) => string;
  receipt: (name: string) => string;
  nothing: (noun: string) => string;
}

const WORDS: Record<Run["verb"], Words> = {
  start: {
    label: "Start",
    effect: "They read on where they were stopped.",
    title: (noun) => `Start a ${noun}`,
    preview: (instances) => `To be started: ${instances}.`,
    receipt: (name) => `${name} is started.`,
    nothing: (noun) => `The ${noun} was not started`,
  },
  stop: {
    label: "Stop",
    effect:
      "They stay so until they are started, also when workers restart. Their subscriptions keep the backlog.",
    title: (noun) => `Stop a ${noun}`,
    preview: (instances) => `To be stopped: ${instances}.`,
    receipt: (name) => `${name} is stopped.`,
    nothing: (noun) => `The ${noun} was not stopped`,
  },
  restart: {
    label: "Restart",
    effect: "What was not acknowledged is delivered again. Stopped instances stay stopped.",
    title: (noun) => `Restart a ${noun}`,
    preview: (instances) => `To be restarted: ${instances}.`,
    receipt: (name) => `${name} is restarted.`,
    nothing: (noun) => `The ${noun} was not restarted`,
  },
};

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
  const noun = nounOf(place.component);
  return (
    <ChangeDialog<Run, RunPreview, RunReceipt>
      title={words.title(noun)}
      target={
        <>
          <span>{noun}</span> <b>{fullName(place)}</b>
          {run.instance !== undefined && run.instance !== null && ` instance ${run.instance}`}
        </>
      }
      what={noun}
      id={["function run", place]}
      wanted={run}
      ask={(wanted) => previewRun(place, wanted)}
      apply={(token) => applyRun(place, token)}
      preview={(_, { instances }) => (
        <>
          <p>{words.preview(plural(instances, "instance"))}</p>
          <ul className={styles.remarks}>
            <li>{words.effect}</li>
          </ul>
        </>
      )}
      receipt={(_, { at }) => (
        <p>
          <CheckIcon /> {dateTime(at)}: {words.receipt(fullName(place))}
        </p>
      )}
      label={() => words.label}
      commands={(wanted) => FUNCTION_COMMANDS.runFunction(place, wanted)}
      nothing={words.nothing(noun)}
      onChanged={onChanged}
      onClose={onClose}
    />
  );
}
