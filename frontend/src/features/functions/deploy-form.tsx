import { Checkbox, NativeSelect } from "@mantine/core";
import { type FormEvent, useMemo, useRef, useState } from "react";
import { localized } from "../../lib/language/sentences";
import { useWhyNot } from "../../shared/access/may";
import { type FormValues, fieldsOf, initialValues, validate } from "../../shared/form/schema-fields";
import { SchemaForm } from "../../shared/form/schema-form";
import { ActionButton } from "../../ui/action-button";
import { Panel } from "../../ui/panel";
import { Notice } from "../../ui/states";
import { CodeField } from "./code-field";
import { DeployDialog } from "./deploy-dialog";
import {
  type Code,
  configSchema,
  deploymentOf,
  endOf,
  FIRST_CODE,
  OWN_CODE,
  settingFields,
} from "./model/deployment-form";
import type { Component, Connector, Deployment, FunctionPlace } from "./model/function-queries";
import { Trial } from "./trial";

const KINDS = [
  { value: "function", label: "Function: reads and writes topics" },
  { value: "source", label: "Source: from another system to a topic" },
  { value: "sink", label: "Sink: from topics to another system" },
];
const grid = { display: "grid", gap: 16 };

/** The form of a new function, source or sink, or of an update of `place` with what is deployed. */
export function DeployForm({
  cluster,
  connectors,
  first,
  place,
  config = {},
  deployed = null,
  onDone,
}: {
  cluster: string;
  connectors: readonly Connector[];
  /** The first choices for a new one. */
  first?: { component: Component; connector: string };
  place?: FunctionPlace;
  config?: Record<string, unknown>;
  /** The deployed code; null for none that the editor can show. */
  deployed?: string | null;
  onDone: (place: FunctionPlace) => void;
}) {
  const isNew = place === undefined;
  const form = useRef<HTMLFormElement>(null);
  const [component, setComponent] = useState<Component>(place?.component ?? first?.component ?? "function");
  const [connector, setConnector] = useState(first?.connector ?? connectorOf(config));
  const [given, setGiven] = useState<FormValues>({});
  const [settings, setSettings] = useState<FormValues>({});
  const [code, setCode] = useState<Code>({ text: deployed ?? FIRST_CODE, file: null });
  const [isCodeShown, setCodeShown] = useState(isNew || deployed !== null);
  const isCodeNew = isCodeShown && (code.file !== null || code.text !== deployed);
  const [tried, setTried] = useState(false);
  const [asked, setAsked] = useState<{ place: FunctionPlace; deployment: Deployment }>();
  const end = endOf(connectors, component, connector);
  const isOwnCode = end === null;
  const fields = useMemo(
    () => fieldsOf(configSchema(component, isNew, isOwnCode)),
    [component, isNew, isOwnCode],
  );
  const ofEnd = useMemo(() => settingFields(end), [end]);
  const start = isNew && component === "function" ? { className: "shout.Shout", ...config } : config;
  const values = { ...initialValues(fields, start), ...given };
  const settingValues = {
    ...initialValues(ofEnd, (config.configs as Record<string, unknown> | undefined) ?? {}),
    ...settings,
  };
  const problems = validate(fields, values);
  const settingProblems = validate(ofEnd, settingValues);
  const at: FunctionPlace = place ?? {
    cluster,
    component,
    tenant: String(values.tenant ?? ""),
    namespace: String(values.namespace ?? ""),
    name: String(values.name ?? ""),
  };
  const whyNot = useWhyNot(cluster, { tenant: at.tenant, namespace: at.namespace }, !problems.namespace);
  const isWrong = Object.keys({ ...problems, ...settingProblems }).length > 0;
  /** Return the place and deployment of the form; null, with its first wrong field in focus, if a field is wrong. */
  const filled = () => {
    setTried(true);
    const [wrong] = Object.keys({ ...problems, ...settingProblems });
    if (wrong) {
      form.current?.querySelector<HTMLElement>(`[name="${CSS.escape(wrong)}"]`)?.focus();
      return null;
    }
    const deployment = deploymentOf(
      fields,
      values,
      end && { fields: ofEnd, values: settingValues },
      end ? connector : "",
      isOwnCode && isCodeNew ? code : null,
    );
    return { place: at, deployment };
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const given = filled();
    if (given) setAsked(given);
  };
  const choices = connectors.filter(({ name }) => endOf(connectors, component, name) !== null);
  return (
    <form ref={form} onSubmit={submit} noValidate style={grid}>
      <Panel title={isNew ? "What it is" : "Config"}>
        <div style={grid}>
          {isNew && (
            <NativeSelect
              label="Kind"
              value={component}
              data={KINDS}
              onChange={(event) => {
                setComponent(event.currentTarget.value as Component);
                setConnector(OWN_CODE);
                setTried(false);
              }}
            />
          )}
          {isNew && component !== "function" && (
            <NativeSelect
              label="Connector"
              value={connector}
              onChange={(event) => {
                setConnector(event.currentTarget.value);
                setSettings({});
              }}
            >
              {choices.map(({ name, description }) => (
                <option key={name} value={name}>{`${name}: ${localized(description)}`}</option>
              ))}
              <option value={OWN_CODE}>Own code</option>
            </NativeSelect>
          )}
          <SchemaForm
            fields={fields}
            values={values}
            problems={tried ? problems : {}}
            onChange={(name, value) => setGiven((before) => ({ ...before, [name]: value }))}
          />
        </div>
      </Panel>
      {end && (
        <Panel title={`Settings of ${connector}`} note={<span lang="en">{end.promise}</span>}>
          <div style={grid}>
            <p style={{ margin: 0 }} lang="en">
              {end.condition}
            </p>
            <SchemaForm
              lang="en"
              fields={ofEnd}
              values={settingValues}
              problems={tried ? settingProblems : {}}
              onChange={(name, value) => setSettings((before) => ({ ...before, [name]: value }))}
            />
          </div>
        </Panel>
      )}
      {isOwnCode && (
        <Panel title="Code">
          <div style={grid}>
            {!isNew && deployed === null && (
              <Checkbox
                label="Replace the code"
                checked={isCodeShown}
                onChange={(event) => setCodeShown(event.currentTarget.checked)}
              />
            )}
            {isCodeShown && <CodeField value={code} onChange={setCode} />}
          </div>
        </Panel>
      )}
      {component === "function" && <Trial ask={filled} why={whyNot("tryFunction")} />}
      {tried && isWrong && (
        <Notice tone="error">
          <p role="alert">Correct the marked fields, then try or preview again.</p>
        </Notice>
      )}
      <div>
        <ActionButton type="submit" why={whyNot("deployFunction")}>
          Preview …
        </ActionButton>
      </div>
      {asked && (
        <DeployDialog
          place={asked.place}
          deployment={asked.deployment}
          code={deployed !== null && code.file === null ? { before: deployed, after: code.text } : null}
          onClose={(isDone) => (isDone ? onDone(asked.place) : setAsked(undefined))}
        />
      )}
    </form>
  );
}

/** The built-in connector of a config; empty for own code. */
function connectorOf({ archive }: Record<string, unknown>): string {
  return typeof archive === "string" ? archive.replace(/^builtin:\/\//, "") : OWN_CODE;
}
