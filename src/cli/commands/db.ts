/** `umbra db …`: commands for the database as a whole. */
import type { ContentStore } from "../../artifacts/content-store.ts"
import { readingMovedFacts } from "../../artifacts/moved-facts.ts"
import { configuredContentPlace, openContentStore } from "../../artifacts/open.ts"
import { UmbraError } from "../../errors.ts"
import { openReader, Reader } from "../../jobs/reader.ts"
import { isPostgres } from "../../journal/location.ts"
import { openJournal } from "../../journal/open.ts"
import { openReadOnly } from "../../journal/sqlite/read-only.ts"
import { exitCode } from "../exit.ts"
import { existingStore, type StoreOptions, storeName } from "../input/store.ts"
import { commandLog } from "../output/log.ts"
import { print } from "../output/print.ts"
import { count, paintFor } from "../output/terminal.ts"
import { inTurn } from "../target/folder-wait.ts"

interface CheckOptions extends StoreOptions {
  readonly json?: boolean
}

interface Checked {
  /** Problems of the file's structure; null: not checked. */
  readonly integrity: readonly string[] | null
  /** null: the file is damaged, and its jobs were not compared. */
  readonly checked: number | null
  readonly different: readonly Difference[]
}

/** Checks the file of a folder, then each job. Another process may use the folder meanwhile. */
export async function check(options: CheckOptions): Promise<number> {
  const location = existingStore(options)
  const found = isPostgres(location) ? await checkJobs(location) : await checkFolder(location)
  print(options, found, () => checkText(location, found))
  const isRight = found.checked !== null && found.different.length === 0
  return isRight ? exitCode.ok : exitCode.failed
}

async function checkJobs(location: string): Promise<Checked> {
  return {
    integrity: null,
    ...(await withReader(location, reader => compareAll(reader, openContent(location)))),
  }
}

async function checkFolder(location: string): Promise<Checked> {
  const folder = await openReadOnly(location)
  try {
    const integrity = folder.checkIntegrity()
    if (integrity.length > 0) return { integrity, checked: null, different: [] }
    return { integrity, ...(await compareAll(new Reader(folder.journal), openContent(location))) }
  } finally {
    await folder.close()
  }
}

function checkText(location: string, { integrity, checked, different }: Checked): string {
  const paint = paintFor(process.stdout)
  if (checked === null)
    return [
      paint.red(`✗ ${storeName(location)}: the file is damaged`),
      ...integrity!.map(line => `  ${line}`),
      "Its jobs were not compared. Stop the process that uses the file, and restore a backup into an empty folder (docs/operations/backup.md).\n",
    ].join("\n")
  const file =
    integrity === null
      ? `${storeName(location)}: only the jobs are checked; PostgreSQL itself checks its files (pg_amcheck, data checksums)\n`
      : `${paint.green(`✓ ${storeName(location)}`)}: the structure of the file is intact\n`
  return file + differencesText(checked, different)
}

/** Another process may use the folder meanwhile. */
export async function backup(file: string, options: CheckOptions): Promise<number> {
  const location = existingStore(options)
  if (isPostgres(location))
    throw new UmbraError(
      "E604",
      "umbra db backup copies the database of a folder. For PostgreSQL use pg_basebackup, or pg_dump -Fc -n umbra.",
    )
  const folder = await openReadOnly(location)
  try {
    const bytes = await folder.backUp(file)
    process.stdout.write(
      options.json
        ? `${JSON.stringify({ file, bytes })}\n`
        : `${file} (${bytes} bytes) is a copy of ${storeName(location)} from the start of the backup. To restore it, copy it to umbra.db in an empty folder and run \`umbra db restored\` there.\n`,
    )
  } finally {
    await folder.close()
  }
  return exitCode.ok
}

export async function restored(options: StoreOptions): Promise<number> {
  const location = existingStore(options)
  const journal = await inTurn(() => openJournal(location, { log: commandLog("warn").log }))
  try {
    await journal.restored()
  } finally {
    await journal.close()
  }
  process.stdout.write(
    `${storeName(location)} is marked as restored: writes of engines from before the restore are rejected, and live ` +
      "streams start again. Unfinished jobs continue when an engine starts.\n",
  )
  return exitCode.ok
}

/** `umbra jobs verify JOB | --all`: folds journals and compares them with the projections (J18). */

export interface VerifyOptions extends StoreOptions {
  readonly all?: boolean
  readonly json?: boolean
}

export interface Difference {
  readonly job_id: string
  readonly differences: readonly string[]
}

interface Compared {
  readonly checked: number
  readonly different: readonly Difference[]
}

export async function verify(jobId: string | undefined, options: VerifyOptions): Promise<number> {
  if ((jobId === undefined) === !options.all)
    throw new UmbraError("E604", "name one job, or use --all for every job of the store.")
  const location = existingStore(options)
  const content = openContent(location)
  const { checked, different } = await withReader(location, async reader =>
    jobId === undefined ? compareAll(reader, content) : compareOne(reader, jobId, content),
  )
  print(options, { checked, different }, () => differencesText(checked, different))
  return different.length === 0 ? exitCode.ok : exitCode.failed
}

async function compareOne(reader: Reader, jobId: string, content: ContentStore | null): Promise<Compared> {
  const differences = [...(await reader.verify(jobId)), ...(await reader.verifyArtifacts(jobId, content))]
  return { checked: 1, different: differences.length === 0 ? [] : [{ job_id: jobId, differences }] }
}

/** null: no place is configured, so the content of artifacts is not checked. */
function openContent(location: string): ContentStore | null {
  const place = configuredContentPlace(location)
  return place && openContentStore(place)
}

async function compareAll(reader: Reader, content: ContentStore | null): Promise<Compared> {
  const different: Difference[] = []
  let checked = 0
  for await (const { jobId, differences: ofJournal } of reader.verifyAll()) {
    checked++
    const differences = [...ofJournal, ...(await reader.verifyArtifacts(jobId, content))]
    if (differences.length > 0) different.push({ job_id: jobId, differences })
  }
  return { checked, different }
}

/** Another process may use the folder meanwhile. */
async function withReader<T>(location: string, use: (reader: Reader) => Promise<T>): Promise<T> {
  const reader = isPostgres(location)
    ? await openReader(location)
    : new Reader(readingMovedFacts((await openReadOnly(location)).journal, location))
  try {
    return await use(reader)
  } finally {
    await reader.close()
  }
}

function differencesText(checked: number, different: readonly Difference[]): string {
  const paint = paintFor(process.stdout)
  if (different.length === 0)
    return `${paint.green(`✓ ${count(checked, "job")}`)}: every projection matches its journal\n`
  const lines = different.flatMap(({ job_id, differences }) => [
    paint.red(`✗ ${job_id}`),
    ...differences.map(difference => `  ${difference}`),
  ])
  return `${lines.join("\n")}\n${different.length} of ${count(checked, "job")} differ.\n`
}
