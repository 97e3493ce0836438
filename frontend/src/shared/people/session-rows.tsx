import type { OpenSession } from "../../api/session/calls";
import { dateTime } from "../../lib/format";
import { ActionButton } from "../../ui/action-button";
import { Badge } from "../../ui/badge";
import { Table } from "../../ui/grid/table";
import { Empty } from "../../ui/states";
import styles from "./people.module.css";

/** Sessions of a person, each with the button that ends it. */
export function SessionRows({
  caption,
  rows,
  ending,
  why = null,
  onEnd,
}: {
  caption: string;
  rows: readonly OpenSession[];
  /** Id of the session that is being ended. */
  ending: string | null;
  /** The missing right to end one, and who can give it. */
  why?: string | null;
  onEnd: (id: string) => void;
}) {
  return (
    <Table
      caption={caption}
      rows={rows}
      rowKey={(row) => row.id}
      empty={<Empty title="No open session" />}
      columns={[
        {
          key: "browser",
          header: "Browser",
          grow: true,
          cell: (row) => (
            <>
              <span title={row.browser}>{browserText(row.browser)}</span>
              <span className={styles.beneath}>{row.address}</span>
            </>
          ),
        },
        {
          key: "address",
          header: "Address",
          wide: true,
          cell: (row) => <span className="mono">{row.address}</span>,
        },
        { key: "created", header: "Signed in", wide: true, cell: (row) => dateTime(row.created_at) },
        { key: "seen", header: "Last used", wide: true, cell: (row) => dateTime(row.last_seen_at) },
        {
          key: "end",
          header: "Action",
          headerHidden: true,
          cell: (row) =>
            row.current ? (
              <Badge tone="accent">This session</Badge>
            ) : (
              <ActionButton
                size="compact-xs"
                variant="default"
                loading={ending === row.id}
                aria-label={`Sign out there: ${browserText(row.browser)} at ${row.address}`}
                why={why}
                onClick={() => onEnd(row.id)}
              >
                Sign out there
              </ActionButton>
            ),
        },
      ]}
    />
  );
}

const BROWSERS: [RegExp, string][] = [
  [/\bEdg\//, "Edge"],
  [/\bOPR\//, "Opera"],
  [/\bFirefox\//, "Firefox"],
  [/Chrome\//, "Chrome"],
  [/\bSafari\//, "Safari"],
];
const SYSTEMS: [RegExp, string][] = [
  [/\bAndroid\b/, "Android"],
  [/\b(iPhone|iPad)\b/, "iOS"],
  [/\bWindows\b/, "Windows"],
  [/\bMac OS X\b/, "macOS"],
  [/\bLinux\b/, "Linux"],
];

/** "Firefox on Linux" for the User-Agent header of a browser; of others as much as it says itself. */
export function browserText(agent: string): string {
  const browser = BROWSERS.find(([mark]) => mark.test(agent))?.[1];
  const system = SYSTEMS.find(([mark]) => mark.test(agent))?.[1];
  if (browser === undefined) return agent === "" ? "Not known" : agent;
  return system === undefined ? browser : `${browser} on ${system}`;
}
