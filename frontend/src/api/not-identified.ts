let react: () => void = () => {};

/** What to do when the gateway answers a call with 401, or closes the live feed for that reason. */
export function whenNotIdentified(run: () => void): void {
  react = run;
}

/** The gateway does not identify this browser, or not any more. */
export function notIdentified(): void {
  react();
}
