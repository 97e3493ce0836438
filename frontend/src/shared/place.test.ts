import { expect, test } from "vitest";
import type { Person } from "../api/session/calls";
import { isOffered, type Place } from "./place";

const place: Place = { label: "Pages", icon: () => null, path: () => "/", holds: () => false };
const forSuperusers = { ...place, isFor: ({ superuser }: Person) => superuser };
const person = { superuser: true, viewing_as: null } as Person;

test("places of superusers are offered to them alone, and not while they view as a role", () => {
  expect(isOffered(forSuperusers, person)).toBe(true);
  expect(isOffered(forSuperusers, { ...person, superuser: false })).toBe(false);
  expect(isOffered(forSuperusers, { ...person, viewing_as: "billing" })).toBe(false);
  expect(isOffered(forSuperusers, null)).toBe(false);
});

test("other places are offered to everybody", () => {
  expect(isOffered(place, null)).toBe(true);
  expect(isOffered(place, { ...person, viewing_as: "billing" })).toBe(true);
});
