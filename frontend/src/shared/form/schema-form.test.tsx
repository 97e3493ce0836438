// @vitest-environment jsdom
import { MantineProvider } from "@mantine/core";
import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { useState } from "react";
import { expect, test, vi } from "vitest";
import type { JsonSchema } from "../../api/types";
import { fieldsOf, initialValues, toParameters, validate } from "./schema-fields";
import { SchemaForm } from "./schema-form";

vi.setConfig({ testTimeout: 60_000 });

const schema: JsonSchema = {
  type: "object",
  required: ["topic"],
  properties: {
    topic: { type: "string", title: "Topic" },
    top: {
      type: "integer",
      title: "Keys to list",
      description: "Most frequent first.",
      minimum: 1,
      maximum: 100,
    },
    sampling: { enum: ["all", "tenth"], default: "all", title: "Sampling" },
    exact: { type: "boolean", title: "Exact", default: false },
  },
};
const fields = fieldsOf(schema);

function Harness() {
  const [values, setValues] = useState(() => initialValues(fields));
  return (
    <MantineProvider>
      <SchemaForm
        fields={fields}
        values={values}
        problems={validate(fields, values)}
        suggestions={{ topic: ["persistent://public/default/hello"] }}
        onChange={(name, value) => setValues((before) => ({ ...before, [name]: value }))}
      />
      <output>{JSON.stringify(toParameters(fields, values))}</output>
    </MantineProvider>
  );
}

test("each field has its label, its limits and its own message, and typing makes the parameters", async () => {
  const user = userEvent.setup();
  render(<Harness />);
  const topic = screen.getByLabelText(/Topic/);
  expect(topic.getAttribute("aria-invalid")).toBe("true");
  const suggested = (topic as HTMLInputElement).list?.options[0]?.value;
  expect(suggested).toBe("persistent://public/default/hello");
  expect(screen.getByText("Most frequent first; 1 to 100.")).toBeTruthy();
  await user.type(topic, "persistent://a/b/c");
  await user.type(screen.getByLabelText("Keys to list"), "500");
  expect(screen.getByText("Must be at most 100")).toBeTruthy();
  await user.clear(screen.getByLabelText("Keys to list"));
  await user.type(screen.getByLabelText("Keys to list"), "50");
  await user.selectOptions(screen.getByLabelText("Sampling"), "tenth");
  await user.click(screen.getByLabelText("Exact"));
  expect(JSON.parse(screen.getByRole("status").textContent ?? "")).toEqual({
    topic: "persistent://a/b/c",
    top: 50,
    sampling: "tenth",
    exact: true,
  });
});
