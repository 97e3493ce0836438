import { expect, test } from "vitest";
import { fieldsOf, initialValues } from "../../../shared/form/schema-fields";
import { base64Of, configSchema, deploymentOf, endOf, moduleFile } from "./deployment-form";
import type { Connector } from "./function-queries";

const connector: Connector = {
  name: "postgres",
  description: "",
  as_source: null,
  as_sink: {
    settings: { type: "object", properties: { table: { type: "string" } }, required: ["table"] },
    promise: "effectively once",
    condition: "",
    several: true,
  },
};

test("a function's code is sent as the file of its module", () => {
  const fields = fieldsOf(configSchema("function", true, true));
  const values = { ...initialValues(fields), name: "f", className: "shout.Shout", inputs: "in\nmore" };
  const code = { text: "class Shöut: ...", file: null };
  expect(deploymentOf(fields, values, null, "", code)).toEqual({
    config: {
      className: "shout.Shout",
      inputs: ["in", "more"],
      parallelism: 1,
      processingGuarantees: "ATLEAST_ONCE",
    },
    code: base64Of("class Shöut: ..."),
    file_name: "shout.py",
  });
  expect(moduleFile("")).toBe("code.py");
});

test("a connector is named by its archive, with its settings apart", () => {
  const fields = fieldsOf(configSchema("sink", true, false));
  const end = endOf([connector], "sink", "postgres");
  const settings = { fields: fieldsOf(end?.settings ?? {}), values: { table: "t" } };
  const { config, ...rest } = deploymentOf(fields, { inputs: "in" }, settings, "postgres", null);
  expect(config).toEqual({ inputs: ["in"], archive: "builtin://postgres", configs: { table: "t" } });
  expect(rest).toEqual({});
  expect(endOf([connector], "source", "postgres")).toBeNull();
  expect(endOf([connector], "function", "postgres")).toBeNull();
});

test("an update has no field that may not change", () => {
  const names = Object.keys(configSchema("sink", false, false).properties ?? {});
  expect(names).toEqual(["parallelism"]);
  expect(configSchema("source", false, false).required).toEqual(["topicName", "parallelism"]);
});
