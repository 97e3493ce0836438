import { afterEach, beforeEach, expect, test, vi } from "vitest";
import sentences from "../../../translation/sentences.json";

async function inGerman(own: Record<string, string> = sentences) {
  vi.resetModules();
  const stored = JSON.stringify({ version: "1", words: {}, sentences: own });
  vi.stubGlobal("localStorage", { getItem: () => stored });
  const { translated } = await import("./sentences");
  return translated;
}

beforeEach(() => vi.stubGlobal("localStorage", { getItem: () => null }));
afterEach(() => vi.unstubAllGlobals());

test("sentences stay English in the English console", async () => {
  vi.resetModules();
  const { localized, translated } = await import("./sentences");
  expect(translated("has no consumer")).toBe(null);
  expect(localized("has no consumer")).toBe("has no consumer");
});

test("a sentence with values is German with the values in their places, and numbers with German signs", async () => {
  const translated = await inGerman({
    "{n} of {n2} messages wait since {time}": "seit {time} warten {n} von {n2} Nachrichten",
  });
  expect(translated("1,500 of 2,000.5 messages wait since 2026-11-28T13:00:00Z")).toBe(
    "seit 2026-11-28T13:00:00Z warten 1.500 von 2.000,5 Nachrichten",
  );
  expect(translated("many of 2 messages wait since 12:03:11")).toBe(null);
});

test("a capital at the begin and a stop at the end may differ", async () => {
  const translated = await inGerman({
    "start a broker": "einen Broker starten",
    "Stop {name}.": "{name} anhalten.",
  });
  expect(translated("Start a broker.")).toBe("Einen Broker starten.");
  expect(translated("start a broker")).toBe("einen Broker starten");
  expect(translated("stop b-1")).toBe("b-1 anhalten");
});

test("a name of JavaScript's own is a name as any other", async () => {
  expect((await inGerman())("constructor has no consumer")).toBe("constructor hat keinen Consumer");
});

test("a text of several sentences is German only if each of them is", async () => {
  const translated = await inGerman({ "It waits": "Es wartet", "{n} topics": "{n} Topics", note: "Notiz" });
  expect(translated("It waits. It waits.")).toBe("Es wartet. Es wartet.");
  expect(translated("5 topics · note; note\nIt waits")).toBe("5 Topics · Notiz; Notiz\nEs wartet");
  expect(translated("It waits. It runs.")).toBe(null);
  expect(translated("5 topics · nothing")).toBe(null);
});

test("a hole of words takes only what has German itself", async () => {
  const translated = await inGerman({ "{name} {state}": "{name} {state}", "is late": "ist spät", It: "Es" });
  expect(translated("orders is late")).toBe("orders ist spät");
  expect(translated("It is late")).toBe("Es ist spät");
  expect(translated("orders is early")).toBe(null);
});

test("a text that is no sentence of the gateway, however long, stays as it is", async () => {
  const translated = await inGerman();
  const begun = performance.now();
  for (const text of [
    "a ".repeat(900),
    "1 a ".repeat(450),
    "a: ".repeat(600),
    "x · ".repeat(400),
    "y".repeat(9_000),
  ])
    expect(translated(text)).toBe(null);
  expect(performance.now() - begun).toBeLessThan(5_000);
});

test("an element loses its mark with German for all its texts, and keeps it as a whole without", async () => {
  await inGerman({ "has no consumer": "hat keinen Consumer", "{n} messages": "{n} Nachrichten" });
  const { shown } = await import("../jsx/shown");
  const given = {
    lang: "en",
    title: "has no consumer\n5 messages",
    children: [" · ", "has no consumer", null],
  };
  expect(shown(given)).toEqual({
    title: "hat keinen Consumer\n5 Nachrichten",
    children: [" · ", "hat keinen Consumer", null],
  });
  for (const kept of [{ ...given, title: "unknown" }, { ...given, children: ["unknown"] }, { lang: "en" }])
    expect(shown(kept)).toEqual(kept);
});

