import type { Person, Session } from "./calls";

export interface SessionView {
  /** Null until the gateway answered. */
  session: Session | null;
  /** The person whose session ended while the console was open. The page stays, covered, until the next sign-in. */
  ended: Person | null;
  /** Changes with the viewer: what is keyed with it belongs to one viewer. */
  viewer: number;
}

interface Effects {
  read: () => Promise<Session>;
  /** Another viewer sees the console from now on: drop all that was read. */
  onOther: () => void;
  /** The gateway serves this browser, after it did not or as another viewer. */
  onServed: () => void;
  /** The gateway does not serve this browser until a user signs in. */
  onRefused: () => void;
}

/** Longest delay of a browser's timer. */
const DELAY_MAX_MS = 2 ** 31 - 1;
const AFTER_END_MS = 500;

/** The user of the console. Data that was read for one viewer is dropped before another sees the console. */
export class SessionWatch {
  view: SessionView = { session: null, ended: null, viewer: 0 };
  private reading: Promise<void> | null = null;
  private expiry: ReturnType<typeof setTimeout> | undefined;
  private readonly watchers = new Set<() => void>();

  constructor(private readonly effects: Effects) {}

  watch = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  /** Ask the gateway who this is; one question at a time. A failed one changes nothing. */
  refresh = (): Promise<void> => {
    this.reading ??= this.effects
      .read()
      .then((session) => this.take(session))
      .catch(() => undefined)
      .finally(() => {
        this.reading = null;
      });
    return this.reading;
  };

  /** Take the answer to a call that reads or changes the session. */
  take(session: Session): void {
    const { session: before, ended, viewer } = this.view;
    const known = ended ?? before?.person ?? null;
    const isOther =
      before !== null && session.person !== null && identityOf(session.person) !== identityOf(known);
    this.view = {
      session,
      ended: isServed(session) ? null : known,
      viewer: isOther ? viewer + 1 : viewer,
    };
    this.followExpiry(session.person);
    if (isOther) this.effects.onOther();
    if (!isServed(session)) this.effects.onRefused();
    else if (isOther || ended || (before && !isServed(before))) this.effects.onServed();
    this.publish();
  }

  /** The person signed out: nothing that was shown may remain. */
  leave(): void {
    const { session, viewer } = this.view;
    if (session === null) return;
    this.view = { session: { ...session, person: null }, ended: null, viewer: viewer + 1 };
    this.followExpiry(null);
    this.effects.onOther();
    this.effects.onRefused();
    this.publish();
  }

  private followExpiry(person: Person | null): void {
    clearTimeout(this.expiry);
    if (!person?.ends_at) return;
    const delay = Math.max(person.ends_at - Date.now(), 0) + AFTER_END_MS;
    if (delay < DELAY_MAX_MS) this.expiry = setTimeout(this.refresh, delay);
  }

  private publish(): void {
    for (const watcher of this.watchers) watcher();
  }
}

function isServed({ person, authentication }: Session): boolean {
  return person !== null || !authentication;
}

/** The properties that decide which data a person sees. */
function identityOf(person: Person | null): string {
  if (person === null) return "";
  const { name, method, role, level, viewing_as } = person;
  return JSON.stringify([name, method, role, level, viewing_as]);
}
