import { NativeSelect, TextInput } from "@mantine/core";
import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { type FormEvent, type KeyboardEvent, useDeferredValue, useMemo, useRef, useState } from "react";
import type { Analysis } from "../../api/types";
import { ApiError, failureOf } from "../../lib/errors";
import { useWhyNot } from "../../shared/access/may";
import { analysesQuery, givenAt, isTarget, type Kind } from "../../shared/analyses/catalogue";
import { ChangeFailure } from "../../shared/changes/change-failure";
import {
  type Field,
  type FormValues,
  fieldsOf,
  initialValues,
  toParameters,
  validate,
} from "../../shared/form/schema-fields";
import { SchemaForm } from "../../shared/form/schema-form";
import { useCluster } from "../../shared/topic-link";
import { ActionButton } from "../../ui/action-button";
import { Crumb, Page, PageHead, Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading, Notice } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import styles from "./analyses.module.css";
import { EstimateOf } from "./estimate";
import { createSchedule, runQuery, scopeNamesQuery, startRun, topicNamesQuery } from "./queries";
import { SparkOffer } from "./spark-offer";
import { placeOfTarget } from "./target";

const route = getRouteApi("/analyses/$template/new");

export function LaunchPage() {
  const { template } = route.useParams();
  const { from, ...place } = route.useSearch();
  const catalogue = useQuery(analysesQuery);
  const earlier = useQuery({ ...runQuery(from ?? ""), enabled: from !== undefined });
  const analysis = catalogue.data?.find((each) => each.name === template);
  const title = analysis?.title ?? template;
  useTitle(`New: ${title}`);
  const given = {
    ...(earlier.data && earlier.data.analysis === template ? earlier.data.parameters : {}),
    ...(analysis ? givenAt(place, analysis) : {}),
  };
  const ready = catalogue.data && (from === undefined || !earlier.isPending);
  return (
    <Page shape="narrow">
      <PageHead
        crumbs={
          <Crumb>
            <Link to="/analyses" search={place}>
              Analyses
            </Link>
          </Crumb>
        }
        title={<span lang="en">{title}</span>}
      />
      {failureOf(catalogue) && (
        <ErrorNotice
          error={catalogue.error}
          title="The form could not be read"
          onRetry={() => catalogue.refetch()}
        />
      )}
      <SparkOffer />
      {earlier.error && (
        <ErrorNotice
          error={earlier.error}
          title="The run to repeat could not be read; the form has its defaults"
        />
      )}
      {!ready && !catalogue.error && <Loading label="Loading the form" rows={5} />}
      {ready && !analysis && (
        <Panel title="Unknown analysis">
          <Empty title={`There is no analysis named ${template}`}>
            <Link to="/analyses">See the catalogue</Link>
          </Empty>
        </Panel>
      )}
      {ready && analysis && (
        <LaunchForm
          key={`${analysis.name} ${from}`}
          analysis={analysis}
          given={given}
          rerunOf={earlier.data?.analysis === template ? from : undefined}
        />
      )}
    </Page>
  );
}

