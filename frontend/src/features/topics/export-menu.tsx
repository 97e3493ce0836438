import { Button } from "@mantine/core";
import { plural } from "../../lib/format";
import lists from "../../shared/lists/lists.module.css";
import { Menu } from "../../shared/lists/menu";
import { Command } from "../../ui/copy";
import { DownloadIcon } from "../../ui/icons";
import type { TopicFilter } from "./queries";
import { exportPath } from "./queries";

/** The list as it is filtered and sorted, as a file: all its rows. */
export function ExportMenu({ filter, total }: { filter: TopicFilter; total: number | undefined }) {
  const csv = exportPath(filter, "csv");
  const json = exportPath(filter, "json");
  return (
    <Menu label="Export" icon={<DownloadIcon size={14} />}>
      <p className={lists.hint}>
        {total === undefined ? "All rows" : `All ${plural(total, "row")}`} of this list, in its order, with
        all digits: the backlog in entries, the messages in it, and of how many entries these are estimated or
        not known.
      </p>
      <div className={lists.files}>
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
