import { ActionIcon, Tooltip, useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useRouterState } from "@tanstack/react-router";
import { useEffect, useMemo, useRef } from "react";
import { environmentQuery } from "../api/environment";
import { useHealth } from "../api/health";
import { places } from "../features";
import { time } from "../lib/format";
import { nameOfHop, standsInTheWay } from "../shared/hops";
import { useCluster } from "../shared/topic-link";
import { Copy } from "../ui/copy";
import { Mark, MoonIcon, SearchIcon, SunIcon } from "../ui/icons";
import { StaleContext, type Trouble, TroubleContext } from "../ui/states";
import { CredentialsNeeded } from "./credentials-needed";
import { OpenToAnyone } from "./open-to-anyone";
import { openPalette, Palette } from "./palette/palette";
import styles from "./shell.module.css";
import { StatusLine } from "./status-line";

/** The console, or what a browser needs that the gateway does not identify. */
export function Shell() {
  const { identified } = useHealth();
  return identified ? <Frame /> : <CredentialsNeeded />;
}

function Frame() {
  const main = useRef<HTMLElement>(null);
  useFocusOnNavigation(main);
  const environment = useQuery(environmentQuery);
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
        <span className={styles.cluster} title="Cluster">
          {environment.data?.cluster ?? "…"}
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
          <SchemeToggle />
        </div>
      </header>
      <OpenToAnyone />
      <StatusLine />
      <nav className={styles.nav} aria-label="Main">
        <NavLinks />
        <Addresses />
      </nav>
      <main id="main" ref={main} tabIndex={-1} className={styles.main}>
        <TroubleContext value={useTrouble()}>
          <StaleContext value={useStaleSince()}>
            <Outlet />
          </StaleContext>
        </TroubleContext>
      </main>
      <Palette />
    </div>
  );
}

/** What a page that has nothing to show waits for. */
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

/** Since when no numbers come, in words; null while they do. */
function useStaleSince(): string | null {
  const { stale, at } = useHealth();
  return stale && at !== null ? `No updates since ${time(at)}` : null;
}

/** A place stays marked on all pages that are part of it. */
function NavLinks() {
  const cluster = useCluster();
  const pathname = useRouterState({ select: (state) => state.location.pathname });
  return (
    <ul className={styles.links}>
      {places.map((place) => (
        <li key={place.label}>
          <Link to={place.path(cluster)} aria-current={place.holds(pathname) ? "page" : undefined}>
            <place.icon />
            {place.label}
          </Link>
        </li>
      ))}
    </ul>
  );
}

/** What a client needs to connect, ready to copy. */
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
        <dt>Version</dt>
        <dd className="mono">{environment.version}</dd>
      </div>
    </dl>
  );
}

function SchemeToggle() {
  const { setColorScheme } = useMantineColorScheme();
  const scheme = useComputedColorScheme("light");
  const next = scheme === "dark" ? "light" : "dark";
  return (
    <Tooltip label={`Switch to ${next}`}>
      <ActionIcon onClick={() => setColorScheme(next)} aria-label={`Switch to ${next} colours`}>
        {scheme === "dark" ? <SunIcon /> : <MoonIcon />}
      </ActionIcon>
    </Tooltip>
  );
}

/** On another page the focus starts at its content, as after a full page load; tabs and filters keep it. */
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
