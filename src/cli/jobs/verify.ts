/** `umbra jobs verify JOB | --all`: folds journals and compares them with the projections (J18). */

import { UmbraError } from "../../errors.ts"
import { openReader, Reader } from "../../jobs/reader.ts"
import { isPostgres } from "../../journal/location.ts"
import { openReadOnly } from "../../journal/sqlite/read-only.ts"
import { exitCode } from "../exit.ts"
import { existingStore, type StoreOptions } from "../input/store.ts"
import { print } from "../output/print.ts"
import { count, paintFor } from "../output/terminal.ts"

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
  const { checked, different } = await withReader(existingStore(options), async reader =>
    jobId === undefined ? compareAll(reader) : compareOne(reader, jobId),
  )
  print(options, { checked, different }, () => differencesText(checked, different))
  return different.length === 0 ? exitCode.ok : exitCode.failed
}

async function compareOne(reader: Reader, jobId: string): Promise<Compared> {
  const differences = await reader.verify(jobId)
  return { checked: 1, different: differences.length === 0 ? [] : [{ job_id: jobId, differences }] }
}

export async function compareAll(reader: Reader): Promise<Compared> {
  const different: Difference[] = []
  let checked = 0
  for await (const { jobId, differences } of reader.verifyAll()) {
    checked++
    if (differences.length > 0) different.push({ job_id: jobId, differences })
  }
  return { checked, different }
}

/** Another process may use the folder meanwhile. */
export async function withReader<T>(location: string, use: (reader: Reader) => Promise<T>): Promise<T> {
  const reader = isPostgres(location)
    ? await openReader(location)
    : new Reader((await openReadOnly(location)).journal)
  try {
    return await use(reader)
  } finally {
    await reader.close()
  }
}

export function differencesText(checked: number, different: readonly Difference[]): string {
  const paint = paintFor(process.stdout)
  if (different.length === 0)
    return `${paint.green(`✓ ${count(checked, "job")}`)}: every projection matches its journal\n`
  const lines = different.flatMap(({ job_id, differences }) => [
    paint.red(`✗ ${job_id}`),
    ...differences.map(difference => `  ${difference}`),
  ])
  return `${lines.join("\n")}\n${different.length} of ${count(checked, "job")} differ.\n`
}
