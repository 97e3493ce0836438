// Records in `window.received` which canary texts the gateway sends to this page by HTTP and by WebSocket, besides those
// that the page's request has named, and which calls it refuses.
(() => {
  const CANARY = /canary-t\d-[a-z0-9]+/g;
  const canaries = (text) => {
    const plain = text.match(CANARY) ?? [];
    if (!text.includes("canary%2D") && !text.includes("%")) return new Set(plain);
    try {
      return new Set([...plain, ...(decodeURIComponent(text).match(CANARY) ?? [])]);
    } catch {
      return new Set(plain);
    }
  };
  const texts = new Map();
  const note = (request, text) => {
    const named = canaries(request);
    for (const canary of canaries(text))
      if (!named.has(canary)) texts.set(request, (texts.get(request) ?? new Set()).add(canary));
  };
  let open = 0;
  let calls = 0;
  let refused = [];
  window.received = {
    canaries: (text) => [...canaries(text)],
    isQuiet: () => open === 0,
    calls: () => calls,
    /** What was received since the last call of it. */
    take: () => {
      const taken = { texts: [...texts].map(([request, of]) => [request, [...of]]), refused };
      texts.clear();
      refused = [];
      return taken;
    },
  };

  const fetched = window.fetch;
  window.fetch = async (input, init) => {
    open += 1;
    calls += 1;
    try {
      const request = new Request(input, init);
      const sent = request.method === "GET" ? "" : await request.clone().text();
      const { pathname, search } = new URL(request.url);
      const call = `${request.method} ${pathname}${search} ${sent}`;
      const answer = await fetched(request);
      const body = await answer.clone().text();
      note(call, `${[...answer.headers].join("\n")}\n${body}`);
      if (answer.status >= 400) refused.push([call, answer.status, body]);
      return answer;
    } finally {
      open -= 1;
    }
  };

  window.WebSocket = class extends WebSocket {
    constructor(...given) {
      super(...given);
      const sent = new Map();
      this.send = (text) => {
        // A push may still arrive after its channel was left.
        const { op, id } = JSON.parse(text);
        if (op === "subscribe") sent.set(id, text);
        super.send(text);
      };
      this.addEventListener("message", ({ data }) => note(`pushed ${sent.get(JSON.parse(data).id) ?? ""}`, data));
    }
  };
})();
