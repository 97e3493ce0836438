import { useQuery } from "@tanstack/react-query";
import { useServerNow } from "../../lib/clock";
import { failureOf } from "../../lib/errors";
import { age, bytes, count, known } from "../../lib/format";
import type { WhyNot } from "../../shared/access/may";
import { ActionButton } from "../../ui/action-button";
import styles from "../../ui/dialog.module.css";
import { Table } from "../../ui/grid/table";
import { Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import cells from "./cluster.module.css";
import { Owner } from "./repair/owner";
import { type MarkedLedger, type RepairChange, repairQuery } from "./repair/repair-queries";
import { decommissionOf, forecastOf, lostOf, stateOf } from "./repair/repair-words";

const HEIGHT_PX = 360;

/** Marked ledgers, who repairs them, bookies that are away and those that are taken out. */
export function RepairPanel({
  cluster,
  whyNot,
  onChange,
}: {
  cluster: string;
  whyNot: WhyNot;
  onChange: (change: RepairChange) => void;
}) {
  const found = useQuery(repairQuery(cluster));
  const now = useServerNow();
  const repair = found.data;
  if (repair === undefined)
    return found.isPending ? (
      <Loading label="Loading the repair" rows={2} />
    ) : (
      <ErrorNotice error={found.error} title="The repair could not be read" onRetry={() => found.refetch()} />
    );
  return (
    <>
      {failureOf(found) && (
        <ErrorNotice
          error={found.error}
          title="The repair could not be read again"
          onRetry={() => found.refetch()}
        />
      )}
      <Panel
        title="Repair"
        note={repair.auditor === null ? "no auditor" : `auditor ${repair.auditor}`}
        actions={
          <>
            <ActionButton
              size="compact-xs"
              variant="default"
              why={whyNot("triggerAudit")}
              onClick={() => onChange({ kind: "audit" })}
            >
              Audit now…
            </ActionButton>
            <ActionButton
              size="compact-xs"
              variant="default"
              why={whyNot("setLostBookieDelay")}
              onClick={() => onChange({ kind: "delay", seconds: Math.round(repair.delay_s ?? 60) })}
            >
              Waiting time…
            </ActionButton>
            <ActionButton
              size="compact-xs"
              variant="default"
              why={whyNot("switchRepair")}
              onClick={() => onChange({ kind: "switch", on: !repair.enabled })}
            >
              {repair.enabled ? "Turn off…" : "Turn on…"}
            </ActionButton>
          </>
        }
      >
        <div className={styles.dialog}>
          <p>{stateOf(repair, now)}</p>
          {repair.ledgers > 0 && <p>{forecastOf(repair)}</p>}
          {repair.lost.map((bookie) => (
            <p key={bookie.bookie}>
              {lostOf(bookie, now)}{" "}
              {bookie.due !== null && (
                <ActionButton
                  size="compact-xs"
                  variant="default"
                  why={whyNot("setLostBookieDelay")}
                  aria-label={`Wait an hour longer for ${bookie.bookie}…`}
                  onClick={() =>
                    onChange({ kind: "delay", seconds: Math.round((now - bookie.since) / 1000) + 3600 })
                  }
                >
                  Wait an hour longer…
                </ActionButton>
              )}{" "}
              <ActionButton
                size="compact-xs"
                variant="default"
                why={whyNot("decommissionBookie")}
                aria-label={`Decommission ${bookie.bookie}…`}
                onClick={() => onChange({ kind: "decommission", bookie: bookie.bookie })}
              >
                Decommission…
              </ActionButton>
            </p>
          ))}
          {repair.decommissions.map((row) => (
            <p key={row.bookie}>
              {decommissionOf(row)}{" "}
              <ActionButton
                size="compact-xs"
                variant="default"
                why={whyNot("withdrawDecommission")}
                aria-label={`Withdraw the decommission of ${row.bookie}…`}
                onClick={() => onChange({ kind: "withdraw", bookie: row.bookie })}
              >
                Withdraw…
              </ActionButton>
            </p>
          ))}
        </div>
      </Panel>
      {repair.rows.length > 0 && (
        <Panel title="Ledgers with too few copies" note={count(repair.ledgers)} flush>
          <Table<MarkedLedger>
            caption="Ledgers with too few copies, the oldest first"
            rows={repair.rows}
            maxHeight={HEIGHT_PX}
            rowKey={(row) => String(row.ledger)}
            empty={<Empty title="Every ledger has its copies" />}
            columns={[
              {
                key: "ledger",
                header: "Ledger",
                cell: (row) => (
                  <span className={cells.address}>
                    <span className="mono">{row.ledger}</span>
                    <small>
                      <Owner name={row.owner} />
                    </small>
                  </span>
                ),
              },
              {
                key: "missing",
                header: "Missing on",
                cell: (row) => <span className="mono">{row.bookies.join(", ") || "not known"}</span>,
              },
              {
                key: "since",
                header: "For",
                wide: true,
                cell: (row) => known(row.since, (since) => age(since, now)),
              },
              {
                key: "size",
                header: "To copy",
                numeric: true,
                wide: true,
                cell: (row) => (row.open ? "open" : known(row.size, bytes)),
              },
              {
                key: "worker",
                header: "Repaired by",
                cell: (row) =>
                  row.worker === null ? <span className={cells.dim}>no one yet</span> : row.worker,
              },
            ]}
          />
        </Panel>
      )}
    </>
  );
}
