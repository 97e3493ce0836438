import { Button, Checkbox, NativeSelect } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { count, dateTime, known, rate } from "../../lib/format";
import { NotDone } from "../../shared/changes/not-done";
import { CommandLines } from "../../shared/commands/command-lines";
import { COMMANDS } from "../../shared/commands/commands";
import styles from "../../shared/cursor/cursor.module.css";
import { Figure } from "../../shared/figure";
import { Dialog } from "../../ui/dialog";
import { Fact } from "../../ui/fact";
import { CheckIcon } from "../../ui/icons";
import { ErrorNotice } from "../../ui/states";
import { applyLabel, CUTS, doneOf, edgesOf, effectOf, remarksOf } from "./bundle-words";
import own from "./cluster.module.css";
import {
  type Algorithm,
  applyChange,
  type BundleId,
  type BundlePreview,
  previewChange,
  type Wanted,
} from "./queries";

/** Changes a bundle: form, preview of exactly that, exactly what was previewed or a refusal, receipt. */
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
  const [shown, setShown] = useState<BundlePreview>();
  const preview = useQuery({
    queryKey: ["bundle-change", id, wanted],
    queryFn: () => previewChange(id, wanted),
    enabled: shown === undefined,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
    refetchOnWindowFocus: false,
    retry: false,
  });
  const apply = useMutation({
    mutationFn: (seen: BundlePreview) => applyChange(id, wanted.change, seen.token ?? ""),
    onMutate: setShown,
    onError: () => setShown(undefined),
    onSettled: onChanged,
  });
  const now = preview.isFetching ? undefined : preview.data;
  const seen = shown ?? now;
  const commands = seen && commandsOf(id, wanted, seen);
  return (
    <Dialog
      onClose={onClose}
      title={apply.data ? "Done" : "Change bundle"}
      closeOnClickOutside={!apply.isPending}
      size="lg"
    >
      <div className={styles.dialog}>
        <p className={styles.target}>
          <b>
            {id.tenant}/{id.namespace}
          </b>
          <span className="mono">{id.bundle}</span>
        </p>
        {apply.data ? (
          <>
            <div className={styles.preview} role="status">
              <p>
                <CheckIcon /> {dateTime(apply.data.at)}: {doneOf(wanted, apply.data)}
              </p>
              {apply.data.parts.length > 0 && (
                <ul className={own.parts}>
                  {apply.data.parts.map((part) => (
                    <li key={part} className="mono">
                      {part}
                    </li>
                  ))}
                </ul>
              )}
            </div>
            {commands && <CommandLines of={commands} />}
            <div className={styles.buttons}>
              <Button onClick={onClose} data-autofocus>
                Close
              </Button>
            </div>
          </>
        ) : (
          <>
            <Form value={wanted} disabled={apply.isPending || apply.isError} onChange={setWanted} />
            {preview.error && !shown ? (
              <ErrorNotice
                error={preview.error}
                title="The effect could not be computed"
                onRetry={() => preview.refetch()}
              />
            ) : (
              <Preview wanted={wanted} preview={seen} cluster={id.cluster} />
            )}
            {apply.error && <NotDone error={apply.error} what="bundle" />}
            {commands && <CommandLines of={commands} />}
            <div className={styles.buttons}>
              <Button variant="default" onClick={onClose}>
                Cancel
              </Button>
              {apply.error ? (
                <Button
                  onClick={() => {
                    apply.reset();
                    preview.refetch();
                  }}
                >
                  Preview again
                </Button>
              ) : (
                <Button
                  disabled={!now || now.token === null || preview.isError}
                  loading={apply.isPending}
                  onClick={() => now && apply.mutate(now)}
                >
                  {applyLabel(wanted, seen)}
                </Button>
              )}
            </div>
          </>
        )}
      </div>
    </Dialog>
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
          { value: "unload", label: "Unload: its broker gives it up" },
          { value: "split", label: "Split: cut it in two" },
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
            label="Where to cut"
            disabled={disabled}
            value={value.algorithm}
            data={ALGORITHMS}
            onChange={(event) => onChange({ ...value, algorithm: event.currentTarget.value as Algorithm })}
          />
          <Checkbox
            label="Then have its broker give up the parts"
            disabled={disabled}
            checked={value.unload}
            onChange={(event) => onChange({ ...value, unload: event.currentTarget.checked })}
          />
        </>
      )}
    </>
  );
}

function Preview({
  wanted,
  preview,
  cluster,
}: {
  wanted: Wanted;
  preview: BundlePreview | undefined;
  cluster: string;
}) {
  if (!preview)
    return (
      <div className={styles.preview} aria-live="polite">
        <span>Computing what it would do…</span>
      </div>
    );
  const { row, parts } = preview;
  return (
    <div className={styles.preview} aria-live="polite">
      <p>{effectOf(wanted, preview)}</p>
      {parts.length > 0 && (
        <ul className={own.parts}>
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
          <small>with each partition by itself</small>
        </Fact>
        <Fact label="Clients">
          <Figure of={row} value={row.producers} text={count} /> producers,{" "}
          <Figure of={row} value={row.consumers} text={count} /> consumers
        </Fact>
        <Fact label="Messages per second">
          <Figure of={row} value={row.msg_rate_in} text={rate} /> in,{" "}
          <Figure of={row} value={row.msg_rate_out} text={rate} /> out
        </Fact>
      </dl>
      <ul className={styles.remarks}>
        {remarksOf(wanted, preview).map((remark) => (
          <li key={remark}>{remark}</li>
        ))}
      </ul>
    </div>
  );
}
