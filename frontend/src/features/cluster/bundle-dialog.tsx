import { Checkbox, NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { count, dateTime, known } from "../../lib/format";
import { ChangeDialog } from "../../shared/changes/change-dialog";
import { TrafficFacts } from "../../shared/changes/traffic-facts";
import { COMMANDS } from "../../shared/commands/commands";
import { Figure } from "../../shared/figure";
import styles from "../../ui/dialog.module.css";
import { Fact } from "../../ui/fact";
import { CheckIcon, WarningIcon } from "../../ui/icons";
import {
  applyLabel,
  CUTS,
  doneOf,
  edgesOf,
  effectOf,
  movedOf,
  moveOf,
  moveRemarksOf,
  remarksOf,
} from "./bundle-words";
import {
  type Algorithm,
  applyChange,
  type BundleId,
  brokersQuery,
  type ChangePreview,
  type ChangeReceipt,
  previewChange,
  type Wanted,
} from "./queries";

/** Changes a bundle as previewed. */
export function BundleDialog({
  id,
  onChanged,
  onClose,
}: {
  id: BundleId;
  /** Called whenever something may have been changed. */
  onChanged: () => void;
  onClose: () => void;
}) {
  const [wanted, setWanted] = useState<Wanted>({ change: "unload" });
  return (
    <ChangeDialog<Wanted, ChangePreview, ChangeReceipt>
      title="Change bundle"
      target={
        <>
          <b>
            {id.tenant}/{id.namespace}
          </b>
          <span className="mono">{id.bundle}</span>
        </>
      }
      what="bundle"
      id={["bundle", id]}
      wanted={wanted.change === "transfer" && wanted.destination === "" ? null : wanted}
      form={(isDisabled) => (
        <Form value={wanted} cluster={id.cluster} disabled={isDisabled} onChange={setWanted} />
      )}
      isWhole={(done) => !("moved" in done) || done.moved}
      ask={(change) => previewChange(id, change)}
      apply={(token) => applyChange(id, wanted.change, token)}
      preview={(change, preview) => <Effect wanted={change} preview={preview} cluster={id.cluster} />}
      receipt={(change, done) => <Receipt wanted={change} done={done} />}
      label={(_, preview) => labelOf(wanted, preview)}
      commands={(change, preview) => commandsOf(id, change, preview)}
      onChanged={onChanged}
      onClose={onClose}
    />
  );
}

function labelOf(wanted: Wanted, preview: ChangePreview | undefined): string {
  if (wanted.change === "transfer") return "Move bundle";
  return applyLabel(wanted, preview && "parts" in preview ? preview : undefined);
}

function commandsOf(id: BundleId, wanted: Wanted, preview: ChangePreview) {
  if (wanted.change === "unload") return COMMANDS.unloadBundle(id);
  if (wanted.change === "transfer") return COMMANDS.transferBundle(id, wanted);
  if (!("parts" in preview) || preview.parts.length === 0) return undefined;
  const { algorithm, unload } = wanted;
  return COMMANDS.splitBundle(id, { edges: edgesOf(preview), middle: algorithm === "equally", unload });
}

function Receipt({ wanted, done }: { wanted: Wanted; done: ChangeReceipt }) {
  if ("moved" in done)
    return (
      <p>
        {done.moved ? <CheckIcon /> : <WarningIcon />} {dateTime(done.at)}: {movedOf(done)}
      </p>
    );
  return (
    <>
      <p>
        <CheckIcon /> {dateTime(done.at)}: {doneOf(wanted, done)}
      </p>
      {done.parts.length > 0 && (
        <ul className={styles.names}>
          {done.parts.map((part) => (
            <li key={part} className="mono">
              {part}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

const ALGORITHMS = Object.entries(CUTS).map(([value, label]) => ({ value, label }));

const CHANGES: Record<Wanted["change"], { label: string; first: Wanted }> = {
  unload: { label: "Unload: its broker releases it", first: { change: "unload" } },
  transfer: { label: "Move: to a named broker", first: { change: "transfer", destination: "" } },
  split: {
    label: "Split: divide it in two",
    first: { change: "split", algorithm: "equally", unload: false },
  },
};
const OPTIONS = Object.entries(CHANGES).map(([value, { label }]) => ({ value, label }));

function Form({
  value,
  cluster,
  disabled,
  onChange,
}: {
  value: Wanted;
  cluster: string;
  disabled: boolean;
  onChange: (value: Wanted) => void;
}) {
  return (
    <>
      <NativeSelect
        label="What to do"
        disabled={disabled}
        value={value.change}
        data={OPTIONS}
        onChange={(event) => onChange(CHANGES[event.currentTarget.value as Wanted["change"]].first)}
      />
      {value.change === "transfer" && (
        <Destination
          cluster={cluster}
          value={value.destination}
          disabled={disabled}
          onPick={(destination) => onChange({ change: "transfer", destination })}
        />
      )}
      {value.change === "split" && (
        <>
          <NativeSelect
            label="Where to split"
            disabled={disabled}
            value={value.algorithm}
            data={ALGORITHMS}
            onChange={(event) => onChange({ ...value, algorithm: event.currentTarget.value as Algorithm })}
          />
          <Checkbox
            label="Then unload the parts"
            disabled={disabled}
            checked={value.unload}
            onChange={(event) => onChange({ ...value, unload: event.currentTarget.checked })}
          />
        </>
      )}
    </>
  );
}

function Destination({
  cluster,
  value,
  disabled,
  onPick,
}: {
  cluster: string;
  value: string;
  disabled: boolean;
  onPick: (broker: string) => void;
}) {
  const brokers = useQuery(brokersQuery(cluster));
  const ids = brokers.data?.rows.map(({ id, state }) => ({
    value: id,
    label: state === "up" ? id : `${id} (${state})`,
  }));
  return (
    <NativeSelect
      label="Broker that receives it"
      disabled={disabled}
      value={value}
      error={brokers.isError && !ids ? "The brokers could not be read" : undefined}
      data={[
        { value: "", label: ids?.length === 1 ? "There is no other broker" : "Choose a broker" },
        ...(ids ?? []),
      ]}
      onChange={(event) => onPick(event.currentTarget.value)}
    />
  );
}

function Effect({ wanted, preview, cluster }: { wanted: Wanted; preview: ChangePreview; cluster: string }) {
  const { row } = preview;
  const parts = "parts" in preview ? preview.parts : [];
  const effect = "parts" in preview ? effectOf(wanted, preview) : moveOf(preview);
  const remarks = "parts" in preview ? remarksOf(wanted, preview) : moveRemarksOf(preview);
  return (
    <>
      <p>{effect}</p>
      {parts.length > 0 && (
        <ul className={styles.names}>
          {parts.map(({ bundle, topics }) => (
            <li key={bundle}>
              <span className="mono">{bundle}</span> with {known(topics, count)}{" "}
              {topics === 1 ? "topic" : "topics"}
            </li>
          ))}
        </ul>
      )}
      <dl className={styles.facts}>
        <Fact label="Owner">{row.owner || "none"}</Fact>
        <Fact label="Topics">
          <Link
            to="/c/$cluster/topics"
            params={{ cluster }}
            search={{ tenant: row.tenant, namespace: row.namespace }}
          >
            <Figure of={row} value={row.topics} text={count} />
          </Link>
          <small>each partition counted separately</small>
        </Fact>
        <TrafficFacts of={row} />
      </dl>
      <ul className={styles.remarks}>
        {remarks.map((remark) => (
          <li key={remark}>{remark}</li>
        ))}
      </ul>
    </>
  );
}
