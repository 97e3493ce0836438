import { dateTime } from "../../lib/format";
import { ChangeDialog } from "../../shared/changes/change-dialog";
import { FUNCTION_COMMANDS } from "../../shared/commands/function-commands";
import { TextDifference } from "../../ui/code/text-difference";
import { CheckIcon } from "../../ui/icons";
import {
  applyDeploy,
  type Deployment,
  type DeployPreview,
  type DeployReceipt,
  type FunctionPlace,
  previewDeploy,
} from "./model/function-queries";
import { fullName, nounOf } from "./model/function-words";

const shown = (config: unknown) => (config ? JSON.stringify(config, null, 2) : "");

/** Deploys what its preview shows: the config before and after, checked by the gateway. */
export function DeployDialog({
  place,
  deployment,
  code,
  onClose,
}: {
  place: FunctionPlace;
  deployment: Deployment;
  /** The text of the deployed code and that of the editor; null where one of them is no text. */
  code: { before: string; after: string } | null;
  onClose: (isDone: boolean) => void;
}) {
  const noun = nounOf(place.component);
  return (
    <ChangeDialog<Deployment, DeployPreview, DeployReceipt>
      title={`Deploy a ${noun}`}
      target={
        <>
          <span>{noun}</span> <b>{fullName(place)}</b>
        </>
      }
      what={noun}
      id={["function deployment", place]}
      wanted={deployment}
      ask={(wanted) => previewDeploy(place, wanted)}
      apply={(token) => applyDeploy(place, token)}
      preview={(wanted, preview) => <Preview of={preview} fileName={wanted.file_name} code={code} />}
      receipt={(_, { at, created }) => (
        <p>
          <CheckIcon /> {dateTime(at)}:{" "}
          {created
            ? `${fullName(place)} was created. Its instances start.`
            : `${fullName(place)} was updated. Its instances restart.`}
        </p>
      )}
      label={(_, preview) => (preview?.before ? "Update" : "Create")}
      commands={({ file_name, config }, { before }) =>
        FUNCTION_COMMANDS.deployFunction(place, {
          isNew: before === null,
          file: file_name,
          archive: config.archive as string | undefined,
        })
      }
      note="config.json has the config of the preview, with your secrets in place of the asterisks."
      nothing={`The ${noun} was not deployed`}
      onChanged={() => undefined}
      onClose={onClose}
    />
  );
}

function Preview({
  of,
  fileName,
  code,
}: {
  of: DeployPreview;
  fileName: string | undefined;
  code: { before: string; after: string } | null;
}) {
  if (!of.is_change) return <p>Nothing differs from what is deployed.</p>;
  return (
    <>
      <p>
        {of.before === null
          ? "It is new. The gateway has checked its config:"
          : "Its instances restart with this config:"}
      </p>
      <TextDifference label="Config before and after" before={shown(of.before)} after={shown(of.after)} />
      {of.with_code && fileName && <p>{`The code is the file ${fileName}.`}</p>}
      {of.with_code && code && (
        <TextDifference label="Code before and after" before={code.before} after={code.after} />
      )}
      {of.token === null && <p>It is too large for the console: use a command.</p>}
    </>
  );
}
