// Runs while the shell's code is fetched, before the first paint: the colour scheme, and the first requests of the page in
// the address. A file of its own, because the content security policy allows no inline script.
(() => {
  // The scheme chosen last time, so that a dark page never flashes white.
  let chosen = "auto";
  try {
    chosen = localStorage.getItem("magnetar-scheme") ?? "auto";
  } catch {
    // Storage may be blocked; the system's scheme is then the right one.
  }
  const dark =
    chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.mantineColorScheme = dark ? "dark" : "light";

  // The code of the page. The plugin puts the files of the pages in place of the name.
  for (const [pattern, files] of PAGES) {
    if (!new RegExp(pattern).test(location.pathname)) continue;
    for (const href of files)
      document.head.append(
        Object.assign(document.createElement("link"), { rel: "modulepreload", crossOrigin: "", href }),
      );
  }

  // The requests of the lists that everyone may read, in their first order, as the pages make them.
  // src/api/first-answer.ts hands on the answer.
  const firstOrders = { topics: "-backlog", subscriptions: "-oldest_age", functions: "name" };
  const [, cluster, page] = /^\/c\/([^/]+)\/([a-z]+)$/.exec(location.pathname) ?? [];
  if (!Object.hasOwn(firstOrders, page ?? "") || location.search) return;
  const query = `sort=${firstOrders[page]}&offset=0&limit=100`;
  const url = new URL(`/api/v1/clusters/${cluster}/${page}?${query}`, location.origin).href;
  const answer = fetch(url, { signal: AbortSignal.timeout(15_000) });
  answer.catch(() => {}); // The page's own request reports it.
  window.firstAnswer = { url, answer };
})();
