import { TextInput } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useRef, useState } from "react";
import { failureOf } from "../../lib/errors";
import { count, plural } from "../../lib/format";
import { localized } from "../../lib/language/sentences";
import { useWhyNot } from "../../shared/access/may";
import { ActionButton } from "../../ui/action-button";
import { Table } from "../../ui/grid/table";
import { Page, Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading, Notice } from "../../ui/states";
import { ClusterHead } from "./cluster-head";
import { type Setting, settingsQuery } from "./settings/setting-queries";
import { sourceOf, valuesText, waitsFor } from "./settings/setting-words";
import styles from "./settings/settings.module.css";
import { SupportPanel } from "./support/support-panel";

const route = getRouteApi("/c/$cluster/settings");
const SettingDialog = lazy(() =>
  import("./settings/setting-dialog").then((module) => ({ default: module.SettingDialog })),
);

/** Settings that change while brokers run. */
export function SettingsPage() {
  const { cluster } = route.useParams();
  const { change, remove } = route.useSearch();
  const navigate = useNavigate({ from: "/c/$cluster/settings" });
  const client = useQueryClient();
  const found = useQuery(settingsQuery(cluster));
  const whyNot = useWhyNot(cluster, {});
  const rows = found.data?.rows;
  const [filter, setFilter] = useState("");
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = rows?.filter(({ name, meaning }) => {
    const text = `${name} ${name.replaceAll("_", " ")} ${meaning} ${localized(meaning)}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  const wanted = remove || change;
  const opened = useKept(
    rows?.find(({ name }) => name === wanted),
    wanted,
  );
  const set = rows?.filter(({ stored }) => stored !== null).length;
  return (
    <Page>
      <ClusterHead title="Settings" at={found.dataUpdatedAt} failed={found.isError} />
      {failureOf(found) && (
        <ErrorNotice
          error={found.error}
          title={rows ? "The settings could not be read again" : "The settings could not be read"}
          onRetry={() => found.refetch()}
        />
      )}
      {found.data && found.data.silent.length > 0 && (
        <Notice tone="warning">
          {found.data.silent.map(({ broker, reason }) => (
            <p key={broker}>
              The settings of <span className="mono">{broker}</span> are not known:{" "}
              <span lang="en">{reason}</span>
            </p>
          ))}
        </Notice>
      )}
      {rows === undefined ? (
        found.isPending && <Loading label="Loading settings" rows={12} />
      ) : (
        <Panel
          title="Settings of brokers"
          note={`${count(rows.length)} that can change while brokers run, ${count(set ?? 0)} stored`}
          flush
          actions={
            <TextInput
              type="search"
              aria-label="Filter settings"
              placeholder="Filter settings"
              value={filter}
              onChange={(event) => setFilter(event.currentTarget.value)}
            />
          }
        >
          <Table<Setting>
            caption="Settings of brokers"
            rows={shown ?? rows}
            rowKey={(row) => row.name}
            empty={
              rows.length > 0 ? (
                <Empty title="No setting matches" />
              ) : (
                <Empty title="No broker answers">The values in force are not known until one does.</Empty>
              )
            }
            columns={[
              {
                key: "name",
                header: "Setting",
                grow: true,
                cell: (row) => (
                  <span className={styles.setting}>
                    <code className="mono">{breakable(row.name)}</code>
                    <small lang="en">{row.meaning}</small>
                  </span>
                ),
              },
              { key: "value", header: "In force", cell: (row) => <InForce row={row} /> },
              {
                key: "source",
                header: "From",
                wide: true,
                cell: (row) => <span className={styles.source}>{sourceOf(row)}</span>,
              },
              {
                key: "change",
                header: "Change",
                headerHidden: true,
                cell: (row) => (
                  <span className={styles.actions}>
                    <ActionButton
                      size="compact-xs"
                      variant="default"
                      why={whyNot("changeSetting")}
                      aria-label={`Set… ${row.name}`}
                      onClick={() => navigate({ search: { change: row.name } })}
                    >
                      Set…
                    </ActionButton>
                    {row.stored !== null && (
                      <ActionButton
                        size="compact-xs"
                        variant="default"
                        why={whyNot("changeSetting")}
                        aria-label={`Remove… ${row.name}`}
                        onClick={() => navigate({ search: { remove: row.name } })}
                      >
                        Remove…
                      </ActionButton>
                    )}
                  </span>
                ),
              },
            ]}
          />
        </Panel>
      )}
      {found.data && found.data.others.length > 0 && (
        <Panel
          title="Stored, but not known to any broker here"
          note={plural(found.data.others.length, "name")}
        >
          <ul className={styles.others}>
            {found.data.others.map(({ name, stored }) => (
              <li key={name} className="mono">
                {name} = {stored || "empty"}
              </li>
            ))}
          </ul>
        </Panel>
      )}
      <SupportPanel why={whyNot("collectSupportBundle")} />
      {opened && (
        <Suspense fallback={null}>
          <SettingDialog
            key={opened.name}
            cluster={cluster}
            setting={opened}
            remove={remove === opened.name}
            onChanged={() => client.invalidateQueries({ queryKey: ["cluster", cluster, "settings"] })}
            onClose={() => navigate({ search: {}, replace: true })}
          />
        </Suspense>
      )}
    </Page>
  );
}

/** The row whose dialog is open; it stays while no broker answers, and the dialog with it. */
function useKept(row: Setting | undefined, name: string | undefined): Setting | undefined {
  const last = useRef<Setting>(undefined);
  if (row) last.current = row;
  return last.current?.name === name ? last.current : undefined;
}

function InForce({ row }: { row: Setting }) {
  const waits = waitsFor(row);
  return (
    <span className={styles.value}>
      <span className="mono">{breakable(valuesText(row.values))}</span>
      {waits && (
        <small
          className={styles.late}
          title={row.behind.map(({ broker, reason }) => `${broker}: ${localized(reason)}`).join("\n")}
        >
          {waits}
        </small>
      )}
    </span>
  );
}

/** Text that is broken between the words of its names where it must be, and never inside one. */
function breakable(text: string) {
  const words = text.split(/(?<=_)|(?<=[a-z])(?=[A-Z])/);
  return words.flatMap((word, index) =>
    index === 0 ? [word] : [<wbr key={words.slice(0, index).join("")} />, word],
  );
}
