import { useQueryClient } from "@tanstack/react-query";
import { count, dateTime, plural } from "../../../lib/format";
import { ChangeDialog } from "../../../shared/changes/change-dialog";
import { COMMANDS } from "../../../shared/commands/commands";
import styles from "../../../ui/dialog.module.css";
import { Fact } from "../../../ui/fact";
import { CheckIcon } from "../../../ui/icons";
import {
  applyDrain,
  type DrainChange,
  type DrainPreview,
  type DrainReceipt,
  type EndDrainPreview,
  type EndDrainReceipt,
  previewDrain,
} from "./drain-queries";
import { effectOf, endOf, remarksOf } from "./drain-words";

const BUNDLES_MAX = 8;

/** Drains a broker as previewed, or ends its drain. */
export function DrainDialog({ wanted, onClose }: { wanted: DrainChange; onClose: () => void }) {
  const client = useQueryClient();
  return (
    <ChangeDialog<DrainChange, DrainPreview | EndDrainPreview, DrainReceipt | EndDrainReceipt>
      title={wanted.ends ? "End the drain of a broker" : "Drain a broker"}
      target={<b>{wanted.broker}</b>}
      what="broker"
      id={["drain"]}
      wanted={wanted}
      ask={previewDrain}
      apply={(token) => applyDrain(wanted, token)}
      preview={(_, preview) => ("drain" in preview ? <p>{endOf(preview)}</p> : <Effect of={preview} />)}
      receipt={(_, done) => (
        <p>
          <CheckIcon /> {dateTime(done.at)}:{" "}
          {"leaving" in done
            ? `The drain has begun. The brokers page shows its progress.`
            : "The drain has ended."}
        </p>
      )}
      label={(_, preview) => labelOf(wanted, preview)}
      commands={() => (wanted.ends ? COMMANDS.endDrain() : COMMANDS.drainBroker())}
      onChanged={() => client.invalidateQueries({ queryKey: ["cluster", wanted.cluster] })}
      onClose={onClose}
    />
  );
}

function labelOf({ ends }: DrainChange, preview: DrainPreview | EndDrainPreview | undefined): string {
  if (ends) return "End drain";
  return preview && preview.token === null ? "Cannot be drained" : "Drain broker";
}

function Effect({ of }: { of: DrainPreview }) {
  const unnamed = of.total - Math.min(of.bundles.length, BUNDLES_MAX);
  return (
    <>
      <p>{effectOf(of)}</p>
      {of.total > 0 && of.problem === "" && (
        <>
          <dl className={styles.facts}>
            <Fact label="Topics">
              {count(of.topics)}
              <small>that are loaded, each partition counted separately</small>
            </Fact>
            <Fact label="Clients">
              {`${plural(of.producers, "producer")} and ${plural(of.consumers, "consumer")} reconnect`}
            </Fact>
            <Fact label="Next owners">
              {of.destinations.map(({ broker, bundles }) => (
                <small key={broker}>
                  {broker}: {plural(bundles, "bundle")}
                </small>
              ))}
            </Fact>
          </dl>
          <ul className={styles.names}>
            {of.bundles.slice(0, BUNDLES_MAX).map(({ bundle, destination, reason }) => (
              <li key={bundle}>
                <span className="mono">{bundle}</span>{" "}
                {destination === "" ? (
                  <>
                    stays: <span lang="en">{reason}</span>
                  </>
                ) : (
                  `→ ${destination}`
                )}
              </li>
            ))}
            {unnamed > 0 && <li>and {plural(unnamed, "more", "more")}</li>}
          </ul>
        </>
      )}
      <ul className={styles.remarks}>
        {remarksOf(of).map((remark) => (
          <li key={remark}>{remark}</li>
        ))}
      </ul>
    </>
  );
}
