/** SIGKILL loses the last log lines of handlers, and no others. The oracle: a file that the handler writes to before it logs. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import { expect, it, onTestFinished } from "vitest"
import { openJournal } from "../../src/journal/open.ts"
import type { StoredLine } from "../../src/log.ts"
import { programArguments } from "../support/program.ts"
import { freshDatabase } from "../support/services.ts"
import { messageOf } from "./logged-message.ts"

const program = fileURLToPath(new URL("./logging-program.ts", import.meta.url))
const KILLS = 3

it.each(["SQLite", "PostgreSQL"])(
  "a SIGKILL leaves the beginning of each log, without a gap, on %s",
  async kind => {
    for (let kill = 0; kill < KILLS; kill++) {
      const folder = mkdtempSync(join(tmpdir(), "umbra-killed-logs-"))
      onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
      const database = kind === "SQLite" ? null : await freshDatabase()
      if (database !== null) onTestFinished(database.drop)
      const location = database?.url ?? join(folder, "data")
      const oracle = join(folder, "oracle")
      const child = spawn(process.execPath, [...programArguments(program), location, oracle], {
        stdio: ["ignore", "pipe", "inherit"],
      })
      onTestFinished(() => void child.kill("SIGKILL"))
      const printed = createInterface(child.stdout)[Symbol.asyncIterator]()
      const jobId: string = (await printed.next()).value
      expect((await printed.next()).value).toBe("stored")
      const written = () => {
        try {
          return readFileSync(oracle, "utf8").trim().split("\n")
        } catch {
          return []
        }
      }
      await expect.poll(() => written().length, { interval: 20 }).toBeGreaterThan(200 + 150 * kill)
      child.kill("SIGKILL")
      await once(child, "exit")
      const journal = await openJournal(location)
      const rows = await journal.logs.read({ jobId, level: 0, from: 0, limit: 10_000, maxBytes: 2 ** 30 })
      await journal.close()
      const stored = rows
        .flatMap(({ lines }) => JSON.parse(lines!) as StoredLine[])
        .map(([, , message]) => message)
      const wrote = written().map(line => messageOf(Number(line)))
      expect(stored.length).toBeGreaterThan(0)
      expect(stored).toEqual(wrote.slice(0, stored.length))
      expect(rows.map(({ lost }) => lost)).toEqual(rows.map(() => 0))
    }
  },
)
