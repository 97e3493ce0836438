/**
 * The cluster in the address at which this page was loaded; undefined where the address names none, which means the
 * gateway's default. Links within the console stay in it: the address of another cluster is opened by a new load.
 */
export const pageCluster: string | undefined =
  typeof location === "undefined" ? undefined : clusterOf(location.pathname, location.search);

/** The query by which calls about no cluster in particular are about the page's. */
export const ofPageCluster = pageCluster === undefined ? "" : `?cluster=${encodeURIComponent(pageCluster)}`;

/** Pages outside of a cluster's paths name it in their query. */
export function clusterOf(pathname: string, search = ""): string | undefined {
  const name = /^\/c\/([^/]+)/.exec(pathname)?.[1];
  try {
    return name === undefined
      ? new URLSearchParams(search).get("cluster") || undefined
      : decodeURIComponent(name);
  } catch {
    return undefined;
  }
}

/** The address of the same page in another cluster. */
export function addressIn(
  cluster: string,
  { pathname, search }: { pathname: string; search: string },
): string {
  const place = /^\/c\/[^/]+/;
  if (place.test(pathname))
    return pathname.replace(place, () => `/c/${encodeURIComponent(cluster)}`) + search;
  const query = new URLSearchParams(search);
  query.set("cluster", cluster);
  return `${pathname}?${query}`;
}
