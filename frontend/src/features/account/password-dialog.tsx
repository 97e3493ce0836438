import { Button } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { changePassword } from "../../api/session/calls";
import { NewPassword } from "../../shared/people/new-password";
import { PasswordInput } from "../../shared/people/password-input";
import { refusalsOf } from "../../shared/people/refusals";
import { Dialog } from "../../ui/dialog";
import styles from "../../ui/dialog.module.css";
import { ErrorNotice } from "../../ui/states";

const LABELS = { current: "Current password", new: "New password" };

/** The present password, and the next one. */
export function PasswordDialog({ name, onClose }: { name: string; onClose: () => void }) {
  const client = useQueryClient();
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const change = useMutation({
    mutationFn: () => changePassword({ current, new: next }),
    onSuccess: () => client.invalidateQueries({ queryKey: ["session"] }),
  });
  const refusals = refusalsOf(change.error, LABELS);
  const isComplete = current !== "" && next !== "";
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (isComplete && !change.isPending) change.mutate();
  };
  const touch = () => change.error && change.reset();
  if (change.isSuccess)
    return (
      <Dialog title="Done" onClose={onClose} size="md">
        <div className={styles.dialog}>
          <p role="status">The password of {name} is changed. Its other sessions have ended.</p>
          <div className={styles.buttons}>
            <Button onClick={onClose} data-autofocus>
              Close
            </Button>
          </div>
        </div>
      </Dialog>
    );
  return (
    <Dialog title={`Change the password of ${name}`} onClose={onClose} size="md">
      <form onSubmit={submit} className={styles.dialog} noValidate>
        {/* Password managers file the new password under this name. */}
        <input type="text" name="username" autoComplete="username" value={name} readOnly hidden />
        <PasswordInput
          label={LABELS.current}
          name="current-password"
          autoComplete="current-password"
          value={current}
          data-autofocus
          error={refusals.of.current}
          onChange={(event) => {
            setCurrent(event.currentTarget.value);
            touch();
          }}
        />
        <NewPassword
          label={LABELS.new}
          value={next}
          error={refusals.of.new}
          onChange={(event) => {
            setNext(event.currentTarget.value);
            touch();
          }}
        />
        <p>All other sessions of {name} end; this one stays.</p>
        {refusals.rest && (
          <ErrorNotice error={refusals.rest} title="The password may not have been changed" />
        )}
        <div className={styles.buttons}>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" loading={change.isPending} disabled={!isComplete}>
            Change password
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