/** An analysis to be filled in and started. */
export function LaunchForm({
  analysis,
  given,
  rerunOf,
}: {
  analysis: Analysis;
  given: Record<string, unknown>;
  rerunOf?: string | undefined;
}) {
  const navigate = useNavigate();
  const client = useQueryClient();
  const form = useRef<HTMLFormElement>(null);
  const [kind, setKind] = useState<Kind>(() => firstKind(analysis, given));
  const fields = useMemo(() => fieldsFor(analysis, kind), [analysis, kind]);
  const [values, setValues] = useState<FormValues>(() => initialValues(fieldsOf(analysis.parameters), given));
  const [tried, setTried] = useState(false);
  const [when, setWhen] = useState<When>("now");
  const [times, setTimes] = useState({ hours: "24", cron: "0 3 * * *" });
  const launch = useMutation({
    mutationFn: async () => {
      const parameters = toParameters(fields, values);
      if (when === "now") return startRun(analysis.name, parameters, rerunOf);
      const at = when === "hours" ? { every_hours: Number(times.hours) } : { cron: times.cron };
      await createSchedule(analysis.name, parameters, at);
      return null;
    },
    onSuccess: (run) => {
      if (run === null) {
        void client.invalidateQueries({ queryKey: ["schedules"] });
        void navigate({ to: "/analyses" });
        return;
      }
      client.setQueryData(runQuery(run.id).queryKey, run);
      void navigate({ to: "/analyses/runs/$id", params: { id: run.id } });
    },
  });
  const target = kind === "cluster" ? "" : String(values[kind] ?? "").trim();
  const suggestions = useSuggestions(fields, values);
  // A name that is being typed is not asked about.
  const isSettled =
    kind === "cluster" || (target !== "" && (target === given[kind] || suggestions[kind]?.includes(target)));
  const whyNot = useWhyNot(useCluster(), placeOfTarget(kind, target), isSettled === true);
  const why = isSettled ? whyNot("startRun") : null;
  const problems = validate(fields, values);
  const refused = launch.error instanceof ApiError && launch.error.field ? launch.error : null;
  const refusedField = refused && fields.find((field) => refused.field?.split(".").includes(field.name));
  const shown = {
    ...(tried ? problems : {}),
    ...(refused && refusedField && !launch.isPending ? { [refusedField.name]: withoutField(refused) } : {}),
  };

  const submit = (event: FormEvent) => {
    event.preventDefault();
    setTried(true);
    const [first] = Object.keys(problems);
    if (first) form.current?.querySelector<HTMLElement>(`[name="${CSS.escape(first)}"]`)?.focus();
    else if (!launch.isPending && why === null) launch.mutate();
  };

  const startByKey = (event: KeyboardEvent<HTMLFormElement>) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.currentTarget.requestSubmit();
  };

  return (
    <Panel title="Parameters">
      <form ref={form} onSubmit={submit} onKeyDown={startByKey} noValidate className={styles.form}>
        <p className={styles.about} lang="en">
          {analysis.question}
        </p>
        {analysis.targets.length > 1 && (
          <NativeSelect
            label="What to read"
            className={styles.short}
            value={kind}
            data={analysis.targets.map((target) => ({
              value: target,
              label: KINDS[target as Kind] ?? target,
            }))}
            disabled={launch.isPending}
            onChange={(event) => setKind(event.currentTarget.value as Kind)}
          />
        )}
        <SchemaForm
          fields={fields}
          values={values}
          problems={shown}
          suggestions={suggestions}
          lang="en"
          disabled={launch.isPending}
          onChange={(name, value) => {
            setValues((before) => ({ ...before, [name]: value }));
            if (refused) launch.reset();
          }}
        />
        {tried && Object.keys(problems).length > 0 && (
          <Notice tone="error">
            <p role="alert">Correct the marked fields, then start again.</p>
          </Notice>
        )}
        {launch.error && !refusedField && (
          <ChangeFailure error={launch.error} title="The run was not started" />
        )}
        <NativeSelect
          label="When"
          className={styles.short}
          value={when}
          data={WHEN}
          disabled={launch.isPending}
          onChange={(event) => setWhen(event.currentTarget.value as When)}
        />
        {when !== "now" && (
          <TextInput
            label={when === "hours" ? "Hours between two runs" : "Cron expression"}
            description={
              when === "hours" ? "1 to 8,784." : "Minute, hour, day, month and day of the week, in UTC."
            }
            className={styles.short}
            value={times[when]}
            disabled={launch.isPending}
            onChange={(event) => {
              const text = event.currentTarget.value;
              setTimes((before) => ({ ...before, [when]: text }));
            }}
          />
        )}
        <EstimateOf
          analysis={analysis.name}
          parameters={isSettled && Object.keys(problems).length === 0 ? toParameters(fields, values) : null}
        />
        <div>
          <ActionButton type="submit" size="sm" loading={launch.isPending} why={why}>
            {when === "now" ? "Start" : "Add schedule"}
          </ActionButton>
        </div>
      </form>
    </Panel>
  );
}

type When = "now" | "hours" | "cron";
const WHEN = [
  { value: "now", label: "Once, now" },
  { value: "hours", label: "Every so many hours" },
  { value: "cron", label: "At the times of a cron expression" },
];
const KINDS: Record<Kind, string> = {
  topic: "One topic",
  namespace: "A namespace",
  tenant: "A tenant",
  cluster: "The whole cluster",
};

/** The kind that the form begins with: of what is given, else the first of the analysis. */
function firstKind({ targets }: Analysis, given: Record<string, unknown>): Kind {
  return (targets.find((kind) => given[kind]) ?? targets[0] ?? "cluster") as Kind;
}

/** The fields of an analysis for one kind of target, whose name it needs. */
function fieldsFor({ parameters }: Analysis, kind: Kind): Field[] {
  return fieldsOf(parameters)
    .filter(({ name }) => name === kind || !isTarget(name))
    .map((field) => (field.name === kind ? { ...field, required: true, nullable: false } : field));
}

/** The error without the field's key before it: the message is shown at the field. */
function withoutField({ message, field }: ApiError): string {
  return field && message.startsWith(`${field}: `) ? message.slice(field.length + 2) : message;
}

/** Names to choose from while one is typed, by field; none while nothing is. */
function useSuggestions(fields: readonly Field[], values: FormValues): Record<string, string[]> {
  const cluster = useCluster();
  const topicField = fields.find(({ schema }) => schema.format === "topic")?.name ?? "";
  const scopeField = fields.find(({ name }) => name === "namespace" || name === "tenant")?.name ?? "";
  const topic = useDeferredValue(String(values[topicField] ?? "").trim());
  const scope = useDeferredValue(String(values[scopeField] ?? "").trim());
  const topics = useQuery({
    ...topicNamesQuery(cluster, topic),
    enabled: topic !== "",
    placeholderData: keepPreviousData,
  });
  const scopes = useQuery({
    ...scopeNamesQuery(cluster, scope.replaceAll("/", " ")),
    enabled: scope !== "",
    placeholderData: keepPreviousData,
  });
  return {
    ...(topic === "" ? {} : { [topicField]: topics.data ?? [] }),
    ...(scope === ""
      ? {}
      : { [scopeField]: scopes.data?.[scopeField === "tenant" ? "tenants" : "namespaces"].names ?? [] }),
  };
}
