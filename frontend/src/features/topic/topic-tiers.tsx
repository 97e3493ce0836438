import { Button, Group, NumberInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { answerOf, api, given } from "../../api/client";
import type { components } from "../../api/schema";
import { useServerNow } from "../../lib/clock";
import { failureOf } from "../../lib/errors";
import { bytes, count, dateTime, duration, plural } from "../../lib/format";
import { useWhyNot } from "../../shared/access/may";
import { ChangeFailure } from "../../shared/changes/change-failure";
import { CommandLines } from "../../shared/commands/command-lines";
import { COMMANDS, nameOf } from "../../shared/commands/commands";
import type { TopicId } from "../../shared/topic/queries";
import { ActionButton } from "../../ui/action-button";
import dialog from "../../ui/dialog.module.css";
import { Table } from "../../ui/grid/table";
import { Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading, Notice } from "../../ui/states";

type Tiers = components["schemas"]["TiersAnswer"];
type Ledger = components["schemas"]["TierLedger"];
type Sum = components["schemas"]["TierSum"];

const PATH = "/api/v1/clusters/{cluster}/topics/{domain}/{tenant}/{namespace}/{topic}";
const PLACES = {
  bookies: "Bookies",
  both: "Both",
  store: "Tiered storage",
  unreadable: "Not readable here",
} as const;
const COLORS = {
  bookies: "var(--bar)",
  both: "color-mix(in srgb, var(--bar) 50%, var(--ok))",
  store: "var(--ok)",
  unreadable: "var(--bad)",
} as const;
const RUNNING_MS = 1000;
const MIB = 1 << 20;

/** The places of the topic's ledgers, those that thresholds would move, and moving them now; read on request. */
export function TopicTiers({ id }: { id: TopicId }) {
  const [asked, setAsked] = useState(false);
  const [keep, setKeep] = useState<number | string>("");
  const threshold = typeof keep === "number" ? keep * MIB : undefined;
  const answer = useQuery({
    queryKey: ["tiers", id, threshold],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET(`${PATH}/tiers`, {
          params: { path: id, query: given({ threshold_bytes: threshold }) },
          signal,
        }),
      ),
    enabled: asked,
    placeholderData: (before) => before,
    refetchInterval: ({ state }) => (isRunning(state.data) ? RUNNING_MS : false),
  });
  const whyNot = useWhyNot(id.cluster, { topic: nameOf(id) }, asked);
  const move = useMutation({
    mutationFn: () =>
      answerOf(api.POST(`${PATH}/offload`, { params: { path: id }, body: { keep_bytes: threshold ?? 0 } })),
    onSettled: () => answer.refetch(),
  });
  const tiers = answer.data;
  const read = () => (asked ? void answer.refetch() : setAsked(true));
  return (
    <Panel
      title="Tiered storage"
      note={tiers && `bytes of one copy of ${tiers.copies}`}
      flush={tiers !== undefined}
      actions={
        <Button variant="default" loading={answer.isFetching && !isRunning(tiers)} onClick={read}>
          {tiers ? "Read again" : "Show"}
        </Button>
      }
    >
      {failureOf(answer) && (
        <ErrorNotice error={answer.error} title="Where the ledgers are could not be read" />
      )}
      {move.error && <ChangeFailure error={move.error} title="The ledgers are not being moved" />}
      {tiers === undefined ? (
        asked && answer.isPending && <Loading label="Reading where the ledgers are" rows={3} />
      ) : (
        <>
          <Drawn tiers={tiers} />
          <Policy tiers={tiers} />
          <Group align="end" gap={12} px={16} pb={12}>
            <NumberInput
              label="Keep on bookies, in MiB"
              description="Empty: the topic's own thresholds"
              min={0}
              allowDecimal={false}
              value={keep}
              onChange={setKeep}
            />
            <p role="status">{previewOf(tiers)}</p>
            <ActionButton
              why={whyNot("offloadTopic")}
              loading={move.isPending}
              disabled={tiers.policy === null || isRunning(tiers) || tiers.preview.ledgers === 0}
              onClick={() => move.mutate()}
            >
              Move now
            </ActionButton>
          </Group>
          <States tiers={tiers} />
          <Tables tiers={tiers} />
          <CommandLines
            of={COMMANDS.offloadTopic(id, { keep_bytes: threshold ?? 0, before: behind(tiers) })}
          />
        </>
      )}
    </Panel>
  );
}

const isRunning = (tiers: Tiers | undefined) =>
  tiers?.states.some(({ status }) => status === "RUNNING") ?? false;

/** The ledger behind those that would be moved. */
const behind = ({ ledgers }: Tiers) =>
  1 + Math.max(-1, ...ledgers.filter(({ due }) => due).map(({ ledger_id: ledger }) => ledger));

function previewOf({ preview, policy }: Tiers) {
  if (policy === null) return "No tiered storage is configured for the topic.";
  const what = `${bytes(preview.bytes)} in ${plural(preview.ledgers, "ledger")} would be moved`;
  const costs = [
    preview.bookies_cost !== null && `${preview.bookies_cost} a month on bookies`,
    preview.store_cost !== null && `${preview.store_cost} a month in tiered storage`,
  ].filter(Boolean);
  return costs.length > 0 ? `${what}: ${costs.join(", ")}.` : `${what}.`;
}

