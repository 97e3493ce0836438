import { expect, test } from "vitest";
import { auditSearch, filterOf, placeOf } from "./search";

test("a place is a tenant, a namespace or a topic by the parts of its name", () => {
  expect(placeOf(" acme ")).toEqual({ tenant: "acme" });
  expect(placeOf("acme/")).toEqual({ tenant: "acme" });
  expect(placeOf("acme/billing")).toEqual({ namespace: "acme/billing" });
  expect(placeOf("acme/billing/orders")).toEqual({ topic: "persistent://acme/billing/orders" });
  expect(placeOf("non-persistent://a/b/c")).toEqual({ topic: "non-persistent://a/b/c" });
  expect(placeOf("")).toEqual({});
});

test("a broken parameter of the address is left out", () => {
  const search = auditSearch.parse({ actor: "ada", status: "9", method: "HEAD", from: "soon", where: "a/b" });
  expect(filterOf(search)).toEqual({ actor: "ada", namespace: "a/b" });
  expect(filterOf(auditSearch.parse({ status: "403", to: "17" }))).toEqual({ status: "403", to: "17" });
});
