let react: () => void = () => {};

/** The reaction to an answer 401, or to a live feed that is closed for that reason. */
export function whenNotIdentified(run: () => void): void {
  react = run;
}

/** The gateway does not identify this browser, or not any more. */
export function notIdentified(): void {
  react();
}