/** Each ledger as a part of a bar, as wide as its share of the bytes; the table below has the same numbers. */
function Drawn({ tiers: { ledgers } }: { tiers: Tiers }) {
  const total = ledgers.reduce((sum, ledger) => sum + ledger.bytes, 0) || 1;
  return (
    <div aria-hidden="true" data-tiers style={{ display: "flex", height: 20, margin: "12px 16px", gap: 1 }}>
      {ledgers.map((ledger) => (
        <span
          key={`${ledger.topic} ${ledger.ledger_id}`}
          title={`${ledger.ledger_id}: ${bytes(ledger.bytes)}, ${PLACES[ledger.tier]}`}
          style={{
            flex: `${ledger.bytes / total} 1 2px`,
            background: COLORS[ledger.tier],
            outline: ledger.due ? "1px dashed var(--text)" : "none",
            outlineOffset: -2,
          }}
        />
      ))}
    </div>
  );
}

function Policy({ tiers: { policy, sums } }: { tiers: Tiers }) {
  if (policy === null) return null;
  const { threshold_bytes: size, threshold_s: age, deletion_lag_s: lag } = policy;
  const behind = size >= 0 && `behind the newest ${bytes(size)}`;
  const closed = age >= 0 && `closed ${duration(age)} ago`;
  const rules = behind && closed ? `${behind}, or ${closed}` : behind || closed;
  return (
    <ul className={dialog.remarks} style={{ padding: "0 16px 8px" }}>
      <li>
        To {policy.store}: {rules ? `ledgers ${rules}` : "on request alone"}.
      </li>
      <li>
        Moved ledgers {lag < 0 ? "stay on bookies" : `leave the bookies after ${duration(lag)}`}; what both
        have is read from {policy.bookies_first ? "bookies" : "tiered storage"}.
      </li>
      {sums.some(({ tier }) => tier === "store") && (
        <li>Backups do not contain what is in tiered storage alone: back up its bucket as well.</li>
      )}
    </ul>
  );
}

function States({ tiers: { states } }: { tiers: Tiers }) {
  const now = useServerNow();
  return states.map((state) => {
    const name = states.length > 1 ? `${state.topic}: ` : "";
    if (state.status === "RUNNING")
      return (
        <Notice key={state.topic} tone="info">
          {name}
          {count(state.done_ledgers)} of {plural(state.ledgers, "ledger")} moved, {bytes(state.done_bytes)} of{" "}
          {bytes(state.bytes)}.
        </Notice>
      );
    const errors = [
      state.error && `not moved (${state.trouble}): ${state.error}${nextOf(state.retry_ms, now)}`,
      state.read_error && `not read: ${state.read_error}`,
    ].filter(Boolean);
    return errors.map((text) => (
      <Notice key={`${state.topic} ${text}`} tone="error">
        {name}
        {text}
      </Notice>
    ));
  });
}

const nextOf = (at: number | null, now: number) =>
  at === null || at <= now ? "" : `; next attempt at ${dateTime(at)}`;

function Tables({ tiers }: { tiers: Tiers }) {
  const isParted = tiers.states.length > 1;
  return (
    <>
      <Table<Sum>
        caption="Bytes by place"
        rows={tiers.sums}
        rowKey={(row) => row.tier}
        maxHeight={200}
        empty={<Empty title="Nothing is stored" />}
        columns={[
          {
            key: "tier",
            header: "Place",
            grow: true,
            cell: ({ tier }) => (
              <>
                <span
                  aria-hidden="true"
                  style={{
                    display: "inline-block",
                    width: 10,
                    height: 10,
                    marginRight: 8,
                    background: COLORS[tier],
                  }}
                />
                {PLACES[tier]}
              </>
            ),
          },
          { key: "bytes", header: "Bytes", numeric: true, cell: (row) => bytes(row.bytes) },
          { key: "ledgers", header: "Ledgers", numeric: true, cell: (row) => count(row.ledgers) },
        ]}
      />
      <Table<Ledger>
        caption={
          tiers.ledgers.length < tiers.count
            ? `Places of the newest ledgers, of ${count(tiers.count)}`
            : "Places of the ledgers, oldest first"
        }
        rows={tiers.ledgers}
        rowKey={(row) => `${row.topic} ${row.ledger_id}`}
        maxHeight={320}
        empty={null}
        columns={[
          {
            key: "ledger",
            header: "Ledger",
            grow: true,
            cell: (row) => <span className="mono">{row.ledger_id}</span>,
          },
          ...(isParted ? [{ key: "topic", header: "Partition", cell: (row: Ledger) => row.topic }] : []),
          { key: "place", header: "Place", cell: (row) => PLACES[row.tier] },
          { key: "bytes", header: "Bytes", numeric: true, cell: (row) => bytes(row.bytes) },
          {
            key: "closed",
            header: "Closed",
            wide: true,
            cell: (row) => (row.closed_ms ? dateTime(row.closed_ms) : "open"),
          },
          {
            key: "moved",
            header: "Moved",
            wide: true,
            cell: (row) => (row.moved_ms ? dateTime(row.moved_ms) : row.due ? "would be" : "–"),
          },
        ]}
      />
    </>
  );
}
