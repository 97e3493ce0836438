import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { type FormEvent, useDeferredValue, useMemo, useRef, useState } from "react";
import type { Analysis } from "../../api/types";
import { ApiError, failureOf } from "../../lib/errors";
import { useWhyNot } from "../../shared/access/may";
import { useCluster } from "../../shared/topic-link";
import { ActionButton } from "../../ui/action-button";
import { Crumb, Page, PageHead, Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading, Notice } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import styles from "./analyses.module.css";
import { analysesQuery, runQuery, startRun, topicNamesQuery } from "./queries";
import { type FormValues, fieldsOf, initialValues, toParameters, validate } from "./schema-fields";
import { SchemaForm } from "./schema-form";
import { SparkOffer } from "./spark-offer";
import { placeOfTarget } from "./target";

const route = getRouteApi("/analyses/$template/new");

export function LaunchPage() {
  const { template } = route.useParams();
  const { topic, from } = route.useSearch();
  const catalogue = useQuery(analysesQuery);
  const earlier = useQuery({ ...runQuery(from ?? ""), enabled: from !== undefined });
  const analysis = catalogue.data?.find((each) => each.name === template);
  const title = analysis?.title ?? template;
  useTitle(`New: ${title}`);
  const given = useMemo(
    () => ({
      ...(earlier.data?.analysis === template ? earlier.data.parameters : {}),
      ...(topic ? { topic } : {}),
    }),
    [earlier.data, template, topic],
  );
  const ready = catalogue.data && (from === undefined || !earlier.isPending);
  return (
    <Page shape="narrow">
      <PageHead
        crumbs={
          <Crumb>
            <Link to="/analyses" search={{ topic }}>
              Analyses
            </Link>
          </Crumb>
        }
        title={title}
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
      {ready && analysis && <LaunchForm key={`${analysis.name} ${from}`} analysis={analysis} given={given} />}
    </Page>
  );
}

/** An analysis to be filled in and started. */
export function LaunchForm({
  analysis,
  given,
  title = "Parameters",
}: {
  analysis: Analysis;
  given: Record<string, unknown>;
  title?: string;
}) {
  const navigate = useNavigate();
  const client = useQueryClient();
  const form = useRef<HTMLFormElement>(null);
  const fields = useMemo(() => fieldsOf(analysis.parameters), [analysis]);
  const [values, setValues] = useState<FormValues>(() => initialValues(fields, given));
  const [tried, setTried] = useState(false);
  const launch = useMutation({
    mutationFn: () => startRun(analysis.name, toParameters(fields, values)),
    onSuccess: (run) => {
      client.setQueryData(runQuery(run.id).queryKey, run);
      navigate({ to: "/analyses/runs/$id", params: { id: run.id } });
    },
  });
  const topicField = fields.find((field) => field.schema.format === "topic");
  const names = useTopicNames(topicField ? String(values[topicField.name] ?? "").trim() : "");
  const [kind, target] = targetOf(analysis, values);
  // A name that is being typed is not asked about.
  const isTarget = target === "" ? kind === "cluster" : target === given[kind] || names.includes(target);
  const whyNot = useWhyNot(useCluster(), placeOfTarget(kind, target), isTarget);
  const why = isTarget ? whyNot("startRun") : null;
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

  return (
    <Panel title={title}>
      <form ref={form} onSubmit={submit} noValidate className={styles.form}>
        <p className={styles.about}>{analysis.question}</p>
        <SchemaForm
          fields={fields}
          values={values}
          problems={shown}
          suggestions={topicField ? { [topicField.name]: names } : {}}
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
          <ErrorNotice error={launch.error} title="The run was not started" />
        )}
        <div>
          <ActionButton type="submit" size="sm" loading={launch.isPending} why={why}>
            Start
          </ActionButton>
        </div>
      </form>
    </Panel>
  );
}

/** Kind and name of what the form selects so far: the cluster, if it is a target, unless something else is named. */
function targetOf({ targets }: Analysis, values: FormValues): [string, string] {
  for (const kind of targets) {
    const name = String(values[kind] ?? "").trim();
    if (name !== "") return [kind, name];
  }
  return [targets.includes("cluster") ? "cluster" : (targets[0] ?? "cluster"), ""];
}

/** The error without the field's key before it: the message is shown at the field. */
function withoutField({ message, field }: ApiError): string {
  return field && message.startsWith(`${field}: `) ? message.slice(field.length + 2) : message;
}

/** Names to choose from while one is typed; none while nothing is. */
function useTopicNames(text: string): string[] {
  const found = useQuery({
    ...topicNamesQuery(useCluster(), useDeferredValue(text)),
    enabled: text !== "",
    placeholderData: keepPreviousData,
  });
  return text === "" ? [] : (found.data ?? []);
}
