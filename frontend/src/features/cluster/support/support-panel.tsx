import { Checkbox } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { answerOf, longCalls } from "../../../api/client";
import { ActionButton } from "../../../ui/action-button";
import { Copy } from "../../../ui/copy";
import { DOCUMENTATION } from "../../../ui/documentation-link";
import { Panel } from "../../../ui/panel";
import { ErrorNotice } from "../../../ui/states";
import styles from "./support.module.css";

const FILE_NAME = "magnetar-support.zip";

/** The facts that a developer needs to find a fault, as a file of the browser. `why`: the missing right to them. */
export function SupportPanel({ why }: { why: string | null }) {
  const [hashNames, setHashNames] = useState(false);
  const collection = useMutation({ mutationFn: () => collect(hashNames), onSuccess: save });
  const command = `magnetar support ${hashNames ? "--hash-names " : ""}${FILE_NAME}`;
  return (
    <Panel title="Support bundle">
      <div className={styles.form}>
        <p>
          One ZIP file with the logs, the given settings, versions, metrics, the paths of the metadata and the
          result of <code>magnetar doctor</code>. Secrets are hidden, and there are no payloads and no
          properties of messages. It has names of tenants and topics, and addresses of clients. Look into it
          before you send it (
          <a href={`${DOCUMENTATION}guides/support-bundle.html`} target="_blank" rel="noreferrer">
            what is in it
          </a>
          ).
        </p>
        <Checkbox
          label="Replace names of tenants, topics and subscriptions by hashes"
          checked={hashNames}
          onChange={(event) => setHashNames(event.currentTarget.checked)}
        />
        {collection.error && <ErrorNotice error={collection.error} title="The bundle was not collected" />}
        <div>
          <ActionButton
            size="sm"
            loading={collection.isPending}
            why={why}
            onClick={() => collection.mutate()}
          >
            Collect and download
          </ActionButton>
        </div>
        <p role="status">
          {collection.isPending && "It is collected. This takes seconds, up to two minutes."}
          {collection.isSuccess && `Downloaded as ${FILE_NAME}.`}
        </p>
        <p>
          Or in a shell of that machine: <code>{command}</code> <Copy value={command} what="command" />
        </p>
      </div>
    </Panel>
  );
}

function collect(hashNames: boolean): Promise<Blob> {
  return answerOf(
    longCalls.POST("/api/v1/support-bundle", { body: { hash_names: hashNames }, parseAs: "blob" }),
  ) as Promise<Blob>;
}

function save(bundle: Blob): void {
  const url = URL.createObjectURL(bundle);
  const link = document.createElement("a");
  link.href = url;
  link.download = FILE_NAME;
  link.click();
  URL.revokeObjectURL(url);
}
