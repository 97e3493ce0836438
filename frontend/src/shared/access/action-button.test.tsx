// @vitest-environment jsdom
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, test, vi } from "vitest";
import { session } from "../../api/session/session";
import { ActionButton } from "../../ui/action-button";
import { useWhyNot } from "./may";

const WHY = "Needs the right 'tenant admin' of acme: a superuser can give it.";
const calls: URL[] = [];
afterEach(() => {
  vi.unstubAllGlobals();
  session.view = { session: null, ended: null, viewer: 0 };
  calls.length = 0;
});

function Actions({ onClick }: { onClick: () => void }) {
  const whyNot = useWhyNot("standalone", { tenant: "acme" });
  return (
    <>
      <ActionButton why={whyNot("deleteTenant")} onClick={onClick}>
        Delete…
      </ActionButton>
      <ActionButton why={whyNot("updateTenant")} onClick={onClick}>
        Change…
      </ActionButton>
    </>
  );
}

function show(authorization: boolean) {
  session.view.session = {
    authentication: authorization,
    authorization,
    person: { name: "ada", level: "operate" },
  } as never;
  vi.stubGlobal("fetch", async (request: Request) => {
    calls.push(new URL(request.url));
    const actions = {
      deleteTenant: { allowed: false, why: WHY },
      updateTenant: { allowed: true, why: "" },
    };
    return Response.json({ actions });
  });
  const onClick = vi.fn();
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient()}>
        <Actions onClick={onClick} />
      </QueryClientProvider>
    </MantineProvider>,
  );
  return onClick;
}

test("a refused action does nothing and says at its focus which right is missing", async () => {
  const user = userEvent.setup();
  const onClick = show(true);
  const button = await screen.findByRole("button", { name: "Delete…" });
  await vi.waitFor(() => expect(button.getAttribute("aria-disabled")).toBe("true"));
  await user.tab();
  expect(document.activeElement).toBe(button);
  expect((await screen.findByRole("tooltip")).textContent).toBe(WHY);
  await user.keyboard("{Enter}");
  await user.click(button);
  expect(onClick).not.toHaveBeenCalled();
  await user.click(screen.getByRole("button", { name: "Change…" }));
  expect(onClick).toHaveBeenCalledOnce();
  expect(calls.map(({ pathname, search }) => pathname + search)).toEqual([
    "/api/v1/clusters/standalone/may?tenant=acme",
  ]);
});

test("the gateway is not asked where authorization is off", async () => {
  const user = userEvent.setup();
  const onClick = show(false);
  await user.click(screen.getByRole("button", { name: "Delete…" }));
  expect(onClick).toHaveBeenCalledOnce();
  expect(calls).toEqual([]);
});
