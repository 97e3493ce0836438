/**
 * The cluster in the address at which this page was loaded; undefined where the address names none, which means the
 * gateway's default. Links within the console stay in it: the address of another cluster is opened by a new load.
 */
export const pageCluster: string | undefined = clusterOf(
  typeof location === "undefined" ? "/" : location.pathname,
);

/** The query by which calls about no cluster in particular are about the page's. */
export const ofPageCluster = pageCluster === undefined ? "" : `?cluster=${encodeURIComponent(pageCluster)}`;

export function clusterOf(pathname: string): string | undefined {
  const name = /^\/c\/([^/]+)/.exec(pathname)?.[1];
  try {
    return name === undefined ? undefined : decodeURIComponent(name);
  } catch {
    return undefined;
  }
}
