// Changes of functions, sources and sinks as command lines.

import type { operations } from "../../api/schema";
import { type Commands, line, path } from "./shell";

interface FunctionAt {
  component: "function" | "source" | "sink";
  tenant: string;
  namespace: string;
  name: string;
}

const restOf = ({ component, tenant, namespace, name }: FunctionAt, ...below: string[]) =>
  `/admin/v3/${component}s/${path(tenant, namespace, name, ...below)}`;
const nameFlags = ({ tenant, namespace, name }: FunctionAt) =>
  ["--tenant", tenant, "--namespace", namespace, "--name", name] as const;

/** The same words for both tools, which have the same commands and flags. */
function commands(at: FunctionAt, verb: string, words: string[], request: string): Commands {
  const all = [`${at.component}s`, verb, ...nameFlags(at), ...words];
  return { curl: request, pulsarctl: line("pulsarctl", ...all), pulsarAdmin: line("pulsar-admin", ...all) };
}

const call = (method: string, address: string, ...words: string[]) =>
  line("curl", "-f", "-X", method, ...words, `${location.origin}${address}`);

export const FUNCTION_COMMANDS = {
  runFunction: (
    at: FunctionAt,
    { verb, instance }: { verb: "start" | "stop" | "restart"; instance?: number | null },
  ) => {
    const one = instance === undefined || instance === null ? [] : [String(instance)];
    return commands(
      at,
      verb,
      one.flatMap((number) => ["--instance-id", number]),
      call("POST", restOf(at, ...one, verb)),
    );
  },
  deleteFunction: (at: FunctionAt) => commands(at, "delete", [], call("DELETE", restOf(at))),
  /** The config is read from a file: config.json. */
  deployFunction: (
    at: FunctionAt,
    { isNew, file, archive }: { isNew: boolean; file?: string | undefined; archive?: string | undefined },
  ) => {
    const code = file
      ? [at.component === "function" ? "--py" : "--archive", file]
      : archive
        ? ["--archive", archive]
        : [];
    const part = file ? ["-F", `data=@${file}`] : archive ? ["-F", `url=${archive}`] : [];
    return commands(
      at,
      isNew ? "create" : "update",
      [`--${at.component}-config-file`, "config.json", ...code],
      call(
        isNew ? "POST" : "PUT",
        restOf(at),
        ...["-F", `${at.component}Config=@config.json;type=application/json`, ...part],
      ),
    );
  },
} satisfies Partial<Record<keyof operations, unknown>>;
