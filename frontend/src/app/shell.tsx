import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useRouterState } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useMemo, useRef } from "react";
import { environmentQuery } from "../api/environment";
import { useHealth } from "../api/health";
import { hasSignedIn, useSession } from "../api/session/session";
import { places } from "../features";
import { time } from "../lib/format";
import { nameOfHop, standsInTheWay } from "../shared/hops";
import { lackOfPage, useIsApache, useLacks } from "../shared/lacking/lacking";
import { NotHere } from "../shared/lacking/not-here";
import { isOffered } from "../shared/place";
import { useCluster } from "../shared/topic-link";
import { Badge } from "../ui/badge";
import { Copy } from "../ui/copy";
import { DocumentationLink } from "../ui/documentation-link";
import { Mark, SearchIcon } from "../ui/icons";
import { SchemeToggle } from "../ui/scheme-toggle";
import { StaleContext, type Trouble, TroubleContext } from "../ui/states";
import { ClusterSwitch } from "./cluster-switch";
import { LanguageChoice } from "./language";
import { OpenToAnyone } from "./open-to-anyone";
import { openPalette, Palette } from "./palette/palette";
import styles from "./shell.module.css";
import { StatusLine } from "./status-line";
import { TimeZone } from "./time-zone";

const SignedOut = lazy(async () => ({ default: (await import("../features/sign-in/signed-out")).SignedOut }));
const SignInAgain = lazy(async () => ({
  default: (await import("../features/sign-in/again-dialog")).SignInAgain,
}));
const Corner = lazy(async () => ({ default: (await import("../features/account/corner")).Corner }));
const ViewingAs = lazy(async () => ({
  default: (await import("../features/account/viewing-as")).ViewingAs,
}));

/** The console, or the form by which a browser comes to be served. */
export function Shell() {
  const { session, ended, viewer } = useSession();
  const isServed = !session?.authentication || session.person !== null;
  return (
    <>
      <Suspense>{isServed || ended ? <Frame key={viewer} /> : <SignedOut session={session} />}</Suspense>
      <Suspense>{ended && session && <SignInAgain session={session} person={ended} />}</Suspense>
    </>
  );
}

function Frame() {
  const main = useRef<HTMLElement>(null);
  useFocusOnNavigation(main);
  const environment = useQuery(environmentQuery);
  const isApache = useIsApache();
  const { session, ended } = useSession();
  const person = session?.authentication ? (session.person ?? ended) : null;
  return (
    <div className={styles.shell}>
      {/* biome-ignore lint/a11y/useValidAnchor: it is a link to the content; the click also moves the focus there */}
      <a className={styles.skip} href="#main" onClick={() => main.current?.focus()}>
        Skip to content
      </a>
      <header className={styles.header}>
        <Link to="/" className={styles.brand} aria-label="Magnetar, overview">
          <Mark />
          <span>Magnetar</span>
        </Link>
        <span className={styles.cluster}>
          <ClusterSwitch environment={environment.data} /> {isApache && <Badge>Apache Pulsar</Badge>}
        </span>
        <button
          type="button"
          className={styles.search}
          onClick={openPalette}
          aria-label="Open a topic… Ctrl K"
        >
          <SearchIcon />
          <span className={styles.searchText}>Open a topic…</span>
          <kbd>Ctrl K</kbd>
        </button>
        <div className={styles.tools}>
          {(person || hasSignedIn()) && (
            <span className={styles.corner}>
              <Suspense>{person && <Corner person={person} />}</Suspense>
            </span>
          )}
          <DocumentationLink />
          <SchemeToggle />
        </div>
      </header>
      <OpenToAnyone />
      <Suspense>{person?.viewing_as && <ViewingAs person={person} />}</Suspense>
      <StatusLine />
      <nav className={styles.nav} aria-label="Main">
        <NavLinks />
        <Addresses />
      </nav>
      <main id="main" ref={main} tabIndex={-1} className={styles.main}>
        <TroubleContext value={useTrouble()}>
          <StaleContext value={useStaleSince()}>
            <Content />
          </StaleContext>
        </TroubleContext>
      </main>
      <Palette />
    </div>
  );
}

/** The page, or the reason why the cluster has nothing to show on it. */
function Content() {
  const pathname = useRouterState({ select: (state) => state.location.pathname });
  const lack = lackOfPage(pathname, useLacks());
  return lack && !/\/t\//.test(pathname) ? <NotHere why={lack} /> : <Outlet />;
}

/** The part for which a page without data waits. */
function useTrouble(): Trouble | null {
  const hop = standsInTheWay(useHealth().hops);
  const { name, reason, since, advice } = hop
    ? { name: nameOfHop(hop), ...hop }
    : { name: "", reason: "", since: 0, advice: "" };
  return useMemo(
    () => (name ? { name, reason: `${reason.replace(/\.$/, "")}, since ${time(since)}.`, advice } : null),
    [name, reason, since, advice],
  );
}

/** The time since the last numbers as text; null while they arrive. */
function useStaleSince(): string | null {
  const { stale, at } = useHealth();
  return stale && at !== null ? `No updates since ${time(at)}` : null;
}

/** A place stays marked on all pages that are part of it. */
function NavLinks() {
  const cluster = useCluster();
  const person = useSession().session?.person ?? null;
  const pathname = useRouterState({ select: (state) => state.location.pathname });
  return (
    <ul className={styles.links}>
      {places
        .filter((place) => isOffered(place, person))
        .map((place) => (
          <li key={place.label}>
            <Link to={place.path(cluster, person)} aria-current={place.holds(pathname) ? "page" : undefined}>
              <place.icon />
              {place.label}
            </Link>
          </li>
        ))}
    </ul>
  );
}

/** The addresses for clients, ready to copy. */
function Addresses() {
  const environment = useQuery(environmentQuery).data;
  if (!environment) return null;
  const addresses = [
    { label: "Broker", value: environment.broker_url },
    { label: "HTTP", value: environment.http_url },
  ];
  return (
    <dl className={styles.addresses}>
      {addresses.map(({ label, value }) => (
        <div key={label}>
          <dt>
            {label}
            {value && <Copy value={value} what={`${label} address`} />}
          </dt>
          <dd className="mono" title={value}>
            {value || "None registered"}
          </dd>
        </div>
      ))}
      <div>
        <dt>Times</dt>
        <dd>
          <TimeZone />
        </dd>
      </div>
      <div>
        <dt>Language</dt>
        <dd>
          <LanguageChoice />
        </dd>
      </div>
      <div>
        <dt>Version</dt>
        <dd className="mono">{environment.version}</dd>
      </div>
    </dl>
  );
}

/** Moves the focus to the content of another page, as after a full page load; tabs and filters keep it. */
function useFocusOnNavigation(main: { current: HTMLElement | null }): void {
  const place = useRouterState({
    select: (state) => state.location.pathname.replace(/\/(overview|subscriptions|partitions)$/, ""),
  });
  const before = useRef(place);
  useEffect(() => {
    if (before.current === place) return;
    before.current = place;
    main.current?.focus({ preventScroll: true });
  }, [place, main]);
}
