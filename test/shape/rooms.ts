/**
 * The rooms of `src/` and what a line in each may import. A room is a folder, or a file at the top (`errors`,
 * `index`). To open a door, add a name here and say in the commit why; the table must stay free of cycles.
 */
import { posix } from "node:path"
import { importsOf } from "./imports.ts"

export interface Room {
  readonly rooms: readonly string[]
  /** Packages by name; `node:*` for all of Node's own modules. */
  readonly packages: readonly string[]
}

const schemas = ["zod", "@standard-schema/spec"]

export const rooms: Readonly<Record<string, Room>> = {
  errors: { rooms: [], packages: [] },
  failpoints: { rooms: [], packages: [] },
  log: { rooms: [], packages: [] },
  thread: { rooms: [], packages: ["node:*"] },
  turns: { rooms: [], packages: [] },
  "process-identity": { rooms: [], packages: ["node:*"] },
  "sync-folders": { rooms: [], packages: ["node:*"] },
  settings: { rooms: ["errors"], packages: [] },
  roles: { rooms: ["errors", "settings"], packages: [] },
  metrics: { rooms: [], packages: [] },
  version: { rooms: [], packages: ["node:fs"] },
  trace: { rooms: [], packages: ["@opentelemetry/api"] },
  core: { rooms: [], packages: [] },
  template: { rooms: ["core", "errors"], packages: [] },
  // node:vm only as a timer around our own code: src/definition/input/deadline.ts.
  definition: {
    rooms: ["core", "template", "errors", "thread", "turns"],
    packages: [
      ...schemas,
      "yaml",
      "@cfworker/json-schema",
      "re2js",
      "node:crypto",
      "node:vm",
      "node:worker_threads",
    ],
  },
  // Pure: calendar and policy of schedules.
  schedule: { rooms: ["core", "errors", "template", "turns"], packages: ["zod"] },
  journal: {
    rooms: ["core", "errors", "log", "settings", "sync-folders", "thread", "process-identity"],
    packages: ["pg", "@photostructure/sqlite", "node:*"],
  },
  // Content of artifacts: a folder, or a bucket.
  artifacts: {
    rooms: ["core", "errors", "failpoints", "journal", "settings", "sync-folders"],
    packages: ["aws4fetch", "node:*"],
  },
  broker: {
    rooms: ["core", "errors", "failpoints", "log", "process-identity", "settings", "metrics"],
    packages: ["node:*"],
  },
  worker: {
    rooms: [
      "artifacts",
      "core",
      "template",
      "definition",
      "broker",
      "errors",
      "log",
      "settings",
      "thread",
      "trace",
      "process-identity",
    ],
    packages: [...schemas, "jiti", "node:*"],
  },
  engine: {
    rooms: [
      "core",
      "template",
      "definition",
      "journal",
      "broker",
      "schedule",
      "errors",
      "failpoints",
      "log",
      "settings",
      "metrics",
      "thread",
      "trace",
      "turns",
      "process-identity",
    ],
    packages: ["node:*"],
  },
  // What callers see of jobs and workflows.
  jobs: {
    rooms: [
      "artifacts",
      "core",
      "template",
      "definition",
      "journal",
      "broker",
      "engine",
      "schedule",
      "errors",
      "log",
      "settings",
      "trace",
      "turns",
    ],
    packages: ["node:*"],
  },
  feed: {
    rooms: ["core", "definition", "journal", "engine", "jobs", "errors", "log", "settings", "turns"],
    packages: [],
  },
  // Types alone, but for core/view/live-view.ts (test/client/browser.test.ts): a browser loads nothing else of these rooms.
  client: {
    rooms: ["core", "definition", "journal", "engine", "jobs", "pipeline", "schedule"],
    packages: [],
  },
  // Speaks to external services on behalf of the engine, with the worker's guards around requests and secrets.
  provider: {
    rooms: [
      "artifacts",
      "core",
      "template",
      "definition",
      "journal",
      "worker",
      "engine",
      "jobs",
      "errors",
      "log",
      "settings",
      "trace",
    ],
    packages: ["zod", "yaml", "node:*"],
  },
  // Runs the executions that the engine's jobs are, with the worker's guards around requests, secrets and modules.
  pipeline: {
    rooms: [
      "core",
      "template",
      "definition",
      "journal",
      "broker",
      "worker",
      "engine",
      "jobs",
      "errors",
      "log",
      "settings",
      "sync-folders",
      "trace",
    ],
    packages: [...schemas, "pg", "node:*"],
  },
  testing: { rooms: ["core", "journal", "engine", "jobs", "provider", "failpoints"], packages: ["node:*"] },
  "umbra-options": {
    rooms: [
      "artifacts",
      "broker",
      "worker",
      "engine",
      "jobs",
      "pipeline",
      "provider",
      "feed",
      "log",
      "roles",
    ],
    packages: [],
  },
  wiring: {
    rooms: [
      "artifacts",
      "definition",
      "journal",
      "broker",
      "worker",
      "engine",
      "jobs",
      "pipeline",
      "provider",
      "feed",
      "log",
      "roles",
      "umbra-options",
      "version",
    ],
    packages: [],
  },
  umbra: {
    rooms: [
      "artifacts",
      "core",
      "definition",
      "journal",
      "broker",
      "worker",
      "engine",
      "jobs",
      "pipeline",
      "provider",
      "feed",
      "errors",
      "roles",
      "schedule",
      "trace",
      "umbra-options",
      "wiring",
    ],
    packages: [],
  },
  "open-worker": {
    rooms: [
      "artifacts",
      "broker",
      "engine",
      "jobs",
      "errors",
      "log",
      "pipeline",
      "provider",
      "version",
      "worker",
    ],
    packages: [],
  },
  index: {
    rooms: [
      "artifacts",
      "broker",
      "core",
      "definition",
      "worker",
      "engine",
      "feed",
      "jobs",
      "journal",
      "pipeline",
      "provider",
      "errors",
      "log",
      "open-worker",
      "roles",
      "schedule",
      "umbra",
    ],
    packages: [],
  },
  server: {
    rooms: [
      "artifacts",
      "core",
      "definition",
      "journal",
      "engine",
      "jobs",
      "feed",
      "pipeline",
      "schedule",
      "errors",
      "log",
      "roles",
      "settings",
      "metrics",
      "trace",
      "turns",
      "umbra",
    ],
    packages: [
      "fastify",
      "fastify-type-provider-zod",
      "@fastify/static",
      "@fastify/swagger",
      "jose",
      "prom-client",
      "zod",
      "node:*",
    ],
  },
  cli: {
    rooms: [
      "artifacts",
      "broker",
      "core",
      "client",
      "definition",
      "journal",
      "open-worker",
      "worker",
      "engine",
      "jobs",
      "feed",
      "pipeline",
      "provider",
      "errors",
      "log",
      "roles",
      "schedule",
      "server",
      "settings",
      "umbra",
      "version",
    ],
    packages: ["commander", "picocolors", "yaml", "node:*"],
  },
}

