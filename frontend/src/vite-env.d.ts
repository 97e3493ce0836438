/// <reference types="vite/client" />

/** A digest of the translation, set by the build. */
declare const __WORDS_VERSION__: string;
