import type { JsonSchema } from "../../../api/types";
import { type Field, type FormValues, fieldsOf, toParameters } from "../../../shared/form/schema-fields";
import type { Component, Connector, ConnectorEnd, Deployment } from "./function-queries";

// The form of a deployment: fields of Pulsar's config that most need, those of a connector's settings, and the code.

/** Own code, in the list of connectors. */
export const OWN_CODE = "";
export const FIRST_CODE = `class Shout:
    """Return each message in capitals."""

    def process(self, input, context):
        context.get_logger().info("got %s", input)
        return input.upper() + "!"
`;
const GUARANTEES = ["ATLEAST_ONCE", "EFFECTIVELY_ONCE", "ATMOST_ONCE"];
const PLAIN_NAME = "^[^/\\s]{1,255}$";

const NAMES: Record<string, JsonSchema> = {
  tenant: { type: "string", title: "Tenant", default: "public", pattern: PLAIN_NAME },
  namespace: { type: "string", title: "Namespace", default: "default", pattern: PLAIN_NAME },
  name: { type: "string", title: "Name", pattern: PLAIN_NAME },
};
const INPUTS: JsonSchema = {
  type: "array",
  title: "Topics to read",
  description: "Full or short names",
  items: { type: "string" },
  minItems: 1,
};
const FIXED: Record<string, JsonSchema> = {
  processingGuarantees: {
    type: "string",
    title: "Guarantee",
    description: "Effectively once needs deduplication on the topic that is written",
    enum: GUARANTEES,
    default: "ATLEAST_ONCE",
  },
};
const LATER: Record<string, JsonSchema> = {
  parallelism: { type: "integer", title: "Instances", default: 1, minimum: 1, maximum: 1000 },
};
const CLASS: JsonSchema = {
  type: "string",
  title: "Class",
  description: "module.Class, where the module is the file's name",
};

/** The schema of the fields of Pulsar's config. */
export function configSchema(component: Component, isNew: boolean, isOwnCode: boolean): JsonSchema {
  const properties: Record<string, JsonSchema> = {
    ...(isNew ? NAMES : {}),
    ...(isOwnCode ? { className: CLASS } : {}),
    ...(isNew && component !== "source" ? { inputs: INPUTS } : {}),
    ...(component === "function" ? { output: { type: "string", title: "Topic to write" } } : {}),
    ...(component === "source" ? { topicName: { type: "string", title: "Topic to write" } } : {}),
    ...(isNew ? FIXED : {}),
    ...LATER,
    ...(component === "function"
      ? {
          logTopic: { type: "string", title: "Log topic", description: "Log lines are published to it" },
          userConfig: { type: "object", title: "User config", description: "Values that the code reads" },
        }
      : {}),
  };
  const needed = [
    ...(isNew ? ["tenant", "namespace", "name"] : []),
    ...(isOwnCode ? ["className"] : []),
    ...(isNew && component !== "source" ? ["inputs"] : []),
    ...(component === "source" ? ["topicName"] : []),
    "parallelism",
  ];
  return { type: "object", properties, required: needed };
}

export function endOf(
  connectors: readonly Connector[],
  component: Component,
  name: string,
): ConnectorEnd | null {
  const connector = connectors.find((each) => each.name === name);
  if (connector === undefined || component === "function") return null;
  return component === "source" ? connector.as_source : connector.as_sink;
}

/** The fields of settings, under names of their own: a connector may have a field `name`, too. */
export function settingFields(end: ConnectorEnd | null): Field[] {
  return end === null ? [] : fieldsOf(end.settings);
}

export interface Code {
  /** The text in the editor, or a chosen file instead. */
  text: string;
  file: { name: string; base64: string } | null;
}

/** The request of a filled form. `code` null: it stays as it is. */
export function deploymentOf(
  fields: Field[],
  values: FormValues,
  settings: { fields: Field[]; values: FormValues } | null,
  connector: string,
  code: Code | null,
): Deployment {
  const { tenant: _, namespace: __, name: ___, ...config } = toParameters(fields, values);
  if (settings) config.configs = toParameters(settings.fields, settings.values);
  if (connector) return { config: { ...config, archive: `builtin://${connector}` } };
  if (code === null) return { config };
  if (code.file) return { config, code: code.file.base64, file_name: code.file.name };
  return { config, code: base64Of(code.text), file_name: moduleFile(String(config.className ?? "")) };
}

/** The file of a class: its module's. */
export function moduleFile(className: string): string {
  return `${className.split(".")[0] || "code"}.py`;
}

export function base64Of(text: string): string {
  return bytesToBase64(new TextEncoder().encode(text));
}

export function bytesToBase64(bytes: Uint8Array): string {
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary);
}