/** `src/core/graph.ts` → `core`, `src/errors.ts` → `errors` */
const roomOf = (file: string): string => (file.split("/")[1] ?? "").replace(/\.[a-z.]+$/, "")

/** What the file imports and may not, each with the line and the way out. */
export function forbiddenImports(file: string, text: string, table = rooms): readonly string[] {
  const name = roomOf(file)
  const room = table[name]
  if (!room) return [`${file}: room "${name}" is not in the table of test/shape/rooms.ts, add it there`]
  return importsOf(file, text).flatMap(({ specifier, line }) => {
    const refusal = specifier.startsWith(".")
      ? refuseFile({ file, specifier, name, room })
      : refusePackage({ specifier, name, room })
    return refusal === null ? [] : [`${file}:${line} imports ${specifier}: ${refusal}`]
  })
}

interface Step {
  readonly file: string
  readonly specifier: string
  readonly name: string
  readonly room: Room
}

function refuseFile({ file, specifier, name, room }: Step): string | null {
  const target = posix.join(posix.dirname(file), specifier)
  if (!target.startsWith("src/")) return target === "package.json" ? null : "src imports nothing outside src"
  const other = roomOf(target)
  if (other === name || room.rooms.includes(other)) return null
  return `${name} may import ${room.rooms.join(", ") || "no other room"}`
}

function refusePackage({ specifier, name, room }: Omit<Step, "file">): string | null {
  const parts = specifier.split("/")
  const packageName = specifier.startsWith("@") ? parts.slice(0, 2).join("/") : (parts[0] ?? "")
  const allowed = specifier.startsWith("node:")
    ? room.packages.includes("node:*") || room.packages.includes(specifier)
    : room.packages.includes(packageName)
  return allowed ? null : `${name} may use ${room.packages.join(", ") || "no package"}`
}
