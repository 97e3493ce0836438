// While the shell's code is fetched: the code of the page in the address, and the first rows of a list.
// A file of its own, because the content security policy allows no inline script.
(() => {
  const named = document.getElementById("page-files");
  for (const [pattern, files] of named ? JSON.parse(named.textContent) : []) {
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
