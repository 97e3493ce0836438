import type { FunctionPlace } from "./function-queries";

/** The address of the page of a function, source or sink. */
export function functionPath({ cluster, component, tenant, namespace, name }: FunctionPlace): string {
  const place = [component, tenant, namespace, name].map(encodeURIComponent).join("/");
  return `/c/${encodeURIComponent(cluster)}/functions/${place}`;
}
