import type { UseQueryResult } from "@tanstack/react-query";
import { useServerNow } from "../../lib/clock";
import { count, dateTime, plural } from "../../lib/format";
import { Meter } from "../../ui/charts/meter";
import styles from "../../ui/dialog.module.css";
import { Table } from "../../ui/grid/table";
import { Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import type { Balance, BrokerLoad, MovedBundle } from "./balance/balance-queries";
import {
  ageOf,
  changesOf,
  percent,
  resultOf,
  routeOf,
  stateOf,
  staysOf,
  unplanned,
} from "./balance/balance-words";
import cells from "./cluster.module.css";
import { drainOf } from "./drains/drain-words";

const HEIGHT_PX = 420;
const REASONS_MAX = 20;

/** The broker that plans, the spread of the loads, drains, why bundles are not moved, the last moves and splits. */
export function BalancePanels({ found }: { found: UseQueryResult<Balance> }) {
  const { data } = found;
  return (
    <>
      {found.isError && (
        <ErrorNotice
          error={found.error}
          title={
            data ? "The balance of load could not be read again" : "The balance of load could not be read"
          }
          onRetry={() => found.refetch()}
        />
      )}
      {data ? (
        <>
          <Panel title="Balance of load" note={data.at === null ? undefined : `checked ${dateTime(data.at)}`}>
            <div className={styles.dialog}>
              <p>
                {stateOf(data)}
                {unplanned(data) !== "" && <span lang="en"> {unplanned(data)}.</span>}
              </p>
              {data.drains.map((drain) => (
                <div key={drain.broker}>
                  <p>{drainOf(drain)}</p>
                  <Reasons title="Bundles that cannot leave it yet" of={drain.refused} />
                </div>
              ))}
              <Reasons title={staysOf(data)} of={data.not_moved} />
              <Reasons title="Overloaded bundles that are not split" of={data.not_split} />
              {data.silent.length > 0 && (
                <p className={cells.dim}>
                  {`${data.silent.join(", ")}: whether bundles are overloaded there is not known.`}
                </p>
              )}
            </div>
          </Panel>
          <Panel title="Last moves" note={count(data.moves.length)} flush>
            <Table<MovedBundle>
              caption="Last moves"
              rows={data.moves}
              maxHeight={HEIGHT_PX}
              rowKey={({ bundle, kind, at }) => `${bundle} ${kind} ${at}`}
              empty={<Empty title="No bundle was moved or split yet" />}
              columns={[
                {
                  key: "bundle",
                  header: "Bundle",
                  cell: (move) => (
                    <span className={cells.address} lang="en">
                      <span className="mono">{move.bundle}</span>
                      <small>{routeOf(move)}</small>
                    </span>
                  ),
                },
                {
                  key: "why",
                  header: "Why was this moved?",
                  cell: (move) => (
                    <span className={cells.address} lang="en">
                      {move.reason}
                    </span>
                  ),
                },
                {
                  key: "result",
                  header: "Result",
                  cell: (move) => (
                    <span className={cells.address}>
                      {resultOf(move.result)}
                      <small>{dateTime(move.at)}</small>
                    </span>
                  ),
                },
              ]}
            />
          </Panel>
        </>
      ) : (
        found.isPending && <Loading label="Loading the balance of load" rows={3} />
      )}
    </>
  );
}

function Reasons({ title, of }: { title: string; of: Balance["not_moved"] }) {
  if (of.length === 0) return null;
  return (
    <div>
      <strong>{title}</strong>
      <ul className={styles.names}>
        {of.slice(0, REASONS_MAX).map(({ subject, reason, kind }) => (
          <li key={`${subject} ${kind}`}>
            <span lang="en">{reason}</span>{" "}
            <span className="mono">{subject === "cluster" ? "" : subject}</span>
          </li>
        ))}
        {of.length > REASONS_MAX && <li>and {plural(of.length - REASONS_MAX, "more", "more")}</li>}
      </ul>
    </div>
  );
}

/** A broker's load with its bar; unknown is a dash with the reason. */
export function Load({ of }: { of: BrokerLoad | undefined }) {
  const now = useServerNow();
  if (of === undefined) return <span title="Not known: the broker has not reported it">—</span>;
  const isKnown = of.load !== null;
  const rest = [ageOf(of, now), changesOf(of)].filter(Boolean).join(", ");
  return (
    <span className={cells.address}>
      <span>{of.load === null ? "— not known" : percent(of.load)}</span>
      {of.load !== null && <Meter share={of.load} />}
      <small className={cells.why}>
        {!isKnown && of.why !== "" && <span lang="en">{of.why}, </span>}
        {rest}
      </small>
    </span>
  );
}
