/**
 * The dashboard, built into `dist/ui`. `npm run dev:ui` serves the sources, and passes requests of the API on to
 * `umbra serve` (UMBRA_URL, default http://127.0.0.1:7070).
 */
import { fileURLToPath } from "node:url"
import tailwind from "@tailwindcss/vite"
import { defineConfig, type Plugin } from "vite"

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url))
const server = process.env.UMBRA_URL ?? "http://127.0.0.1:7070"
/** The routes of the API that the dashboard uses. */
const routes = [
  "failures",
  "waits",
  "workers",
  "bulk",
  "jobs",
  "workflows",
  "session",
  "health",
  "docs",
  "openapi.json",
]

/** The server adds it to the built page. */
const baseOfPages: Plugin = {
  name: "base-of-pages",
  apply: "serve",
  transformIndexHtml: html => html.replace("<head>", '<head><base href="/" />'),
}

export default defineConfig(({ mode }) => ({
  root: path("."),
  // Relative: the same files are served below any path (`--base-path`).
  base: "./",
  plugins: [tailwind(), baseOfPages],
  oxc: { jsx: { runtime: "automatic" } },
  worker: { format: "es" },
  build: {
    // The report is built by itself, in one file; scripts/bundle-ui.ts puts that into its page.
    outDir: path(mode === "report" ? "../dist/ui/report" : "../dist/ui"),
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    copyPublicDir: mode !== "report",
    rollupOptions: {
      ...(mode === "report"
        ? { input: path("report.html"), output: { codeSplitting: false } }
        : { input: path("index.html") }),
      onwarn: (warning, warn) => {
        // "use client" in a library means nothing here.
        if (warning.code !== "MODULE_LEVEL_DIRECTIVE") warn(warning)
      },
    },
  },
  server: {
    host: "127.0.0.1",
    proxy: {
      [`^/(${routes.join("|")})(/|\\?|$)`]: {
        target: server,
        // Pages of the dashboard have the same paths as some routes of the API.
        bypass: ({ headers, url }) => (headers.accept?.includes("text/html") ? url : undefined),
        configure: proxy => proxy.on("proxyReq", request => request.removeHeader("origin")),
      },
    },
  },
}))
