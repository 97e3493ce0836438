import { useQueryClient } from "@tanstack/react-query";
import { count, dateTime, plural } from "../../lib/format";
import styles from "../../ui/dialog.module.css";
import { Fact } from "../../ui/fact";
import { CheckIcon, WarningIcon } from "../../ui/icons";
import { ChangeDialog } from "../changes/change-dialog";
import { TrafficFacts } from "../changes/traffic-facts";
import { COMMANDS } from "../commands/commands";
import { Figure } from "../figure";
import {
  applyUnload,
  previewUnload,
  type UnloadPreview,
  type UnloadReceipt,
  type Whose,
} from "./unload-queries";
import { applyLabel, doneOf, effectOf, othersOf, remarksOf, unnamedOf } from "./unload-words";

const OWNERS_MAX = 5;

/** Has all bundles of a namespace, or of a broker, given up as previewed. */
export function UnloadDialog({ whose, onClose }: { whose: Whose; onClose: () => void }) {
  const client = useQueryClient();
  return (
    <ChangeDialog<Whose, UnloadPreview, UnloadReceipt>
      title={"broker" in whose ? "Unload all bundles of a broker" : "Unload all bundles of a namespace"}
      target={<b>{"broker" in whose ? whose.broker : `${whose.tenant}/${whose.namespace}`}</b>}
      what="bundles"
      id={["unload"]}
      wanted={whose}
      ask={previewUnload}
      apply={(token) => applyUnload(whose, token)}
      preview={(_, preview) => <Effect whose={whose} preview={preview} />}
      receipt={(_, done) => <Receipt done={done} />}
      isWhole={({ total, done }) => done === total}
      label={(_, preview) => applyLabel(preview)}
      commands={() => ("broker" in whose ? COMMANDS.unloadBroker(whose) : COMMANDS.unloadNamespace(whose))}
      note="The commands unload the bundles that are owned at that time, previewed or not."
      onChanged={() => client.invalidateQueries({ queryKey: ["cluster", whose.cluster] })}
      onClose={onClose}
    />
  );
}

function Effect({ whose, preview }: { whose: Whose; preview: UnloadPreview }) {
  const { total, first, owners, figures } = preview;
  return (
    <>
      <p>{effectOf(whose, preview)}</p>
      {total > 0 && (
        <dl className={styles.facts}>
          <Fact label="Bundles">
            {count(total)}
            {first.map((name) => (
              <small key={name} className="mono">
                {name}
              </small>
            ))}
            {total > first.length && <small>and {plural(total - first.length, "more", "more")}</small>}
          </Fact>
          {owners.length > 1 && (
            <Fact label="Owners">
              {owners.slice(0, OWNERS_MAX).map(({ broker, bundles }) => (
                <small key={broker}>
                  {broker}: {count(bundles)}
                </small>
              ))}
              {owners.length > OWNERS_MAX && (
                <small>and {plural(owners.length - OWNERS_MAX, "more", "more")}</small>
              )}
            </Fact>
          )}
          <Fact label="Topics">
            <Figure of={figures} value={figures.topics} text={count} />
            <small>each partition counted separately</small>
          </Fact>
          <TrafficFacts of={figures} />
        </dl>
      )}
      <ul className={styles.remarks}>
        {remarksOf(whose, preview).map((remark) => (
          <li key={remark}>{remark}</li>
        ))}
      </ul>
    </>
  );
}

function Receipt({ done }: { done: UnloadReceipt }) {
  const others = othersOf(done);
  const unnamed = unnamedOf(done);
  return (
    <>
      <p>
        {others.length > 0 ? <WarningIcon /> : <CheckIcon />} {dateTime(done.at)}: {doneOf(done)}
      </p>
      {others.map((sentence) => (
        <p key={sentence}>{sentence}</p>
      ))}
      {others.length > 0 && (
        <ul className={styles.names}>
          {done.others.map(({ bundle, why }) => (
            <li key={bundle}>
              <span className="mono">{bundle}</span> <span lang="en">{why}</span>
            </li>
          ))}
          {unnamed > 0 && <li>and {plural(unnamed, "more", "more")}</li>}
        </ul>
      )}
    </>
  );
}
