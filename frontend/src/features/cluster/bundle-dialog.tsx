import { Checkbox, NativeSelect } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { count, dateTime, known } from "../../lib/format";
import { ChangeDialog } from "../../shared/changes/change-dialog";
import { TrafficFacts } from "../../shared/changes/traffic-facts";
import { COMMANDS } from "../../shared/commands/commands";
import { Figure } from "../../shared/figure";
import styles from "../../ui/dialog.module.css";
import { Fact } from "../../ui/fact";
import { CheckIcon } from "../../ui/icons";
import { applyLabel, CUTS, doneOf, edgesOf, effectOf, remarksOf } from "./bundle-words";
import {
  type Algorithm,
  applyChange,
  type BundleId,
  type BundlePreview,
  type BundleReceipt,
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
    <ChangeDialog<Wanted, BundlePreview, BundleReceipt>
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
      wanted={wanted}
      form={(isDisabled) => <Form value={wanted} disabled={isDisabled} onChange={setWanted} />}
      ask={(change) => previewChange(id, change)}
      apply={(token) => applyChange(id, wanted.change, token)}
      preview={(change, preview) => <Effect wanted={change} preview={preview} cluster={id.cluster} />}
      receipt={(change, done) => (
        <>
          <p>
            <CheckIcon /> {dateTime(done.at)}: {doneOf(change, done)}
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
      )}
      label={(change, preview) => applyLabel(change ?? wanted, preview)}
      commands={(change, preview) => commandsOf(id, change, preview)}
      onChanged={onChanged}
      onClose={onClose}
    />
  );
}

function commandsOf(id: BundleId, wanted: Wanted, preview: BundlePreview) {
  if (wanted.change === "unload") return COMMANDS.unloadBundle(id);
  if (preview.parts.length === 0) return undefined;
  const { algorithm, unload } = wanted;
  return COMMANDS.splitBundle(id, { edges: edgesOf(preview), middle: algorithm === "equally", unload });
}

const ALGORITHMS = Object.entries(CUTS).map(([value, label]) => ({ value, label }));

function Form({
  value,
  disabled,
  onChange,
}: {
  value: Wanted;
  disabled: boolean;
  onChange: (value: Wanted) => void;
}) {
  return (
    <>
      <NativeSelect
        label="What to do"
        disabled={disabled}
        value={value.change}
        data={[
          { value: "unload", label: "Unload: its broker releases it" },
          { value: "split", label: "Split: divide it in two" },
        ]}
        onChange={(event) =>
          onChange(
            event.currentTarget.value === "split"
              ? { change: "split", algorithm: "equally", unload: false }
              : { change: "unload" },
          )
        }
      />
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

function Effect({ wanted, preview, cluster }: { wanted: Wanted; preview: BundlePreview; cluster: string }) {
  const { row, parts } = preview;
  return (
    <>
      <p>{effectOf(wanted, preview)}</p>
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
        {remarksOf(wanted, preview).map((remark) => (
          <li key={remark}>{remark}</li>
        ))}
      </ul>
    </>
  );
}
