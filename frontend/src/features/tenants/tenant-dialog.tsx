import { Button, Checkbox, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useRef, useState } from "react";
import { environmentQuery } from "../../api/environment";
import { ApiError } from "../../lib/errors";
import { CommandLines } from "../../shared/commands/command-lines";
import { COMMANDS } from "../../shared/commands/commands";
import { Dialog } from "../../ui/dialog";
import { ErrorNotice } from "../../ui/states";
import { createTenant, refreshTenants, type TenantRow, updateTenant } from "./queries";
import styles from "./tenants.module.css";

/** Makes a tenant, or changes who administers one and where it may be. */
export function TenantDialog({
  cluster,
  tenant,
  onDone,
  onClose,
}: {
  cluster: string;
  tenant?: TenantRow;
  onDone: (row: TenantRow) => void;
  onClose: () => void;
}) {
  const client = useQueryClient();
  const environment = useQuery(environmentQuery).data;
  const nameField = useRef<HTMLInputElement>(null);
  const [name, setName] = useState(tenant?.name ?? "");
  const [roles, setRoles] = useState(tenant?.admin_roles.join("\n") ?? "");
  const [clusters, setClusters] = useState(tenant?.allowed_clusters ?? [cluster]);
  const [tried, setTried] = useState(false);
  const given = { admin_roles: linesOf(roles), allowed_clusters: clusters };
  const save = useMutation({
    mutationFn: () =>
      tenant
        ? updateTenant({ cluster, tenant: tenant.name }, given)
        : createTenant(cluster, { ...given, name: name.trim() }),
    onSuccess: async (row) => {
      onDone(row);
      await refreshTenants(client, cluster);
    },
    onError: () => nameField.current?.focus(),
  });
  const known = [...new Set([...(environment?.clusters ?? []), cluster, ...clusters])].sort();
  const missingName = name.trim() === "" ? "Give a name" : null;
  const missingClusters = clusters.length === 0 ? "Choose at least one cluster" : null;
  const refusal = tenant === undefined && isRefusal(save.error) ? save.error.message : null;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setTried(true);
    if (missingName) nameField.current?.focus();
    else if (!missingClusters && !save.isPending) save.mutate();
  };
  const touch = () => save.error && save.reset();
  return (
    <Dialog
      onClose={onClose}
      title={tenant ? `Change tenant ${tenant.name}` : "New tenant"}
      closeOnClickOutside={!save.isPending}
    >
      <form onSubmit={submit} noValidate className={styles.dialog}>
        {!tenant && (
          <TextInput
            ref={nameField}
            label="Name"
            value={name}
            autoComplete="off"
            spellCheck={false}
            data-autofocus
            error={refusal ?? (tried ? missingName : null)}
            onChange={(event) => {
              setName(event.currentTarget.value);
              touch();
            }}
          />
        )}
        <Checkbox.Group
          label="Allowed clusters"
          description="Clusters that its namespaces may use"
          value={clusters}
          error={tried ? missingClusters : null}
          onChange={(chosen) => {
            setClusters(chosen);
            touch();
          }}
        >
          <div className={styles.choices}>
            {known.map((one) => (
              <Checkbox key={one} value={one} label={one} />
            ))}
          </div>
        </Checkbox.Group>
        <Textarea
          label="Admin roles"
          description="Roles that may administer it, one per line; may be empty"
          autosize
          minRows={2}
          maxRows={8}
          spellCheck={false}
          value={roles}
          onChange={(event) => {
            setRoles(event.currentTarget.value);
            touch();
          }}
        />
        {save.error && refusal === null && (
          <ErrorNotice error={save.error} title="The change may not have been made" />
        )}
        {!missingName && !missingClusters && (
          <CommandLines
            of={
              tenant
                ? COMMANDS.updateTenant({ ...given, tenant: tenant.name })
                : COMMANDS.createTenant({ ...given, name: name.trim() })
            }
          />
        )}
        <div className={styles.buttons}>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" loading={save.isPending}>
            {tenant ? "Save" : "Create tenant"}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function linesOf(text: string): string[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);
}

/** Whether the input was refused, in contrast to a missing answer. */
export function isRefusal(error: unknown): error is ApiError {
  return error instanceof ApiError && error.isRefusal;
}
