// @vitest-environment jsdom
import { MantineProvider } from "@mantine/core";
import { render, screen } from "@testing-library/react";
import { userEvent } from "@testing-library/user-event";
import { expect, test, vi } from "vitest";
import { ApiError } from "../../lib/errors";
import { Providers, SignInForm } from "./sign-in-form";

function refused(status: number, reason: string, body = {}): ApiError {
  const call = "POST /api/v1/session/sign-in";
  return new ApiError({ reason, status, hop: "request", requestId: null, field: null, call, body });
}

function shown(onSubmit = vi.fn()) {
  render(
    <MantineProvider>
      <SignInForm onSubmit={onSubmit} />
    </MantineProvider>,
  );
  return { onSubmit, user: userEvent.setup() };
}

const field = (label: string) => screen.getByLabelText<HTMLInputElement>(label);

async function attempt(user: ReturnType<typeof userEvent.setup>) {
  await user.type(field("Name"), "ada");
  await user.type(field("Password"), "secret{Enter}");
}

test("what is missing is said at its field, and nothing is sent", async () => {
  const { onSubmit, user } = shown();
  await user.type(field("Name"), "ada");
  await user.click(screen.getByRole("button", { name: "Sign in" }));
  expect(screen.getByText("Enter your password")).toBeTruthy();
  expect(document.activeElement).toBe(field("Password"));
  expect(onSubmit).not.toHaveBeenCalled();
});

test("a wrong password is emptied and has the focus", async () => {
  const { user } = shown(vi.fn().mockRejectedValue(refused(401, "Name or password is wrong")));
  await attempt(user);
  expect(screen.getByRole("alert").textContent).toBe("Name or password is wrong.");
  expect(field("Password").value).toBe("");
  expect(document.activeElement).toBe(field("Password"));
  expect(field("Name").value).toBe("ada");
});

test("a throttled sign-in says when the next attempt counts, and sends none before", async () => {
  const throttled = refused(429, "Too many attempts; try again later", { retry_after_s: 272 });
  const { onSubmit, user } = shown(vi.fn().mockRejectedValue(throttled));
  await attempt(user);
  expect(screen.getByRole("alert").textContent).toMatch(
    /^Too many attempts\. Try again at \d\d:\d\d:\d\d\.$/,
  );
  const button = screen.getByRole<HTMLButtonElement>("button", { name: "Wait 4 min 32 s" });
  expect(button.disabled).toBe(true);
  await user.type(field("Password"), "secret{Enter}");
  expect(onSubmit).toHaveBeenCalledOnce();
});

test("a one-time password is replaced in the same step", async () => {
  const onSubmit = vi.fn().mockRejectedValueOnce(refused(409, "…", { password_change_needed: true }));
  const { user } = shown(onSubmit);
  await attempt(user);
  expect(screen.getByRole("status").textContent).toContain("Choose your own");
  await user.type(field("New password"), "correct horse{Enter}");
  expect(onSubmit).toHaveBeenLastCalledWith("ada", "secret", "correct horse");
});

test("a password can be shown", async () => {
  const { user } = shown();
  expect(field("Password").type).toBe("password");
  await user.click(screen.getByRole("button", { name: "Show password" }));
  expect(field("Password").type).toBe("text");
});

test("a provider returns to the page that was asked for", () => {
  render(
    <MantineProvider>
      <Providers
        providers={[{ name: "corp", title: "Example", href: "/sign-in/corp" }]}
        next="/c/standalone/topics?q=a&sort=name"
      />
    </MantineProvider>,
  );
  const link = screen.getByRole("link", { name: "Sign in with Example" });
  expect(link.getAttribute("href")).toBe(
    "/sign-in/corp?next=%2Fc%2Fstandalone%2Ftopics%3Fq%3Da%26sort%3Dname",
  );
});
