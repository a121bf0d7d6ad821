import { readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { artifactTable } from "../../src/artifacts/settings.ts"
import { redisTable } from "../../src/broker/redis/settings.ts"
import { runningFlags, storeFlags, storeLocation, storeName } from "../../src/cli/input/store.ts"
import { engineSettings, engineTable } from "../../src/engine/settings.ts"
import { feedTable } from "../../src/feed/settings.ts"
import { journalSettings, journalTable } from "../../src/journal/settings.ts"
import { adapterTable } from "../../src/pipeline/adapters/settings.ts"
import { pipelineTable } from "../../src/pipeline/settings.ts"
import { providerTable } from "../../src/provider/settings.ts"
import { rolesTable } from "../../src/roles.ts"
import { serverTable } from "../../src/server/settings.ts"
import { readSettings, type SettingTable } from "../../src/settings.ts"
import { workerTable } from "../../src/worker/settings.ts"
import { root } from "./umbra.ts"

const rooms = [engineTable, workerTable, journalTable, serverTable, feedTable, providerTable]
const others = [artifactTable, rolesTable, redisTable, adapterTable, pipelineTable]
const all: SettingTable<Record<string, unknown>>[] = [...rooms, ...others]
const tables = all.flatMap(table => Object.values(table))

describe("S10 settings", () => {
  it("docs/reference/configuration.md lists every setting with its variable and default", () => {
    const page = readFileSync(join(root, "docs/reference/configuration.md"), "utf8")
    const rows = new Map(
      [...page.matchAll(/^\| `(\w+)` \| (?:`(UMBRA_\w+)`|–) \| ([^|]*) \|/gm)].map(
        ([, name, variable = null, standard]) => [name!, { variable, standard: standard!.trim() }],
      ),
    )
    for (const { name, variable, default: standard } of tables) {
      const row = rows.get(name)
      expect(row, name).toMatchObject({ variable })
      const isNumber = typeof standard === "number" && name !== "threads"
      if (isNumber) expect(Number(row!.standard.replace(/[ ,]/g, "")), name).toBe(standard)
    }
    const known = new Set(tables.map(({ name }) => name))
    expect([...rows.keys()].filter(name => !known.has(name))).toEqual([])
  })

  it("no name is used twice", () => {
    // One that two rooms need is the same setting in both.
    const settings = new Set(tables)
    expect(new Set([...settings].map(({ name }) => name)).size).toBe(settings.size)
  })

  it("at most 50 variables are read, those of stores, servers and secrets included", () => {
    const others = [
      "CONFIG",
      "DATA_DIR",
      "DATABASE_URL",
      "SERVER",
      "REDIS_URL",
      "TOKEN",
      "SECRET_",
      "PROVIDER_SECRET_",
    ]
    const variables = new Set(tables.flatMap(({ variable }) => variable ?? []))
    expect(variables.size + others.length + 1).toBeLessThanOrEqual(50)
  })

  it("a variable of a setting that is read from the file alone is refused, and the message says what to do", () => {
    const environment = { UMBRA_PARK_AFTER_MS: "5" }
    expect(() => readSettings(engineTable, {}, environment)).toThrow(
      "UMBRA_PARK_AFTER_MS is not read from the environment. Set park_after_ms in the configuration file (--config FILE), or with --set park_after_ms=VALUE.",
    )
    for (const variable of ["UMBRA_FEED_TELL_MS", "UMBRA_FEED_NOTIFY_MS"])
      expect(() => readSettings(feedTable, {}, { [variable]: "5" })).toThrow(
        `${variable} is not read from the environment. Set feed_notify_ms in the configuration file`,
      )
  })

  it("a setting may be never where that makes sense, and only there", () => {
    const environment = { UMBRA_TTL_SECONDS: "never", UMBRA_RETENTION_SECONDS: "Never" }
    expect(readSettings(engineTable, {}, environment)).toMatchObject({
      ttlSeconds: null,
      retentionSeconds: null,
    })
    expect(() => readSettings(engineTable, {}, { UMBRA_LOSS_LIMIT: "never" })).toThrow(
      /E620|UMBRA_LOSS_LIMIT/,
    )
    expect(() => engineSettings({ ttlSeconds: 0 })).toThrow(
      /ttlSeconds .* must be a number above 0, or "never"/,
    )
  })

  it("X7 the settings of the database have the shape that openJournal accepts", () => {
    expect(journalSettings({ UMBRA_DATABASE_RETRY_TRIES: "2" })).toMatchObject({
      recycleSeconds: 300,
      retry: { tries: 2, initialMs: 1000, maxMs: 30_000 },
    })
  })
})

describe("where the jobs are", () => {
  const url = "postgres://user:secret@db.example:5432/app"

  it.each([
    ["a flag before everything", { dataDir: "d" }, { UMBRA_DATABASE_URL: url }, "d"],
    ["a URL flag before everything", { databaseUrl: url }, { UMBRA_DATA_DIR: "d" }, url],
    ["our URL before our folder", {}, { UMBRA_DATABASE_URL: url, UMBRA_DATA_DIR: "d" }, url],
    ["our folder", {}, { UMBRA_DATA_DIR: "d", DATABASE_URL: url }, "d"],
    ["not a DATABASE_URL of another kind", {}, { DATABASE_URL: "mysql://x" }, "./.umbra"],
    ["./.umbra", {}, {}, "./.umbra"],
  ])("%s", (_, options, environment, expected) => {
    const warnings: string[] = []
    expect(storeLocation(options, environment, line => warnings.push(line))).toBe(expected)
    expect(warnings).toEqual([])
  })

  it("is never DATABASE_URL; a warning names the cure if no location of Umbra was given", () => {
    const warnings: string[] = []
    const locate = (environment: object) =>
      storeLocation({}, { DATABASE_URL: url, ...environment }, line => warnings.push(line))
    expect(locate({ UMBRA_DATABASE_URL: `${url}2` })).toBe(`${url}2`)
    expect(warnings).toEqual([])
    expect(locate({})).toBe("./.umbra")
    expect(warnings).toEqual([
      expect.stringMatching(/DATABASE_URL is ignored.*UMBRA_DATABASE_URL or --database-url/),
    ])
    expect(warnings[0]).not.toContain("secret")
  })

  it("is printed without user and password", () => {
    expect(storeName(url)).toBe("PostgreSQL at db.example:5432/app")
    expect(storeFlags({ databaseUrl: url })).toBe(" --database-url …")
    expect(storeFlags({ dataDir: "my $data's" })).toBe(" --data-dir 'my $data'\\''s'")
  })

  it("is printed with what is needed to run its jobs, quoted for a shell", () => {
    const given = { handlers: ["./a.ts", "b c.ts"], adapters: ["umbra-web"], providers: ["acme.yaml"] }
    expect(runningFlags({ dataDir: "d", ...given, allowPrivateAddresses: true })).toBe(
      " --data-dir d --handlers ./a.ts --handlers 'b c.ts' --adapters umbra-web --providers acme.yaml --allow-private-addresses",
    )
    expect(runningFlags({})).toBe("")
  })
})
