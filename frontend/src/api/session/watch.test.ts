import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Person, Session } from "./calls";
import { SessionWatch } from "./watch";

const person = (more: Partial<Person> = {}): Person => ({
  name: "ada",
  display_name: "",
  method: "session",
  role: "ops",
  level: "full",
  roles: [],
  viewing_as: null,
  superuser: false,
  reads_everything: false,
  may_change_password: true,
  ends_at: null,
  ...more,
});

const answer = (of: Person | null, authentication = true): Session => ({
  authentication,
  authorization: authentication,
  set_up_needed: false,
  password_sign_in: authentication,
  providers: [],
  person: of,
});

const effects = {
  read: vi.fn<() => Promise<Session>>(),
  onOther: vi.fn(),
  onServed: vi.fn(),
  onRefused: vi.fn(),
};
let watch: SessionWatch;

beforeEach(() => {
  vi.useFakeTimers();
  for (const effect of Object.values(effects)) effect.mockReset();
  watch = new SessionWatch(effects);
});
afterEach(() => vi.useRealTimers());

test("the first answer drops nothing, and an open instance is served", () => {
  watch.take(answer(null, false));
  expect(watch.view).toMatchObject({ ended: null, viewer: 0 });
  expect(effects.onOther).not.toHaveBeenCalled();
  expect(effects.onRefused).not.toHaveBeenCalled();
});

test("another person, role, level or view is another viewer", () => {
  watch.take(answer(person()));
  const others = [{ name: "bob" }, { role: "billing" }, { level: "read" as const }, { viewing_as: "ops" }];
  for (const [index, more] of others.entries()) {
    watch.take(answer(person(more)));
    expect(watch.view.viewer).toBe(index + 1);
    expect(effects.onOther).toHaveBeenCalledTimes(index + 1);
    expect(effects.onServed).toHaveBeenCalledTimes(index + 1);
  }
});

test("what is no part of the rights changes no viewer", () => {
  watch.take(answer(person()));
  watch.take(answer(person({ display_name: "Ada Lovelace", ends_at: 5 })));
  expect(watch.view.viewer).toBe(0);
  expect(effects.onOther).not.toHaveBeenCalled();
});

test("a session that ended keeps the page for the same person, as it was", () => {
  watch.take(answer(person()));
  watch.take(answer(null));
  expect(watch.view).toMatchObject({ ended: { name: "ada" }, viewer: 0 });
  expect(effects.onRefused).toHaveBeenCalledOnce();
  expect(effects.onOther).not.toHaveBeenCalled();
  watch.take(answer(person()));
  expect(watch.view).toMatchObject({ ended: null, viewer: 0 });
  expect(effects.onServed).toHaveBeenCalledOnce();
  expect(effects.onOther).not.toHaveBeenCalled();
});

test("a session that ended shows nothing of it to another person", () => {
  watch.take(answer(person()));
  watch.take(answer(null));
  watch.take(answer(null));
  watch.take(answer(person({ name: "bob" })));
  expect(watch.view).toMatchObject({ ended: null, viewer: 1 });
  expect(effects.onOther).toHaveBeenCalledOnce();
});

test("signing out drops all that was read, and signing in again as well", () => {
  watch.take(answer(person()));
  watch.leave();
  expect(watch.view).toMatchObject({ session: { person: null }, ended: null, viewer: 1 });
  expect(effects.onOther).toHaveBeenCalledOnce();
  expect(effects.onRefused).toHaveBeenCalledOnce();
  watch.take(answer(person()));
  expect(watch.view.viewer).toBe(2);
  expect(effects.onServed).toHaveBeenCalledOnce();
});

test("a gateway that does not answer ends no session, and is asked once at a time", async () => {
  watch.take(answer(person()));
  effects.read.mockRejectedValue(new Error("no connection"));
  await Promise.all([watch.refresh(), watch.refresh()]);
  expect(effects.read).toHaveBeenCalledOnce();
  expect(watch.view.session?.person?.name).toBe("ada");
});

test("the end of a session is noticed when it is due", async () => {
  effects.read.mockResolvedValue(answer(null));
  watch.take(answer(person({ ends_at: Date.now() + 60_000 })));
  await vi.advanceTimersByTimeAsync(59_000);
  expect(watch.view.ended).toBeNull();
  await vi.advanceTimersByTimeAsync(2_000);
  expect(watch.view.ended?.name).toBe("ada");
});
