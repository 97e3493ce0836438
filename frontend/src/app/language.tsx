import { chooseLanguage, LANGUAGE, type Language } from "../lib/words";

/** The language of the console's own texts; those of the gateway are English. */
export function LanguageChoice() {
  return (
    <select
      aria-label="Language"
      value={LANGUAGE}
      onChange={(event) => void chooseLanguage(event.currentTarget.value as Language)}
    >
      <option value="en" lang="en">
        English
      </option>
      <option value="de" lang="de">
        Deutsch
      </option>
    </select>
  );
}
