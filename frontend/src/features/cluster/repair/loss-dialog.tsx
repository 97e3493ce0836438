import { useQuery } from "@tanstack/react-query";
import { failureOf } from "../../../lib/errors";
import { bytes, count, time } from "../../../lib/format";
import { Dialog } from "../../../ui/dialog";
import styles from "../../../ui/dialog.module.css";
import { Fact } from "../../../ui/fact";
import { Table } from "../../../ui/grid/table";
import { Empty, ErrorNotice, Loading } from "../../../ui/states";
import { Owner } from "./owner";
import { blastRadiusQuery, type WeakOwner } from "./repair-queries";
import { countsOf, lossOf } from "./repair-words";

const HEIGHT_PX = 320;

/** The copies that topics keep if a bookie dies now. */
export function LossDialog({
  cluster,
  bookie,
  onClose,
}: {
  cluster: string;
  bookie: string;
  onClose: () => void;
}) {
  const found = useQuery(blastRadiusQuery(cluster, bookie));
  const radius = found.data;
  return (
    <Dialog title="If this bookie died now" onClose={onClose} size="xl">
      <div className={styles.dialog}>
        <p className={styles.target}>
          <b className="mono">{bookie}</b>
        </p>
        {failureOf(found) && (
          <ErrorNotice
            error={found.error}
            title="The ledgers could not be read"
            onRetry={() => found.refetch()}
          />
        )}
        {radius === undefined ? (
          found.isPending && <Loading label="Reading the metadata of all ledgers" rows={4} />
        ) : (
          <>
            <p>{lossOf(radius)}</p>
            <dl className={styles.facts}>
              <Fact label="Copies left">
                {radius.counts.length === 0 ? "no message is concerned" : countsOf(radius.counts)}
                <small>{`on other bookies that serve; read at ${time(radius.at)}`}</small>
              </Fact>
              <Fact label="Open ledgers">
                {count(radius.open)}
                <small>whose writers go on with another bookie</small>
              </Fact>
            </dl>
            <Table<WeakOwner>
              caption="Topics with the fewest copies left"
              rows={radius.weakest}
              maxHeight={HEIGHT_PX}
              rowKey={(row) => row.owner}
              empty={<Empty title="No topic has messages there" />}
              columns={[
                {
                  key: "owner",
                  header: "Topic",
                  cell: (row) => <Owner name={row.owner} />,
                },
                { key: "copies", header: "Copies left", numeric: true, cell: (row) => count(row.copies) },
                {
                  key: "ledgers",
                  header: "Ledgers there",
                  numeric: true,
                  wide: true,
                  cell: (row) => count(row.ledgers),
                },
                {
                  key: "size",
                  header: "Of closed ones",
                  numeric: true,
                  wide: true,
                  cell: (row) => bytes(row.size),
                },
              ]}
            />
          </>
        )}
      </div>
    </Dialog>
  );
}
