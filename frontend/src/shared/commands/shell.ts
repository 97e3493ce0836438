// Command lines for a POSIX shell, of their words.

/** A command, or why there is none. */
export type Line = string | { why: string };

export interface Commands {
  curl: Line;
  pulsarctl: Line;
  pulsarAdmin: Line;
  /** The command of pulsar-client, which only clients' operations have. */
  client?: Line;
  python?: Line;
}

export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;
}

/** A command of its words; one that is empty or false is left out, an empty argument is written `""`. */
export function line(...words: (string | false | undefined)[]): string {
  return words
    .filter((word): word is string => typeof word === "string")
    .map((word) => (word === "" ? '""' : quoted(word)))
    .join(" ");
}

/** A call of the REST interface at this address, with a JSON body if any. */
export function curl(method: string, path: string, body?: unknown): string {
  const json = body === undefined ? [] : ["-H", "Content-Type: application/json", "-d", JSON.stringify(body)];
  return line("curl", "-f", "-X", method, ...json, `${location.origin}${path}`);
}

/** Segments of a path, each percent-encoded. */
export function path(...segments: string[]): string {
  return segments.map(encodeURIComponent).join("/");
}

/** The credential in files: on a command line, other users of the machine would see it. */
const CREDENTIALS = {
  curl: '-H "@$PULSAR_HEADER_FILE"',
  pulsarctl: '--token-file "$PULSAR_TOKEN_FILE"',
  "pulsar-client":
    '--auth-plugin org.apache.pulsar.client.impl.auth.AuthenticationToken --auth-params "file://$PULSAR_TOKEN_FILE"',
  "pulsar-admin":
    '--auth-plugin org.apache.pulsar.client.impl.auth.AuthenticationToken --auth-params "file://$PULSAR_TOKEN_FILE"',
};

/** The commands of a line with the credential that an instance asks for, by reference: a copied line holds no secret. */
export function withCredential(text: string): string {
  return text.replace(
    /(^|\n *|&& |\| |do )(curl|pulsarctl|pulsar-admin|pulsar-client) /g,
    (_, before: string, tool: keyof typeof CREDENTIALS) => `${before}${tool} ${CREDENTIALS[tool]} `,
  );
}
