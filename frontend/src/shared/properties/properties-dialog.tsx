import { Button, Textarea } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { asApiError } from "../../lib/errors";
import { Dialog } from "../../ui/dialog";
import { ErrorNotice, Notice } from "../../ui/states";
import { CommandLines } from "../commands/command-lines";
import styles from "./properties.module.css";
import { changesOf, type Kept, type Properties, propertiesOf, textOf } from "./property-lines";

/** Changes properties, if they are still those that were shown. */
export function PropertiesDialog({
  of,
  shown,
  onClose,
}: {
  of: Kept;
  shown: Properties;
  onClose: () => void;
}) {
  const [before, setBefore] = useState(shown);
  const [text, setText] = useState(() => textOf(shown));
  const [overtaken, setOvertaken] = useState(false);
  const save = useMutation({
    mutationFn: (value: Properties) => of.save(value, before),
    onSuccess: onClose,
    onError: async (error) => {
      if (asApiError(error).status !== 409) return;
      const fresh = await of.read();
      if (!fresh) return;
      setBefore(fresh);
      setOvertaken(true);
      save.reset();
    },
  });
  const { value, problem } = propertiesOf(text);
  const changes = problem === null ? changesOf(before, value) : [];
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (problem === null && changes.length > 0 && !save.isPending) save.mutate(value);
  };
  return (
    <Dialog
      onClose={onClose}
      title={`Properties of the ${of.what}`}
      size="lg"
      closeOnClickOutside={!save.isPending}
    >
      <form onSubmit={submit} noValidate className={styles.dialog}>
        <p>
          <b>{of.name}</b>
        </p>
        {overtaken && (
          <div role="alert">
            <Notice tone="warning">
              <p>
                Another user changed them meanwhile, so nothing was saved. Check what saving would do now.
              </p>
            </Notice>
          </div>
        )}
        <Textarea
          label="Properties"
          description="One per line, as name=value"
          autosize
          minRows={4}
          maxRows={12}
          spellCheck={false}
          data-autofocus
          value={text}
          error={problem}
          onChange={(event) => {
            setText(event.currentTarget.value);
            if (save.error) save.reset();
          }}
        />
        <div aria-live="polite" data-preview>
          {changes.length === 0 ? (
            <p>{problem === null ? "Nothing changes." : "Complete the form to see what saving would do."}</p>
          ) : (
            <ul>
              {changes.map((change) => (
                <li key={change}>{change}</li>
              ))}
            </ul>
          )}
        </div>
        {save.error && <ErrorNotice error={save.error} title="The change may not have been made" />}
        {changes.length > 0 && <CommandLines of={of.commands(value, before)} />}
        <div className={styles.buttons}>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" loading={save.isPending} disabled={changes.length === 0}>
            Save
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
