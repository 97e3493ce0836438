// @vitest-environment jsdom
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import { session } from "../../api/session/session";
import { AccessPanel } from "./access-panel";

afterEach(() => {
  session.view = { session: null, ended: null, viewer: 0 };
});

function show(view: object | null, isPage: boolean) {
  session.view.session = view as never;
  return render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient()}>
        <AccessPanel cluster="standalone" place={{ tenant: "acme" }} isPage={isPage} />
      </QueryClientProvider>
    </MantineProvider>,
  );
}

test.each([true, false])("the panel states that authorization is off (a page: %s)", (isPage) => {
  show({ authentication: false, authorization: false, person: null }, isPage);
  expect(screen.getByText("Authorization is off: everybody may do everything.")).toBeDefined();
});

test.each([null, { authentication: true, authorization: true, person: null }])(
  "nothing is stated while that is not known or not so",
  (view) => {
    const { container } = show(view, true);
    expect(container.textContent).not.toContain("Authorization is off");
  },
);
