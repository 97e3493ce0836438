import { NumberInput } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useServerNow } from "../../../lib/clock";
import { bytes, count, dateTime, known } from "../../../lib/format";
import { ChangeDialog } from "../../../shared/changes/change-dialog";
import { COMMANDS } from "../../../shared/commands/commands";
import styles from "../../../ui/dialog.module.css";
import { Fact } from "../../../ui/fact";
import { CheckIcon } from "../../../ui/icons";
import {
  applyRepair,
  type DecommissionPreview,
  previewRepair,
  type RepairChange,
  type RepairPreview,
  type RepairReceipt,
} from "./repair-queries";
import { auditOf, countsOf, decommissionOf, decommissionPreviewOf, delayOf, switchOf } from "./repair-words";

const TITLES = {
  switch: "Auto-recovery",
  delay: "Time that a lost bookie is waited for",
  audit: "Audit now",
  decommission: "Decommission a bookie",
  withdraw: "Withdraw a decommission",
};
const DELAY_MAX_S = 30 * 86_400;

/** Changes the repair of a cluster as previewed. */
export function RepairDialog({
  cluster,
  asked,
  onClose,
}: {
  cluster: string;
  asked: RepairChange;
  onClose: () => void;
}) {
  const client = useQueryClient();
  const now = useServerNow();
  const [seconds, setSeconds] = useState<number | string>(asked.kind === "delay" ? asked.seconds : 0);
  const wanted =
    asked.kind === "delay" ? (typeof seconds === "number" ? { ...asked, seconds } : null) : asked;
  return (
    <ChangeDialog<RepairChange, RepairPreview, RepairReceipt>
      title={TITLES[asked.kind]}
      target={"bookie" in asked ? <b className="mono">{asked.bookie}</b> : <b>{cluster}</b>}
      what={"bookie" in asked ? "bookie" : "cluster"}
      id={["repair", cluster]}
      wanted={wanted}
      form={
        asked.kind !== "delay"
          ? undefined
          : (isDisabled, problem) => (
              <NumberInput
                label="Seconds"
                description="It is valid for all bookies of the cluster, until it is changed again"
                min={0}
                max={DELAY_MAX_S}
                allowDecimal={false}
                disabled={isDisabled}
                value={seconds}
                error={problem}
                onChange={setSeconds}
              />
            )
      }
      ask={(change) => previewRepair(cluster, change)}
      apply={(token) => applyRepair(cluster, wanted ?? asked, token)}
      preview={(change, preview) => <Effect of={preview} change={change} now={now} />}
      receipt={(change, done) => (
        <p>
          <CheckIcon /> {dateTime(done.at)}: {DONE[change.kind]}
        </p>
      )}
      label={(change, preview) => labelOf(change ?? asked, preview)}
      red={asked.kind === "decommission" || (asked.kind === "switch" && !asked.on)}
      commands={() => COMMAND[asked.kind]()}
      onChanged={() => client.invalidateQueries({ queryKey: ["cluster", cluster] })}
      onClose={onClose}
    />
  );
}

const COMMAND = {
  switch: COMMANDS.switchRepair,
  delay: COMMANDS.setLostBookieDelay,
  audit: COMMANDS.triggerAudit,
  decommission: COMMANDS.decommissionBookie,
  withdraw: COMMANDS.withdrawDecommission,
};

const DONE = {
  switch: "Auto-recovery is changed.",
  delay: "The time is stored.",
  audit: "The auditor is asked for an audit.",
  decommission: "The auditor is asked to decommission it. The bookies page shows its progress.",
  withdraw: "The decommission is withdrawn.",
};

function labelOf(change: RepairChange, preview: RepairPreview | undefined): string {
  switch (change.kind) {
    case "switch":
      return change.on ? "Turn auto-recovery on" : "Turn auto-recovery off";
    case "delay":
      return "Store the time";
    case "audit":
      return "Audit now";
    case "withdraw":
      return "Withdraw";
    case "decommission":
      return preview && preview.token === null ? "Cannot be decommissioned" : "Decommission";
  }
}

function Effect({ of, change, now }: { of: RepairPreview; change: RepairChange; now: number }) {
  if ("decommission" in of)
    return (
      <p>{`${decommissionOf(of.decommission)} What is marked is copied all the same; its cookie stays.`}</p>
    );
  if ("others" in of) return <Decommission of={of} />;
  if ("problem" in of) return <p>{auditOf(of)}</p>;
  if ("seconds" in of) return <p>{of.token === null ? "It is so already." : delayOf(of, now)}</p>;
  if (of.token === null) return <p>It is so already.</p>;
  return <p>{change.kind === "switch" ? switchOf(of) : ""}</p>;
}

function Decommission({ of }: { of: DecommissionPreview }) {
  return (
    <>
      <p>{decommissionPreviewOf(of)}</p>
      <dl className={styles.facts}>
        <Fact label="Room">
          {known(of.free, bytes)}
          <small>{`free on ${count(of.others)} other writable bookies; new ledgers need ${known(of.ensemble, count)}`}</small>
        </Fact>
        {of.counts.length > 0 && (
          <Fact label="Until it is copied">
            {countsOf(of.counts)}
            <small>on the other bookies that serve now</small>
          </Fact>
        )}
      </dl>
    </>
  );
}
