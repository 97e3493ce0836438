import { count } from "../../../lib/format";
import { Badge } from "../../../ui/badge";
import { Table } from "../../../ui/grid/table";
import { Panel } from "../../../ui/panel";
import { type Bookie, lossOf, needsOf, type Placement, type Region, regionsOf } from "./regions";
import styles from "./regions.module.css";

/** The regions of the bookies, and what the loss of each would take. */
export function RegionTable({
  bookies,
  placement,
}: {
  bookies: readonly Bookie[];
  placement: Placement | null;
}) {
  const regions = regionsOf(bookies);
  return (
    <Panel title="Regions" note={count(regions.length)} flush>
      <p className={styles.pad}>{needsOf(placement)}</p>
      <Table<Region>
        caption="Regions of bookies"
        rows={regions}
        rowKey={({ name }) => name}
        empty={null}
        columns={[
          { key: "region", header: "Region", cell: ({ name }) => <b>{name}</b> },
          { key: "racks", header: "Racks", wide: true, cell: ({ racks }) => racks.join(", ") },
          { key: "bookies", header: "Bookies", numeric: true, cell: ({ bookies }) => count(bookies) },
          { key: "writable", header: "Writable", numeric: true, cell: ({ writable }) => count(writable) },
          {
            key: "loss",
            header: "If it is lost",
            grow: true,
            cell: (region) => <LossOf region={region} all={regions} placement={placement} />,
          },
        ]}
      />
    </Panel>
  );
}

const WORDS = { ok: "survived", warn: "messages at risk", bad: "publishing stops", neutral: "not known" };

function LossOf(props: { region: Region; all: readonly Region[]; placement: Placement | null }) {
  const { tone, text } = lossOf(props.region, props.all, props.placement);
  return (
    <span className={styles.loss}>
      <Badge tone={tone} dot>
        {WORDS[tone]}
      </Badge>
      {tone !== "neutral" && <small>{text}</small>}
    </span>
  );
}
