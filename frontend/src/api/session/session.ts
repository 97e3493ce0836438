// The session of this browser: known to all pages, changed by those of features/account.

import { useSyncExternalStore } from "react";
import { health } from "../health";
import { whenNotIdentified } from "../not-identified";
import { liveSocket } from "../socket";
import * as calls from "./calls";
import { type SessionView, SessionWatch } from "./watch";

const drops = new Set<() => void>();

/** Calls `drop` before another viewer sees the console: nothing that was read for the former one may remain. */
export function whenViewerChanges(drop: () => void): void {
  drops.add(drop);
}

let onServed: (isServed: boolean) => void = () => {};

/** Further reactions when the gateway begins, or stops, to serve this browser. */
export function whenServed(run: (isServed: boolean) => void): void {
  onServed = run;
}

export const session = new SessionWatch({
  read: calls.readSession,
  onOther: () => {
    for (const drop of drops) drop();
  },
  onServed: () => {
    liveSocket.stop();
    liveSocket.start();
    health.start();
    onServed(true);
  },
  onRefused: () => {
    liveSocket.stop();
    health.stop();
    onServed(false);
  },
});
whenNotIdentified(session.refresh);

export function useSession(): SessionView {
  return useSyncExternalStore(session.watch, () => session.view);
}

/** The other tabs of this browser have the same session. */
const tabs = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel("magnetar-session");
if (tabs)
  tabs.onmessage = ({ data }) => {
    if (data === "left") session.leave();
    else session.refresh();
  };

function changed(answer: calls.Session): void {
  session.take(answer);
  tabs?.postMessage("changed");
}

/** `next` replaces a password that is for one sign-in; empty for no such password. */
export async function signIn(name: string, password: string, next = ""): Promise<void> {
  changed(await calls.signIn({ name, password, new_password: next }));
}

export async function setUp(code: string, name: string, password: string): Promise<void> {
  changed(await calls.setUp({ code, name, password }));
}

export async function actAs(role: string): Promise<void> {
  changed(await calls.actAs(role));
}

/** Shows the console as `role` sees it; null ends that. */
export async function viewAs(role: string | null): Promise<void> {
  changed(await calls.viewAs(role));
}

/** Ends the session here, and at the provider that signed the person in. */
export async function signOut(): Promise<void> {
  const { end_session_href } = await calls.signOut();
  tabs?.postMessage("left");
  if (end_session_href) location.assign(end_session_href);
  else session.leave();
}

/** Whether this browser asked once who it is, which it does only where people sign in: the gateway set a cookie then. */
export function hasSignedIn(): boolean {
  return /(?:^|;\s*)csrftoken=/.test(document.cookie);
}

/** Ask early who this is where that matters, and again when the person returns to the tab. */
export function startSession(): void {
  if (hasSignedIn()) session.refresh();
  window.addEventListener("focus", () => {
    if (session.view.session?.authentication) session.refresh();
  });
}
