// @vitest-environment jsdom
import { MantineProvider } from "@mantine/core";
import { render, screen } from "@testing-library/react";
import { userEvent } from "@testing-library/user-event";
import { useState } from "react";
import { expect, test } from "vitest";
import type { ActingRole } from "../../api/session/calls";
import { RolesEditor, rolesProblem, trimmed } from "./roles-editor";

let now: ActingRole[];

function Editor({ start }: { start: ActingRole[] }) {
  const [roles, setRoles] = useState(start);
  now = roles;
  return (
    <MantineProvider>
      <RolesEditor value={roles} known={[]} error={null} isDisabled={false} onChange={setRoles} />
    </MantineProvider>
  );
}

test("roles are added, named, ordered and removed by buttons", async () => {
  const user = userEvent.setup();
  render(<Editor start={[{ role: "ops", level: "operate" }]} />);
  await user.click(screen.getByRole("button", { name: "Add role" }));
  await user.type(screen.getByLabelText("Role 2"), "billing");
  await user.selectOptions(screen.getByLabelText("Level of billing"), "full");
  await user.click(screen.getByRole("button", { name: "Move billing up" }));
  expect(now).toEqual([
    { role: "billing", level: "full" },
    { role: "ops", level: "operate" },
  ]);
  await user.click(screen.getByRole("button", { name: "Remove ops" }));
  expect(now).toEqual([{ role: "billing", level: "full" }]);
  expect(screen.getByRole<HTMLButtonElement>("button", { name: "Remove billing" }).disabled).toBe(true);
});

test("each role has a name of its own", () => {
  const role = (name: string): ActingRole => ({ role: name, level: "read" });
  expect(rolesProblem([role("a"), role("b")])).toBeNull();
  expect(rolesProblem([role(" ")])).toBe("Give each role a name");
  expect(rolesProblem([role("a"), role("b"), role(" a ")])).toBe("The role a is listed twice");
  expect(trimmed([role(" a ")])).toEqual([role("a")]);
});
