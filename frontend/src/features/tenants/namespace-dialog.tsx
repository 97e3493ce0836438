import { Button, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useRef, useState } from "react";
import { CommandLines } from "../../shared/commands/command-lines";
import { COMMANDS } from "../../shared/commands/commands";
import { Dialog } from "../../ui/dialog";
import { ErrorNotice } from "../../ui/states";
import { createNamespace, type Namespace, refreshTenants, type TenantId } from "./queries";
import { isRefusal } from "./tenant-dialog";
import styles from "./tenants.module.css";

const BUNDLES = 32;
const BUNDLES_MAX = 65_536;

/** Makes a namespace of a tenant. */
export function NamespaceDialog({
  id,
  onDone,
  onClose,
}: {
  id: TenantId;
  onDone: (made: Namespace) => void;
  onClose: () => void;
}) {
  const client = useQueryClient();
  const nameField = useRef<HTMLInputElement>(null);
  const bundlesField = useRef<HTMLInputElement>(null);
  const [name, setName] = useState("");
  const [bundles, setBundles] = useState(String(BUNDLES));
  const [tried, setTried] = useState(false);
  const make = useMutation({
    mutationFn: () => createNamespace(id, { name: name.trim(), bundles: Number(bundles) }),
    onSuccess: async (made) => {
      onDone(made);
      await refreshTenants(client, id.cluster);
    },
    onError: () => nameField.current?.focus(),
  });
  const count = /^\d+$/.test(bundles.trim()) ? Number(bundles) : 0;
  const badBundles = count >= 1 && count <= BUNDLES_MAX ? null : "A whole number from 1 to 65,536";
  const missingName = name.trim() === "" ? "Give a name" : null;
  const refusal = isRefusal(make.error) ? make.error : null;
  const atBundles = refusal?.field === "bundles";
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setTried(true);
    if (missingName) nameField.current?.focus();
    else if (badBundles) bundlesField.current?.focus();
    else if (!make.isPending) make.mutate();
  };
  return (
    <Dialog onClose={onClose} title={`New namespace of ${id.tenant}`} closeOnClickOutside={!make.isPending}>
      <form onSubmit={submit} noValidate className={styles.dialog}>
        <TextInput
          ref={nameField}
          label="Name"
          description={`Without the tenant: its full name is ${id.tenant}/${name.trim() || "…"}`}
          value={name}
          autoComplete="off"
          spellCheck={false}
          data-autofocus
          error={refusal && !atBundles ? refusal.message : tried ? missingName : null}
          onChange={(event) => {
            setName(event.currentTarget.value);
            if (make.error) make.reset();
          }}
        />
        <TextInput
          ref={bundlesField}
          label="Bundles"
          description="Parts of its topics, each owned by one broker: about two per broker, or more"
          inputMode="numeric"
          value={bundles}
          autoComplete="off"
          error={atBundles ? refusal?.message : badBundles}
          onChange={(event) => {
            setBundles(event.currentTarget.value);
            if (make.error) make.reset();
          }}
        />
        {make.error && !refusal && (
          <ErrorNotice error={make.error} title="It is not known whether the namespace was created" />
        )}
        {!missingName && !badBundles && (
          <CommandLines
            of={COMMANDS.createNamespace({ tenant: id.tenant, name: name.trim(), bundles: count })}
          />
        )}
        <div className={styles.buttons}>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" loading={make.isPending}>
            Create namespace
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
