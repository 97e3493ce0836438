import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import type { SparkSetup } from "../../api/types";
import { tenths } from "../../lib/format";
import { useWhyNot } from "../../shared/access/may";
import { analysesQuery } from "../../shared/analyses/catalogue";
import { ChangeFailure } from "../../shared/changes/change-failure";
import { useCluster } from "../../shared/topic-link";
import { ActionButton } from "../../ui/action-button";
import { Copy } from "../../ui/copy";
import { Panel } from "../../ui/panel";
import { Notice } from "../../ui/states";
import styles from "./analyses.module.css";
import { installSpark, sparkQuery } from "./queries";

/** The remedies for missing parts of analyses, and the installation of Spark; nothing once they can run. */
export function SparkOffer() {
  const setup = useQuery(sparkQuery);
  const client = useQueryClient();
  const whyNot = useWhyNot(useCluster(), {});
  const install = useMutation({
    mutationFn: installSpark,
    onSuccess: (begun) => client.setQueryData(sparkQuery.queryKey, begun),
  });
  useWarming(setup.data?.state);
  // An older gateway, or one whose supervisor does not answer: a run reports what it lacks.
  if (!setup.data) return null;
  const { state, problems, message, command } = setup.data;
  if (state === "elsewhere" || (state === "installed" && problems.length === 0)) return null;
  if (state === "installing") return <Installing setup={setup.data} />;
  const size = (megabytes: number) =>
    megabytes < 1000 ? `${megabytes} MB` : `${tenths(megabytes / 1000)} GB`;
  return (
    <Panel title={state === "installed" ? "Analyses cannot run on this machine" : "Analyses need Spark"}>
      <div className={styles.form}>
        {problems.map((problem) => (
          <Notice key={problem} tone="warning">
            <p lang="en">{problem}</p>
          </Notice>
        ))}
        {message && (
          <Notice tone={state === "failed" ? "error" : "info"}>
            <p role="alert" lang="en">
              {message}
            </p>
          </Notice>
        )}
        {install.error && <ChangeFailure error={install.error} title="The installation was not begun" />}
        {state !== "installed" && (
          <>
            <p className={styles.about}>
              Spark is installed once, beside the gateway: {size(setup.data.download_mb)} to download,{" "}
              {size(setup.data.peak_mb)} of disk while it is installed and {size(setup.data.disk_mb)}{" "}
              afterwards. Nothing is restarted.
            </p>
            <div>
              <ActionButton
                size="sm"
                disabled={problems.length > 0}
                loading={install.isPending}
                why={whyNot("installSpark")}
                onClick={() => install.mutate()}
              >
                Install Spark
              </ActionButton>
            </div>
            <p className={styles.about}>
              Or in a shell of that machine: <code>{command}</code> <Copy value={command} what="command" />
            </p>
          </>
        )}
      </div>
    </Panel>
  );
}

function Installing({ setup }: { setup: SparkSetup }) {
  // The sizes are estimates: only the installation itself knows when it is complete.
  const percent = Math.min(99, Math.floor((setup.done_mb / Math.max(setup.total_mb, 1)) * 100));
  return (
    <Panel title="Installing Spark">
      <div className={styles.progressHead}>
        <span>downloading and unpacking</span>
        <b>{percent} %</b>
      </div>
      <div
        className={styles.bar}
        role="progressbar"
        aria-label="Progress of the installation"
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={percent}
      >
        <span className={styles.done} style={{ width: `${percent}%` }} />
      </div>
    </Panel>
  );
}

/** Read the catalogue again when the installation has ended, which lets Spark start before the first run. */
function useWarming(state: SparkSetup["state"] | undefined) {
  const client = useQueryClient();
  const before = useRef(state);
  useEffect(() => {
    if (before.current === "installing" && state === "installed") void client.refetchQueries(analysesQuery);
    before.current = state;
  }, [client, state]);
}
