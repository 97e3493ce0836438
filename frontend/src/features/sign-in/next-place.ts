const START = "/";
/** A page of a sign-in would lead to itself. */
const SIGN_IN = /^\/(sign-in|set-up)(\/|$)/;

/** The page to open after signing in: a path of this origin, else the start. */
export function nextPlace(wanted: string | undefined, origin = location.origin): string {
  // Browsers read "/\host" as "//host", and leave tabs and line ends out.
  if (!wanted?.startsWith("/") || /[\\\p{Cc}]/u.test(wanted)) return START;
  const url = new URL(wanted, origin);
  // "/..//host" is "//host" by now.
  if (url.origin !== origin || url.pathname.startsWith("//") || SIGN_IN.test(url.pathname)) return START;
  return url.pathname + url.search + url.hash;
}
