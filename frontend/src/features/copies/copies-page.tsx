import { Button, NativeSelect } from "@mantine/core";
import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { failureOf } from "../../lib/errors";
import { count, dateTime } from "../../lib/format";
import { ChangeFailure } from "../../shared/changes/change-failure";
import { CommandLines } from "../../shared/commands/command-lines";
import { COPY_COMMANDS } from "../../shared/commands/copy-commands";
import { Badge } from "../../ui/badge";
import { Dialog } from "../../ui/dialog";
import { Pages } from "../../ui/grid/pages";
import { SortBar } from "../../ui/grid/table";
import { useOrder } from "../../ui/grid/use-order";
import { Page, PageHead, Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import { CopyDialog } from "./copy-dialog";
import { looks } from "./looks";
import {
  COPY_SORTS,
  COPY_STATES,
  type Copy,
  copiesQuery,
  isOver,
  PER_PAGE,
  previewUndo,
  resumeCopy,
  stopCopy,
  undoCopy,
} from "./queries";
import { amountsOf, refOf, scannedText, shareOf, shortName, titleOf } from "./words";

const route = getRouteApi("/c/$cluster/copies");
const TONES = {
  queued: "accent",
  running: "accent",
  stopped: "warn",
  succeeded: "ok",
  failed: "bad",
} as const;

/** Copies, moves and redrives with their progress. */
export function CopiesPage() {
  useTitle("Copies");
  const { cluster } = route.useParams();
  const { from, topic, ...search } = route.useSearch();
  const { sort, page, show, by, turning } = useOrder(COPY_SORTS, "-created_at");
  const state = COPY_STATES.find((known) => known === search.state);
  const navigate = useNavigate({ from: "/c/$cluster/copies" });
  const list = useQuery({
    ...copiesQuery(cluster, { source: topic, state, sort, page }),
    placeholderData: keepPreviousData,
  });
  const [undoing, setUndoing] = useState<Copy | null>(null);
  const failure = failureOf(list);
  const rows = list.data?.rows;
  const source = from ? refOf(from) : null;
  return (
    <Page>
      <PageHead
        title="Copies"
        actions={
          <Link to="/c/$cluster/dead-letters" params={{ cluster }}>
            Dead letters
          </Link>
        }
      />
      <Panel
        title="Copies, moves and redrives"
        note={list.data && count(list.data.total)}
        flush
        actions={
          <>
            <NativeSelect
              aria-label="State"
              size="xs"
              value={state ?? ""}
              data={[{ value: "", label: "Any state" }, ...COPY_STATES]}
              onChange={(event) => show({ state: event.currentTarget.value || undefined })}
            />
            <Pages {...turning} total={list.data?.total} per={PER_PAGE} />
          </>
        }
      >
        {failure && <ErrorNotice error={failure} title="The copies could not be read" />}
        {!rows && !failure && <Loading label="Loading the copies" rows={4} />}
        {rows?.length === 0 &&
          (state ? (
            <Empty title="No copy is in this state" />
          ) : (
            <Empty title="Nothing was copied yet">
              Dead letters are redriven from their page, and messages copied from the messages of a topic.
            </Empty>
          ))}
        {rows && rows.length > 0 && (
          <SortBar
            columns={[
              { header: "Started", ...by("created_at", true) },
              { header: "From", ...by("source") },
              { header: "To", ...by("target") },
              { header: "Kind", ...by("mode") },
              { header: "State", ...by("state") },
            ]}
          />
        )}
        <ul style={looks.items}>
          {rows?.map((row) => (
            <CopyItem key={row.id} copy={row} onUndo={() => setUndoing(row)} />
          ))}
        </ul>
      </Panel>
      {undoing && <UndoDialog copy={undoing} onClose={() => setUndoing(null)} />}
      {from && source && (
        <CopyDialog
          topic={{ cluster, ...source }}
          name={from}
          toOrigin={false}
          onClose={() => navigate({ search: ({ from: _, ...rest }) => rest })}
        />
      )}
    </Page>
  );
}

function CopyItem({ copy, onUndo }: { copy: Copy; onUndo: () => void }) {
  const { cluster } = route.useParams();
  const client = useQueryClient();
  const change = useMutation({
    mutationFn: (make: typeof stopCopy) => make(cluster, copy.id),
    onSettled: () => client.invalidateQueries({ queryKey: ["copies"] }),
  });
  const share = shareOf(copy);
  const title = titleOf(copy);
  const at = { cluster, copy_id: copy.id };
  const canUndo = isOver(copy) && copy.mode === "copy" && copy.undone_by === null;
  const canResume = (copy.state === "stopped" || copy.state === "failed") && copy.undone_by === null;
  return (
    <li style={looks.item}>
      <span style={looks.row}>
        <Badge tone={TONES[copy.state]}>{copy.stopping ? "stopping" : copy.state}</Badge>
        <b>{title}</b>
      </span>
      <div
        style={looks.bar}
        role="progressbar"
        aria-label={`Progress: ${title}`}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={Math.floor(share * 100)}
      >
        <div style={{ width: `${share * 100}%`, height: "100%", background: "var(--accent)" }} />
      </div>
      <span>{amountsOf(copy)}</span>
      {copy.problem && (
        <span>
          Trying again: <span lang="en">{copy.problem}</span>
        </span>
      )}
      {copy.stage && <span>{copy.stage}</span>}
      {copy.error && <ErrorText text={copy.error} />}
      <span style={looks.dim}>
        {count(copy.rate)} a second · {dateTime(copy.created_at)}
        {copy.created_by && ` · by ${copy.created_by}`}
        {copy.at_least_once && copy.mode !== "undo" && " · at least once"}
        {copy.undone_by && " · taken back"} · {copy.id}
      </span>
      {change.error && <ChangeFailure error={change.error} title="Nothing was changed" />}
      <div style={looks.row}>
        {!isOver(copy) && (
          <Button
            size="compact-sm"
            variant="default"
            aria-label={`Stop: ${title}`}
            loading={change.isPending || copy.stopping}
            onClick={() => change.mutate(stopCopy)}
          >
            Stop
          </Button>
        )}
        {canResume && (
          <Button
            size="compact-sm"
            variant="default"
            aria-label={`Resume: ${title}`}
            loading={change.isPending}
            onClick={() => change.mutate(resumeCopy)}
          >
            Resume
          </Button>
        )}
        {canUndo && (
          <Button size="compact-sm" variant="default" aria-label={`Undo: ${title}`} onClick={onUndo}>
            Undo…
          </Button>
        )}
      </div>
      {!isOver(copy) && <CommandLines of={COPY_COMMANDS.stopCopy(at)} />}
      {canResume && <CommandLines of={COPY_COMMANDS.resumeCopy(at)} />}
    </li>
  );
}

function ErrorText({ text }: { text: string }) {
  return (
    <span style={{ color: "var(--bad)" }} lang="en">
      {text}
    </span>
  );
}

/** Takes back what was copied and no subscription has consumed. */
function UndoDialog({ copy, onClose }: { copy: Copy; onClose: () => void }) {
  const { cluster } = route.useParams();
  const client = useQueryClient();
  const preview = useQuery({
    queryKey: ["undo of copy", cluster, copy.id],
    queryFn: () => previewUndo(cluster, copy.id),
    gcTime: 0,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const undo = useMutation({
    mutationFn: (token: string) => undoCopy(cluster, copy.id, token),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ["copies"] });
      onClose();
    },
  });
  const seen = preview.data;
  const held = seen?.subscriptions.reduce((sum, row) => sum + row.held, 0) ?? 0;
  return (
    <Dialog onClose={onClose} title="Take back a copy">
      <div style={looks.form}>
        <p>
          The copies stay stored. Each subscription that has not acknowledged them skips them; what was
          consumed cannot be taken back, and a subscription that is created later from the earliest message
          receives them.
        </p>
        {preview.error && <ErrorNotice error={preview.error} title="There is no preview" />}
        {!seen && !preview.error && <Loading label="Looking for the copies" rows={3} />}
        {seen && (
          <div style={looks.preview} role="status">
            <b>{count(seen.copies)} copies were found.</b>
            <span style={looks.dim}>{scannedText(seen)}</span>
            <ul style={looks.list}>
              {seen.subscriptions.map((row) => (
                <li key={`${row.topic} ${row.subscription}`}>
                  {row.subscription} of {shortName(row.topic)}: {count(row.held)} would be skipped,{" "}
                  {count(row.consumed)} are consumed
                </li>
              ))}
            </ul>
            {seen.subscriptions.length === 0 && <span>No subscription would receive them.</span>}
          </div>
        )}
        {undo.error && <ErrorNotice error={undo.error} title="The undo may not have been started" />}
        {seen && <CommandLines of={COPY_COMMANDS.undoCopy({ cluster, copy_id: copy.id })} />}
        <div style={{ ...looks.row, justifyContent: "flex-end" }}>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          {seen && (
            <Button
              loading={undo.isPending}
              disabled={held === 0 && seen.stopped === "end"}
              onClick={() => undo.mutate(seen.token)}
            >
              Skip them
            </Button>
          )}
        </div>
      </div>
    </Dialog>
  );
}
