import { Checkbox, NativeSelect } from "@mantine/core";
import { plural } from "../../lib/format";
import { ColumnsIcon } from "../../ui/icons";
import styles from "./lists.module.css";
import { Menu } from "./menu";

/** Selects the columns of a list, and the one that sorts it. */
export function ColumnsMenu<Sort extends string, Choice extends Sort>({
  titles,
  sorts,
  choices,
  always,
  choice,
  onChoose,
  leftOut,
  sort,
  onSort,
}: {
  titles: Record<Sort, string>;
  sorts: readonly Sort[];
  choices: readonly Choice[];
  always: string; // the columns that are always there, in words
  choice: readonly Choice[];
  onChoose: (choice: Choice[]) => void;
  leftOut: number; // chosen ones that the window has no room for
  sort: Sort | `-${Sort}`;
  onSort: (sort: Sort | `-${Sort}`) => void;
}) {
  const column = sort.replace(/^-/, "") as Sort;
  return (
    <Menu label="Columns" icon={<ColumnsIcon size={14} />}>
      <div className={styles.sort}>
        <NativeSelect
          label="Sort by"
          size="xs"
          value={column}
          data={sorts.map((value) => ({ value, label: titles[value] }))}
          onChange={(event) => {
            const next = event.currentTarget.value as Sort;
            onSort(sort.startsWith("-") ? `-${next}` : next);
          }}
        />
        <NativeSelect
          label="Order"
          size="xs"
          value={sort.startsWith("-") ? "-" : ""}
          data={[
            { value: "-", label: "Largest, or Z, first" },
            { value: "", label: "Smallest, or A, first" },
          ]}
          onChange={(event) => onSort(event.currentTarget.value === "-" ? `-${column}` : column)}
        />
      </div>
      <fieldset className={styles.choices}>
        <legend>Beside {always}</legend>
        {choices.map((each) => (
          <Checkbox
            key={each}
            size="xs"
            label={titles[each]}
            checked={choice.includes(each)}
            onChange={(event) =>
              onChoose(
                event.currentTarget.checked
                  ? choices.filter((other) => other === each || choice.includes(other))
                  : choice.filter((other) => other !== each),
              )
            }
          />
        ))}
      </fieldset>
      <p className={styles.hint}>
        {leftOut > 0
          ? `No room for ${plural(leftOut, "more column")} at this width; the sorted one is always shown.`
          : "All of them fit at this width."}
      </p>
    </Menu>
  );
}
