import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

const gateway = process.env.MAGNETAR_GATEWAY ?? "http://127.0.0.1:8080";

// The gateway serves dist/ below /static/ and answers every console route with dist/index.html.
export default defineConfig({
  base: "/static/",
  plugins: [react()],
  build: {
    target: "es2022",
    sourcemap: false,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    manifest: true,
  },
  server: {
    proxy: { "/api": { target: gateway, ws: true }, "/admin": gateway },
  },
  test: {
    environment: "node",
    include: ["src/**/*.test.{ts,tsx}"],
    setupFiles: ["testing/setup.ts"],
    restoreMocks: true,
  },
});
