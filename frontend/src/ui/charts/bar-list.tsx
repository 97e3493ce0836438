import { Table } from "../grid/table";
import { Meter } from "./meter";

/** Values of named categories, e.g. the top keys: a table whose bars can be read at a glance. */
export function BarList({
  caption,
  xLabel,
  yLabel,
  items,
  yText,
}: {
  caption: string;
  xLabel: string;
  yLabel: string;
  items: { label: string; value: number | null }[];
  yText: (value: number) => string;
}) {
  const top = Math.max(0, ...items.flatMap((item) => item.value ?? [])) || 1;
  return (
    <Table
      caption={caption}
      maxHeight={300}
      rows={items}
      rowKey={(_, index) => index}
      columns={[
        {
          key: "x",
          header: xLabel,
          cell: (item) => (
            <span
              className="mono"
              style={{
                display: "inline-block",
                verticalAlign: "middle",
                maxWidth: 260,
                overflow: "hidden",
                textOverflow: "ellipsis",
              }}
              title={item.label}
            >
              {item.label}
            </span>
          ),
        },
        {
          key: "bar",
          header: "Share",
          headerHidden: true,
          grow: true,
          cell: (item) => item.value !== null && <Meter share={item.value / top} />,
        },
        {
          key: "y",
          header: yLabel,
          numeric: true,
          cell: (item) => (item.value === null ? "—" : yText(item.value)),
        },
      ]}
    />
  );
}
