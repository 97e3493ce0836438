import { Button } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import type { Candidate, Rehearsal, SchemaVersions, Verdict } from "../../api/types";
import { asApiError } from "../../lib/errors";
import { plural } from "../../lib/format";
import { ChangeFailure } from "../../shared/changes/change-failure";
import { CommandLines } from "../../shared/commands/command-lines";
import { COMMANDS } from "../../shared/commands/commands";
import type { TopicId } from "../../shared/topic/queries";
import { nameOf } from "../../shared/topic/use-topic";
import { Command } from "../../ui/copy";
import { Dialog } from "../../ui/dialog";
import { Notice } from "../../ui/states";
import { Difference } from "./difference";
import { byLines } from "./fields";
import { register, versionQuery, versionsQuery } from "./queries";
import styles from "./schema.module.css";
import { VerdictNotice } from "./verdict";

/** Registers the tried candidate as the successor of the version that it was compared with, or nothing. */
export function RegisterDialog({
  id,
  candidate,
  verdict,
  rehearsal,
  newest,
  onAgain,
  onClose,
}: {
  id: TopicId;
  candidate: Candidate;
  verdict: Verdict;
  rehearsal: Rehearsal | null;
  newest: SchemaVersions;
  /** Called to try the candidate again: the schema changed. */
  onAgain: () => void;
  onClose: () => void;
}) {
  const client = useQueryClient();
  const before = useQuery({ ...versionQuery(id, verdict.newest), enabled: verdict.newest >= 0 });
  const add = useMutation({
    mutationFn: () => register(id, candidate, verdict.newest),
    onSettled: () => client.invalidateQueries({ queryKey: versionsQuery(id).queryKey }),
  });
  const isOvertaken = add.error !== null && asApiError(add.error).status === 409;
  return (
    <Dialog
      title={add.data ? "Registered" : "Register a version"}
      onClose={onClose}
      closeOnClickOutside={!add.isPending}
      size="lg"
    >
      <div className={styles.stack}>
        <p className={styles.target}>
          <b>{nameOf(id)}</b>
        </p>
        {add.data ? (
          <>
            <p role="status">
              {`It is version ${add.data.version} now. Clients receive it when they connect; connected clients keep theirs.`}
            </p>
            <Commands id={id} candidate={candidate} />
          </>
        ) : (
          <>
            <VerdictNotice verdict={verdict} />
            {rehearsal && rehearsal.failed > 0 && (
              <Notice tone="warning">
                <p>
                  {`${plural(rehearsal.failed, "message")} of ${plural(rehearsal.messages, "message")} that were rehearsed cannot be decoded with it.`}
                </p>
              </Notice>
            )}
            {newest.newest !== verdict.newest && (
              <Notice tone="warning">
                <p>The schema changed since it was tried: try it again.</p>
              </Notice>
            )}
            {before.data && (
              <Difference
                before={{ label: `version ${verdict.newest}`, ...before.data }}
                after={{
                  label: "the candidate",
                  type: candidate.type,
                  definition: byLines(candidate.definition ?? ""),
                }}
              />
            )}
            {add.error && (
              <ChangeFailure
                error={add.error}
                title="It was not registered"
                unknown="It may not have been registered"
              />
            )}
          </>
        )}
        <div className={styles.buttons}>
          {add.data ? (
            <Button onClick={onClose} data-autofocus>
              Close
            </Button>
          ) : (
            <>
              <Button variant="default" onClick={onClose}>
                Cancel
              </Button>
              {isOvertaken || newest.newest !== verdict.newest ? (
                <Button onClick={onAgain}>Try again</Button>
              ) : (
                <Button loading={add.isPending} onClick={() => add.mutate()}>
                  {verdict.newest < 0
                    ? "Register the first version"
                    : `Register behind version ${verdict.newest}`}
                </Button>
              )}
            </>
          )}
        </div>
      </div>
    </Dialog>
  );
}

function Commands({ id, candidate }: { id: TopicId; candidate: Candidate }) {
  const { type, definition = "", properties = {} } = candidate;
  const file = JSON.stringify({ type, schema: definition, properties }, null, 2);
  return (
    <>
      <Command label="schema.json" what="program" text={file} />
      <CommandLines of={COMMANDS.registerSchema(id, { type, definition, properties })} />
    </>
  );
}
