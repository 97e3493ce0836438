import { Button, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type FormEvent, type ReactNode, useState } from "react";
import { plural } from "../../lib/format";
import { CommandLines } from "../../shared/commands/command-lines";
import { COMMANDS, type Commands } from "../../shared/commands/commands";
import type { NamespaceId } from "../../shared/policies/policy-queries";
import { Dialog } from "../../ui/dialog";
import { ErrorNotice, Notice } from "../../ui/states";
import {
  deleteNamespace,
  deleteTenant,
  namespaceQuery,
  namespacesQuery,
  refreshTenants,
  type TenantId,
} from "./queries";
import styles from "./tenants.module.css";

const NAMED = 10;

interface DeletionProps {
  onDone: () => void;
  onClose: () => void;
}

export function TenantDeletion({ id, ...rest }: DeletionProps & { id: TenantId }) {
  const found = useQuery({ ...namespacesQuery(id, ""), refetchOnMount: "always" });
  const { total, rows } = found.data ?? { total: 0, rows: [] };
  const obstacles =
    total === 0 ? null : (
      <>
        <p>
          {total === 1 ? "1 namespace exists" : `${plural(total, "namespace")} exist`} in it. Delete
          {total === 1 ? " it" : " them"} first:
        </p>
        <ul className={styles.names}>
          {rows.slice(0, NAMED).map(({ name }) => (
            <li key={name}>
              <Link to="/c/$cluster/tenants/$tenant/$namespace" params={{ ...id, namespace: name }}>
                {id.tenant}/{name}
              </Link>
            </li>
          ))}
          {total > NAMED && <li>and {plural(total - NAMED, "more", "more")}</li>}
        </ul>
      </>
    );
  return (
    <DeleteDialog
      cluster={id.cluster}
      what="tenant"
      name={id.tenant}
      obstacles={found.isFetchedAfterMount ? obstacles : undefined}
      failure={found.error}
      remove={() => deleteTenant(id)}
      commands={COMMANDS.deleteTenant(id)}
      {...rest}
    />
  );
}

/** `deleting`: an earlier deletion did not end, so that the namespace has no page any more. */
export function NamespaceDeletion({
  id,
  deleting = false,
  ...rest
}: DeletionProps & { id: NamespaceId; deleting?: boolean }) {
  const found = useQuery({ ...namespaceQuery(id), refetchOnMount: "always", enabled: !deleting });
  const { topics, first_topics } = found.data ?? { topics: 0, first_topics: [] };
  const obstacles =
    topics === 0 ? null : (
      <>
        <p>
          {topics === 1 ? "1 topic exists" : `${plural(topics, "topic")} exist`} in it. Delete
          {topics === 1 ? " it" : " them"} first:
        </p>
        <ul className={styles.names}>
          {first_topics.map((name) => (
            <li key={name} className="mono">
              {name}
            </li>
          ))}
          {topics > first_topics.length && (
            <li>
              <Link
                to="/c/$cluster/topics"
                params={{ cluster: id.cluster }}
                search={{ tenant: id.tenant, namespace: id.namespace }}
              >
                and {plural(topics - first_topics.length, "more", "more")}
              </Link>
            </li>
          )}
        </ul>
      </>
    );
  return (
    <DeleteDialog
      cluster={id.cluster}
      what="namespace"
      name={id.namespace}
      obstacles={deleting || found.isFetchedAfterMount ? obstacles : undefined}
      failure={found.error}
      remove={() => deleteNamespace(id)}
      commands={COMMANDS.deleteNamespace(id)}
      {...rest}
    />
  );
}

/**
 * Deletes a named object after its name was typed. `obstacles` prevent the deletion: undefined while they are being
 * read, null for none.
 */
function DeleteDialog({
  cluster,
  what,
  name,
  obstacles,
  failure,
  remove,
  commands,
  onDone,
  onClose,
}: {
  cluster: string;
  what: "tenant" | "namespace";
  name: string;
  obstacles: ReactNode | null | undefined;
  failure: unknown;
  remove: () => Promise<unknown>;
  commands: Commands;
  onDone: () => void;
  onClose: () => void;
}) {
  const client = useQueryClient();
  const [typed, setTyped] = useState("");
  const [tried, setTried] = useState(false);
  const removal = useMutation({
    mutationFn: remove,
    onSuccess: async () => {
      onDone();
      await refreshTenants(client, cluster);
    },
  });
  const isFree = obstacles === null;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setTried(true);
    if (isFree && typed === name && !removal.isPending) removal.mutate();
  };
  return (
    <Dialog onClose={onClose} title={`Delete ${what} ${name}`} closeOnClickOutside={!removal.isPending}>
      <form onSubmit={submit} noValidate className={styles.dialog}>
        {failure ? (
          <ErrorNotice error={failure} title="It could not be checked whether it is empty" />
        ) : obstacles === undefined ? (
          <p role="status">Checking whether it is empty…</p>
        ) : obstacles === null ? (
          <p>
            It is empty and can be deleted. This cannot be undone
            {what === "namespace" && ": its policies are lost"}.
          </p>
        ) : (
          <Notice tone="warning">{obstacles}</Notice>
        )}
        {isFree && (
          <TextInput
            label={`Type ${name} to delete it`}
            value={typed}
            autoComplete="off"
            spellCheck={false}
            data-autofocus
            disabled={removal.isPending}
            error={tried && typed !== name ? `Not the ${what}'s name` : undefined}
            onChange={(event) => setTyped(event.currentTarget.value)}
          />
        )}
        {removal.error && (
          <ErrorNotice error={removal.error} title={`The ${what} may not have been deleted`} />
        )}
        {isFree && <CommandLines of={commands} />}
        <div className={styles.buttons}>
          <Button variant="default" onClick={onClose}>
            {isFree ? "Cancel" : "Close"}
          </Button>
          {isFree && (
            <Button type="submit" color="red" loading={removal.isPending} disabled={typed !== name}>
              Delete {what}
            </Button>
          )}
        </div>
      </form>
    </Dialog>
  );
}
