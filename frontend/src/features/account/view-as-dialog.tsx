import { Button, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { viewAs } from "../../api/session/session";
import { ApiError } from "../../lib/errors";
import { ChangeFailure } from "../../shared/changes/change-failure";
import { Dialog } from "../../ui/dialog";
import styles from "../../ui/dialog.module.css";

/** Shows a superuser the console as a role sees it. */
export function ViewAsDialog({ onClose }: { onClose: () => void }) {
  const [role, setRole] = useState("");
  const view = useMutation({ mutationFn: () => viewAs(role.trim()), onSuccess: onClose });
  const refusal = view.error instanceof ApiError && view.error.isRefusal ? view.error : null;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (role.trim() !== "" && !view.isPending) view.mutate();
  };
  return (
    <Dialog title="View as a role" onClose={onClose} size="md">
      <form onSubmit={submit} className={styles.dialog} noValidate>
        <p>
          The console shows what this role sees, until you stop. Nothing can be changed meanwhile. The audit
          log names you for it.
        </p>
        <TextInput
          label="Role"
          description="As in the grants of namespaces and the admin roles of tenants"
          value={role}
          autoComplete="off"
          autoCapitalize="none"
          spellCheck={false}
          data-autofocus
          error={refusal?.message}
          onChange={(event) => {
            setRole(event.currentTarget.value);
            if (view.error) view.reset();
          }}
        />
        {view.error && !refusal && <ChangeFailure error={view.error} title="The view was not changed" />}
        <div className={styles.buttons}>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" loading={view.isPending} disabled={role.trim() === ""}>
            View as this role
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
