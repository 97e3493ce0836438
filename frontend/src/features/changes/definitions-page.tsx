import { Button, FileInput, Textarea } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { count, plural } from "../../lib/format";
import { ChangeFailure } from "../../shared/changes/change-failure";
import { Table } from "../../ui/grid/table";
import { DownloadIcon } from "../../ui/icons";
import { Crumb, Page, PageHead, Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Notice } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import { differenceOf } from "./change-words";
import {
  applyDefinitions,
  compareDefinitions,
  type DefinitionDifference,
  type DefinitionsDiff,
  exportUrl,
} from "./definition-queries";
import { looks } from "./looks";

const route = getRouteApi("/c/$cluster/definitions");
const ROWS = 12;

/** Definitions as a file: exported, compared to the cluster, and applied as a change set. */
export function DefinitionsPage() {
  useTitle("Definitions");
  const { cluster } = route.useParams();
  const navigate = useNavigate();
  const [text, setText] = useState("");
  const compare = useMutation({ mutationFn: () => compareDefinitions(cluster, text) });
  const apply = useMutation({
    mutationFn: (digest: string) => applyDefinitions(cluster, text, digest),
    onSuccess: ({ id }) => navigate({ to: "/c/$cluster/changes/$id", params: { cluster, id } }),
  });
  const change = (next: string) => {
    setText(next);
    compare.reset();
    apply.reset();
  };
  const shown = compare.data;
  return (
    <Page>
      <PageHead
        crumbs={
          <Crumb>
            <Link to="/c/$cluster/changes" params={{ cluster }}>
              Changes
            </Link>
          </Crumb>
        }
        title="Definitions"
      />
      <Panel
        title="Export"
        actions={
          <>
            <Download href={exportUrl(cluster, "yaml")} label="YAML" />
            <Download href={exportUrl(cluster, "json")} label="JSON" />
          </>
        }
      >
        <p>
          Tenants, namespaces and topics with their policies, properties, schemas and subscriptions, and
          functions, sources and sinks, as far as you may change them. Messages, positions and uploaded code
          are not in the file.
        </p>
      </Panel>
      <Panel title="Compare and apply">
        <div style={looks.body}>
          <FileInput
            label="File"
            placeholder="Choose a file"
            accept=".yaml,.yml,.json"
            onChange={(file) => file?.text().then(change)}
          />
          <Textarea
            label="Definitions in YAML or JSON"
            rows={ROWS}
            resize="vertical"
            spellCheck={false}
            styles={{ input: { fontFamily: "var(--mono)", fontSize: 13 } }}
            value={text}
            onChange={(event) => change(event.currentTarget.value)}
          />
          {compare.error && <ErrorNotice error={compare.error} title="The file could not be compared" />}
          {apply.error && <ChangeFailure error={apply.error} title="The file was not applied" />}
          <div style={looks.row}>
            <Button
              variant={shown ? "default" : "filled"}
              disabled={text.trim() === ""}
              loading={compare.isPending}
              onClick={() => compare.mutate()}
            >
              Compare
            </Button>
            {shown && shown.differing.length > 0 && (
              <Button loading={apply.isPending} onClick={() => apply.mutate(shown.digest)}>
                Preview {plural(shown.differing.length, "change")}
              </Button>
            )}
          </div>
        </div>
      </Panel>
      {shown && <Differences diff={shown} />}
    </Page>
  );
}

function Download({ href, label }: { href: string; label: string }) {
  return (
    <Button component="a" variant="default" leftSection={<DownloadIcon size={14} />} href={href} download>
      {label}
    </Button>
  );
}

function Differences({ diff }: { diff: DefinitionsDiff }) {
  const { differing, objects, not_in_file: others, not_in_file_total: total } = diff;
  return (
    <Panel title="Differences" note={`${count(differing.length)} of ${plural(objects, "object")}`} flush>
      {total > 0 && (
        <Notice tone="info">
          <p>
            {plural(total, "object")} of these namespaces {total === 1 ? "is" : "are"} not in the file, and{" "}
            {total === 1 ? "stays" : "stay"}: {others.slice(0, 5).join(", ")}
            {total > 5 && " and more"}
          </p>
        </Notice>
      )}
      <Table<DefinitionDifference>
        caption="Differences of the file to the cluster"
        maxHeight={560}
        rows={differing}
        rowKey={({ name, subscription }) => `${name} ${subscription}`}
        empty={<Empty title="No difference">The cluster is as the file has it.</Empty>}
        columns={[
          { key: "kind", header: "Kind", cell: ({ kind }) => kind },
          {
            key: "name",
            header: "Object",
            grow: true,
            cell: ({ name, subscription, exists, fields_changed }) => (
              <div style={looks.text}>
                {subscription && <b>{subscription}</b>}
                {subscription && " of "}
                {name.replace("persistent://", "")}
                <div style={looks.dim}>
                  {differenceOf(exists, fields_changed).map((line) => (
                    <div key={line}>{line}</div>
                  ))}
                </div>
              </div>
            ),
          },
        ]}
      />
    </Panel>
  );
}
