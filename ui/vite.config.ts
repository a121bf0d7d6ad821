/**
 * The dashboard, built into `dist/ui`. `npm run dev:ui` serves the sources, and passes requests of the API on to
 * `umbra serve` (UMBRA_URL, default http://127.0.0.1:7070).
 */
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import tailwind from "@tailwindcss/vite"
import { defineConfig, type Plugin } from "vite"
import { withoutUnusedParts } from "./react-parts.ts"

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url))
const server = process.env.UMBRA_URL ?? "http://127.0.0.1:7070"
/** The routes of the API that the dashboard uses. */
const routes = [
  "artifacts",
  "failures",
  "waits",
  "executions",
  "engines",
  "providers",
  "workers",
  "bulk",
  "jobs",
  "workflows",
  "session",
  "schedules",
  "tokens",
  "ready",
  "health",
  "docs",
  "openapi.json",
]

const { version } = JSON.parse(readFileSync(path("../package.json"), "utf8")) as { version: string }

/** The server adds it to the built page. */
const baseOfPages: Plugin = {
  name: "base-of-pages",
  apply: "serve",
  transformIndexHtml: html => html.replace("<head>", '<head><base href="/" />'),
}

/**
 * React is CommonJS, so each element would be written as `(0, runtime.jsx)(…)`. Constants of a module have short names, and
 * `jsxs` is `jsx` in production: 25 KB less script.
 */
const elements: Plugin = {
  name: "elements",
  apply: "build",
  enforce: "pre",
  resolveId: (source, importer) =>
    source === "react/jsx-runtime" && importer?.startsWith(path("src/")) ? "\0elements" : null,
  load: id =>
    id === "\0elements"
      ? `import * as runtime from "react/jsx-runtime"
         export const { Fragment, jsx } = runtime
         export const jsxs = jsx`
      : null,
}

/** The client of queries creates a cache of mutations, and the dashboard has none: 1 KB less script. */
const withoutMutations: Plugin = {
  name: "without-mutations",
  apply: "build",
  load: id =>
    id.endsWith("/query-core/build/modern/mutationCache.js")
      ? `export class MutationCache {
           clear() {}
           resumePausedMutations() { return Promise.resolve() }
         }`
      : null,
}

/**
 * What several pages use is one file: in many small ones each would repeat its imports, and is compressed by itself. 1.6 KB
 * less script. Forms are no part of it: the list and the page of a job have none.
 */
const shared = { name: "shared", test: /ui\/src\/(?!schema-form|workflows|answer|bulk)/, minShareCount: 2 }

/** So do pages that are seldom the first one: 5 KB less script. */
const together = [
  { name: "admin", test: /ui\/src\/(settings|capacity|schedules)\// },
  { name: "changed", test: /ui\/src\/(fork|compare)\// },
  { name: "forms", test: /ui\/src\/(schema-form|answer|bulk)\// },
  { name: "pipeline", test: /ui\/src\/pipeline\// },
  { name: "over", test: /ui\/src\/shell\/(palette|key-sheet)/ },
].map(group => ({ ...group, includeDependenciesRecursively: false }))

/** dagre exports algorithms on graphs and a JSON format, which nothing here uses and which it does not need itself: 2 KB less script. */
const withoutAlgorithms: Plugin = {
  name: "without-algorithms",
  apply: "build",
  transform: (code, id) => {
    if (!id.includes("/@dagrejs/dagre/")) return null
    const lists = /(?<=\w\(\w+,\{)(read:\(\)=>|CycleException:\(\)=>)[^}]*(?=\}\))/g
    if (code.match(lists)?.length !== 2) throw new Error("dagre has another form: adapt withoutAlgorithms.")
    return { code: code.replace(lists, ""), map: null }
  },
}

export default defineConfig(({ mode }) => ({
  root: path("."),
  // Relative: the same files are served below any path (`--base-path`).
  base: "./",
  plugins: [tailwind(), baseOfPages, elements, withoutUnusedParts, withoutMutations, withoutAlgorithms],
  oxc: { jsx: { runtime: "automatic" } },
  worker: { format: "es", plugins: () => [withoutAlgorithms] },
  // The server of the same package serves it.
  define: { __UMBRA_VERSION__: JSON.stringify(version) },
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
        : { input: path("index.html"), output: { codeSplitting: { groups: [shared, ...together] } } }),
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
