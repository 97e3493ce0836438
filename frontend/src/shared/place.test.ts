import { expect, test } from "vitest";
import type { Person } from "../api/session/calls";
import { isOffered, type Place } from "./place";

const place: Place = { label: "Pages", icon: () => null, path: () => "/", holds: () => false };
const forReaders = { ...place, isFor: ({ reads_everything }: Person) => reads_everything };
const person = { reads_everything: true } as Person;

test("places of those who read everything are offered to them alone", () => {
  expect(isOffered(forReaders, person)).toBe(true);
  expect(isOffered(forReaders, { ...person, reads_everything: false })).toBe(false);
  expect(isOffered(forReaders, null)).toBe(false);
  expect(isOffered({ ...forReaders, isForAnyone: true }, null)).toBe(true);
});

test("other places are offered to everybody", () => {
  expect(isOffered(place, null)).toBe(true);
  expect(isOffered(place, { ...person, reads_everything: false })).toBe(true);
});
