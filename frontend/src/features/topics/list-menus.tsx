import { Button, Checkbox, NativeSelect, Popover } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { plural } from "../../lib/format";
import { Command } from "../../ui/copy";
import { ColumnsIcon, DownloadIcon } from "../../ui/icons";
import { CHOICES, type Choice, SORT_CHOICES, TITLES } from "./columns";
import type { TopicFilter } from "./queries";
import { exportPath } from "./queries";
import type { SortOrder, TopicSort } from "./search";
import styles from "./topics.module.css";

/** A button that opens the menu of its name. */
export function Menu({
  label,
  icon,
  children,
}: {
  label: string;
  icon: ReactNode;
  children: ReactNode | ((close: () => void) => ReactNode);
}) {
  const [opened, setOpened] = useState(false);
  return (
    <Popover
      opened={opened}
      onChange={setOpened}
      position="bottom-end"
      trapFocus
      returnFocus
      transitionProps={{ duration: 0 }}
      withinPortal
    >
      <Popover.Target>
        <Button variant="default" leftSection={icon} onClick={() => setOpened(!opened)}>
          {label}
        </Button>
      </Popover.Target>
      <Popover.Dropdown aria-label={label} className={styles.menu}>
        {typeof children === "function" ? children(() => setOpened(false)) : children}
      </Popover.Dropdown>
    </Popover>
  );
}

/** Selects the columns of the list, and the one that sorts it. */
export function ColumnsMenu({
  choice,
  onChoose,
  leftOut,
  sort,
  onSort,
}: {
  choice: readonly Choice[];
  onChoose: (choice: Choice[]) => void;
  leftOut: number; // chosen ones that the window has no room for
  sort: SortOrder;
  onSort: (sort: SortOrder) => void;
}) {
  const column = sort.replace(/^-/, "") as TopicSort;
  return (
    <Menu label="Columns" icon={<ColumnsIcon size={14} />}>
      <div className={styles.sort}>
        <NativeSelect
          label="Sort by"
          size="xs"
          value={column}
          data={SORT_CHOICES}
          onChange={(event) => {
            const next = event.currentTarget.value as TopicSort;
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
        <legend>Beside topic, state, trend and backlog</legend>
        {CHOICES.map((each) => (
          <Checkbox
            key={each}
            size="xs"
            label={TITLES[each]}
            checked={choice.includes(each)}
            onChange={(event) =>
              onChoose(
                event.currentTarget.checked
                  ? CHOICES.filter((other) => other === each || choice.includes(other))
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

/** The list as it is filtered and sorted, as a file: all its rows. */
export function ExportMenu({ filter, total }: { filter: TopicFilter; total: number | undefined }) {
  const csv = exportPath(filter, "csv");
  const json = exportPath(filter, "json");
  return (
    <Menu label="Export" icon={<DownloadIcon size={14} />}>
      <p className={styles.hint}>
        {total === undefined ? "All rows" : `All ${plural(total, "row")}`} of this list, in its order, with
        all digits: the backlog in entries, the messages in it, and of how many entries these are estimated or
        not known.
      </p>
      <div className={styles.files}>
        <Button component="a" variant="default" href={csv} download="topics.csv">
          CSV
        </Button>
        <Button component="a" variant="default" href={json} download="topics.json">
          JSON
        </Button>
      </div>
      <Command label="curl" text={`curl -fsS -o topics.csv '${location.origin}${csv}'`} />
    </Menu>
  );
}