test.each([
  ["orders/audit has no consumer", "orders/audit hat keinen Consumer"],
  [
    "It is slower than arrivals by ≈ 12.5 messages/s",
    "Sie ist um ≈ 12,5 Nachrichten/s langsamer als der Zugang",
  ],
  [
    "1,204 subscriptions have no consumer: at least ≈ 3,400,000 messages (120,000 entries)",
    "1.204 Subscriptions haben keinen Consumer: mindestens ≈ 3.400.000 Nachrichten (120.000 Einträge)",
  ],
  [
    "backlog of 1,500 messages, growing by 10 messages/s · no consumer since 2026-11-28T13:00:00Z · in 4 partitions",
    "Rückstand von 1.500 Nachrichten, wächst um 10 Nachrichten/s · kein Consumer seit 2026-11-28T13:00:00Z · in 4 Partitionen",
  ],
  [
    "backlog of 40 messages · consumer-1: 40 unacknowledged of at most 40, last acknowledged 3 days ago",
    "Rückstand von 40 Nachrichten · consumer-1: 40 von höchstens 40 unbestätigt, zuletzt vor 3 Tagen bestätigt",
  ],
  ["public/default/orders · 5 messages", "public/default/orders · 5 Nachrichten"],
  [
    "2 of 3 bookies are writable; publishing needs 2, a new ledger 3",
    "2 von 3 Bookies sind beschreibbar; Veröffentlichen braucht 2, ein neuer Ledger 3",
  ],
  [
    "300 of 310 clients disconnected when broker broker-2 stopped answering; none has reconnected",
    "300 von 310 Clients getrennt, als Broker broker-2 nicht mehr antwortete; keiner hat sich wieder verbunden",
  ],
  [
    "Check that its process is running and read the end of its log, then start it again. No other broker can serve its topics: they are not served until one is back.",
    "Prüfen, ob sein Prozess läuft, das Ende seines Logs lesen und ihn dann wieder starten. Kein anderer Broker kann seine Topics bedienen: Sie werden erst wieder bedient, wenn einer zurück ist.",
  ],
  [
    "role app lacks produce on persistent://public/default/orders; a tenant admin of public can grant it",
    "Rolle app fehlt produce auf persistent://public/default/orders; ein Tenant-Administrator von public kann es gewähren",
  ],
  [
    "boss is a superuser, by the setting super_user_roles; produce is granted to boss on public/default",
    "boss ist Superuser, durch die Einstellung super_user_roles; produce ist boss auf public/default gewährt",
  ],
  ["limit: must be a whole number from 1 to 1000", "limit: muss eine ganze Zahl von 1 bis 1000 sein"],
  [
    "rate: Ensure this value is less than or equal to 100000.",
    "rate: Dieser Wert darf höchstens 100000 sein.",
  ],
  [
    "password: This password is too short. It must contain at least 10 characters. This password is too common.",
    "password: Dieses Passwort ist zu kurz. Es muss mindestens 10 Zeichen haben. Dieses Passwort ist zu verbreitet.",
  ],
  [
    "Another value is stored since the preview; nothing was changed",
    "Seit der Vorschau ist ein anderer Wert gespeichert; nichts wurde geändert",
  ],
  [
    "Subscription ship of persistent://public/default/orders is behind by 1,500 messages, the oldest of them 3 h old (20 kB). 1,200 entries were sent to its 2 consumers, most to c-1 (900).",
    "Subscription ship von persistent://public/default/orders liegt zurück: 1.500 Nachrichten (20 kB), Alter der ältesten Nachricht: 3 h. 1.200 Einträge wurden gesendet (2 Consumer), die meisten an c-1 (900).",
  ],
  [
    "Retention needs, with all copies, 1.5 GB for 7, 6 GB for 30, 18 GB for 90 days.",
    "Die Aufbewahrung braucht, mit allen Kopien, 1,5 GB für 7, 6 GB für 30, 18 GB für 90 Tage.",
  ],
  [
    "Group 1: 12 of 20 messages (60 %) come from persistent://public/default/orders, subscription ship; they have the reason “timeout”.",
    "Gruppe 1: 12 von 20 Nachrichten (60 %) kommen von persistent://public/default/orders, Subscription ship; sie haben den Grund „timeout“.",
  ],
  [
    "150 messages found; 2,000 messages scanned in 40 entries, which is all of the selection.",
    "Gefunden: 150 Nachrichten; durchsucht: 2.000 Nachrichten (in: 40 Einträge); das ist die ganze Auswahl.",
  ],
  [
    "order.total is a string instead of a number, first in message 3:4 of producer p-1; so in 5 messages, 12 % of all.",
    "order.total ist ein Text, nicht eine Zahl, zuerst in Nachricht 3:4 von Producer p-1; so in 5 Nachrichten, 12 % von allen.",
  ],
])("%s", async (english, german) => {
  expect((await inGerman())(english)).toBe(german);
});
