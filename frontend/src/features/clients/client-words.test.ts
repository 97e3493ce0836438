import { expect, test } from "vitest";
import { choiceOf, clientName, closedText, filterOfGroup, silentText } from "./client-words";

test("a client is named by its library, else by what it sent", () => {
  expect(clientName({ library: "Pulsar-Java", version: "2.10.6", sent: "x" })).toBe("Pulsar-Java 2.10.6");
  expect(clientName({ library: "", version: "", sent: "" })).toBe("not stated");
});

test("a group selects its own clients, by library and version together", () => {
  const group = { library: "Pulsar-Java", value: "2.10.6", connections: 1, producers: 0, consumers: 0 };
  expect(filterOfGroup("version", group)).toEqual({ library: "Pulsar-Java", version: "2.10.6" });
  expect(filterOfGroup("role", { ...group, library: "", value: "shop" })).toEqual({ role: "shop" });
  expect(filterOfGroup("role", { ...group, value: "" })).toBeUndefined();
});

test("brokers that did not answer are named with the reason", () => {
  expect(silentText({ brokers: 3, silent: [] })).toBe("");
  expect(silentText({ brokers: 3, silent: [{ broker: "b:1", reason: "no answer" }] })).toBe(
    "1 of 3 brokers did not answer, and their clients are not known: b:1 (no answer)",
  );
});

test("a receipt counts what was closed", () => {
  expect(closedText({ at: 1, producers: 1, consumers: 2, unacked: 0 })).toBe(
    "The connection was closed with 1 producer and 2 consumers.",
  );
  expect(choiceOf(["yes", "no"], "maybe")).toBeUndefined();
});
