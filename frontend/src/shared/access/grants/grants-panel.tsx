import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { failureOf } from "../../../lib/errors";
import { ActionButton } from "../../../ui/action-button";
import { Badge } from "../../../ui/badge";
import { Table } from "../../../ui/grid/table";
import { Panel } from "../../../ui/panel";
import { Empty, ErrorNotice, Loading } from "../../../ui/states";
import styles from "../access.module.css";
import type { Place } from "../may";
import { type GrantRow, grantsQuery } from "../queries";
import { RoleLink } from "../role-link";
import { type GrantAsked, GrantDialog, placeText } from "./grant-dialog";

const TABLE_PX = 480;

/** The grants of a place, and those of the places around it, which count there too. `why`: no right to change them. */
export function GrantsPanel({ cluster, place, why }: { cluster: string; place: Place; why: string | null }) {
  const client = useQueryClient();
  const grants = useQuery(grantsQuery(cluster, place));
  const failure = failureOf(grants);
  const [asked, setAsked] = useState<GrantAsked | null>(null);
  const refresh = () => {
    for (const key of ["grants", "access", "may", "roles"]) client.invalidateQueries({ queryKey: [key] });
  };
  return (
    <Panel
      title="Grants"
      flush
      actions={
        <ActionButton variant="default" why={why} onClick={() => setAsked({ act: "grant" })}>
          Grant…
        </ActionButton>
      }
    >
      {failure && (
        <ErrorNotice error={failure} title="The grants could not be read" onRetry={grants.refetch} />
      )}
      {grants.data ? (
        <Table
          caption="Grants that count here"
          rows={grants.data}
          rowKey={(row) => JSON.stringify([row.kind, row.topic, row.namespace, row.subscription, row.role])}
          maxHeight={TABLE_PX}
          empty={<Empty title="Nothing is granted here" />}
          columns={[
            {
              key: "role",
              header: "Role",
              grow: true,
              cell: (row) => (
                <>
                  <RoleLink cluster={cluster} role={row.role} />
                  <span className={styles.beneath}>{whereText(row, place)}</span>
                </>
              ),
            },
            {
              key: "words",
              header: "Granted",
              cell: ({ words }) => (
                <span className={styles.granted}>
                  {words.map((word) => (
                    <Badge key={word}>{word}</Badge>
                  ))}
                </span>
              ),
            },
            { key: "where", header: "Where", wide: true, cell: (row) => whereText(row, place) },
            {
              key: "act",
              header: "Actions",
              headerHidden: true,
              cell: (row) => isOf(row, place) && <Changes row={row} why={why} onAsk={setAsked} />,
            },
          ]}
        />
      ) : (
        !failure && <Loading label="Loading the grants" rows={3} />
      )}
      {asked && (
        <GrantDialog
          key={JSON.stringify(asked)}
          cluster={cluster}
          place={place}
          asked={asked}
          onChanged={refresh}
          onUndo={setAsked}
          onClose={() => setAsked(null)}
        />
      )}
    </Panel>
  );
}

interface ChangesProps {
  row: GrantRow;
  why: string | null;
  onAsk: (asked: GrantAsked) => void;
}

function Changes({ row, why, onAsk }: ChangesProps) {
  const { role, words, subscription } = row;
  const button = { variant: "default", size: "compact-xs", why } as const;
  const name = subscription ? `${role} on ${subscription}` : role;
  return (
    <span className={styles.buttons}>
      {row.kind !== "tenant" && row.kind !== "subscription" && (
        <ActionButton
          {...button}
          aria-label={`Change… ${name}`}
          onClick={() => onAsk({ act: "change", role, words, subscription })}
        >
          Change…
        </ActionButton>
      )}
      <ActionButton
        {...button}
        aria-label={`Remove… ${name}`}
        onClick={() => onAsk({ act: "remove", role, words: [], subscription })}
      >
        Remove…
      </ActionButton>
    </span>
  );
}

const kindOf = ({ topic, namespace }: Place) => (topic ? "topic" : namespace ? "namespace" : "tenant");

/** Whether a grant is of the place itself; those of its subscriptions are its own, too. */
export function isOf(row: GrantRow, place: Place): boolean {
  const kind = kindOf(place);
  return row.kind === kind || (row.kind === "subscription" && kind === "namespace");
}

function whereText(row: GrantRow, place: Place): string {
  if (row.kind === "subscription") return `subscription ${row.subscription}`;
  return isOf(row, place) ? "here" : `${row.kind} ${placeText(row)}`;
}
