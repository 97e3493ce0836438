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
import { fullName } from "./model/function-words";

const shown = (config: unknown) => (config ? JSON.stringify(config, null, 2) : "");

/** Deploys what its preview shows: the config before and after, checked by the gateway. */
export function DeployDialog({
  place,
  deployment,
  onClose,
}: {
  place: FunctionPlace;
  deployment: Deployment;
  onClose: (isDone: boolean) => void;
}) {
  return (
    <ChangeDialog<Deployment, DeployPreview, DeployReceipt>
      title={`Deploy a ${place.component}`}
      target={
        <>
          <span>{place.component}</span> <b>{fullName(place)}</b>
        </>
      }
      what={place.component}
      id={["function deployment", place]}
      wanted={deployment}
      ask={(wanted) => previewDeploy(place, wanted)}
      apply={(token) => applyDeploy(place, token)}
      preview={(wanted, preview) => <Preview of={preview} fileName={wanted.file_name} />}
      receipt={(_, { at, created }) => (
        <p>
          <CheckIcon /> {dateTime(at)}: {fullName(place)} was {created ? "created" : "updated"}. Its instances
          start.
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
      nothing={`The ${place.component} was not deployed`}
      onChanged={() => undefined}
      onClose={onClose}
    />
  );
}

function Preview({ of, fileName }: { of: DeployPreview; fileName: string | undefined }) {
  if (!of.is_change) return <p>Nothing differs from what is deployed.</p>;
  return (
    <>
      <p>
        {of.before === null
          ? "It is new. The gateway has checked its config:"
          : "Its instances restart with this config:"}
      </p>
      <TextDifference label="Config before and after" before={shown(of.before)} after={shown(of.after)} />
      {of.with_code && fileName && <p>The code is the file {fileName}.</p>}
      {of.token === null && <p>It is too large for the console: use a command.</p>}
    </>
  );
}
