/**
 * Records a populated PostgreSQL database as an earlier release leaves it: jobs in every kind of wait, killed processes,
 * unread messages (test/journal/recorded/). Every later release opens it in a test and brings its jobs to their ends.
 *
 *     node --import tsx scripts/record-database.ts DIST RELEASE
 *
 * DIST is the folder `dist` of a built checkout of that release. A recording that exists is never written again.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import { gzipSync } from "node:zlib"
import { startPostgres } from "./services/postgres.ts"
import { capture } from "./services/run.ts"

const [dist, release] = process.argv.slice(2)
if (dist === undefined || release === undefined) throw new Error("usage: record-database.ts DIST RELEASE")
const folder = fileURLToPath(new URL("../test/journal/recorded/", import.meta.url))

async function start(url: string, life: string): Promise<ChildProcess> {
  const child = spawn(process.execPath, ["--import", "tsx", join(folder, "program.js"), dist!, url, life], {
    stdio: ["pipe", "pipe", "inherit"],
  })
  await said(child, "ready")
  return child
}

async function said(child: ChildProcess, word: string): Promise<void> {
  for await (const line of createInterface({ input: child.stdout! })) if (line === word) return
  throw new Error(`a process ended before it was ${word}`)
}

async function kill(child: ChildProcess): Promise<void> {
  const exit = once(child, "exit")
  child.kill("SIGKILL")
  await exit
}

const postgres = await startPostgres()
try {
  await kill(await start(postgres.url, "first"))
  const engine = await start(postgres.url, "second")
  const sender = await start(postgres.url, "sender")
  engine.stdin!.write("stop\n")
  await said(engine, "stopped")
  sender.stdin!.write("send\n")
  await said(sender, "sent")
  await kill(sender)
  await kill(engine)
  const sql = await capture("pg_dump", [
    ...[
      "--schema=umbra",
      "--inserts",
      "--rows-per-insert=100",
      "--no-owner",
      "--no-privileges",
      "--no-comments",
    ],
    postgres.url,
  ])
  const plain = sql
    // Commands of psql, which the test does not use.
    .replaceAll(/^\\(un)?restrict .*$/gm, "")
    // The recording must not depend on this machine: an engine of the same host would know that these processes are gone.
    .replaceAll(/"host":"[^"]*","boot":"[^"]*"/g, '"host":"recorder","boot":"recorder"')
  const file = join(folder, `${release}.sql.gz`)
  await writeFile(file, gzipSync(plain, { level: 9 }), { flag: "wx" })
  process.stdout.write(`${file}\n`)
} finally {
  await postgres.stop()
}
