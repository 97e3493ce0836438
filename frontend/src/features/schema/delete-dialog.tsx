import { Button } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { SchemaVersions } from "../../api/types";
import { plural } from "../../lib/format";
import { ChangeFailure } from "../../shared/changes/change-failure";
import { CommandLines } from "../../shared/commands/command-lines";
import { COMMANDS } from "../../shared/commands/commands";
import type { TopicId } from "../../shared/topic/queries";
import { nameOf } from "../../shared/topic/use-topic";
import { Dialog } from "../../ui/dialog";
import { Notice } from "../../ui/states";
import { deleteAll, versionsQuery } from "./queries";
import styles from "./schema.module.css";
import type { Users } from "./users";

/** Deletes exactly the versions that were there when it was opened. */
export function DeleteDialog({
  id,
  newest,
  users,
  onClose,
}: {
  id: TopicId;
  newest: SchemaVersions;
  users: Map<number | null, Users>;
  onClose: () => void;
}) {
  const client = useQueryClient();
  const [seen] = useState(newest);
  const remove = useMutation({
    mutationFn: () => deleteAll(id, seen.newest),
    onSuccess: onClose,
    onSettled: () => client.invalidateQueries({ queryKey: versionsQuery(id).queryKey }),
  });
  const attached = [...users].filter(([version]) => version !== null).map(([, one]) => one);
  const producers = attached.reduce((sum, one) => sum + one.producers.length, 0);
  return (
    <Dialog title="Delete the schema" onClose={onClose} closeOnClickOutside={!remove.isPending}>
      <div className={styles.stack}>
        <p className={styles.target}>
          <b>{nameOf(id)}</b>
        </p>
        <Notice tone="warning">
          <p>
            {`${plural(seen.total, "version")} up to ${seen.newest} will be deleted: producers and consumers that connect later are not checked against them. Messages that were written by them stay readable.`}
          </p>
          {producers > 0 && (
            <p>
              {plural(producers, "attached producer")} connected with one of them: reconnecting registers its
              schema again.
            </p>
          )}
        </Notice>
        {remove.error && (
          <ChangeFailure
            error={remove.error}
            title="The schema was not deleted"
            unknown="The schema may not have been deleted"
          />
        )}
        <CommandLines
          of={COMMANDS.deleteSchemas(id)}
          note="They delete all versions up to the newest at that time."
        />
        <div className={styles.buttons}>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button color="red" loading={remove.isPending} onClick={() => remove.mutate()}>
            {`Delete ${plural(seen.total, "version")}`}
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
