/** `umbra jobs verify JOB | --all`: folds journals and compares them with the projections (J18). */
import { openReader, type Reader } from "../../engine/reader.ts"
import { UmbraError } from "../../errors.ts"
import { exitCode } from "../exit.ts"
import { inTurn } from "../place/in-turn.ts"
import { existingStore, type StoreOptions } from "../store.ts"
import { count, paintFor } from "../terminal.ts"

export interface VerifyOptions extends StoreOptions {
  readonly all?: boolean
  readonly json?: boolean
}

interface Difference {
  readonly job_id: string
  readonly differences: readonly string[]
}

export async function verify(jobId: string | undefined, options: VerifyOptions): Promise<number> {
  if ((jobId === undefined) === !options.all)
    throw new UmbraError("E604", "name one job, or say --all for every job of the store.")
  const found: Difference[] = []
  const checked = await withReader(options, async reader => {
    if (jobId !== undefined) {
      found.push({ job_id: jobId, differences: await reader.verify(jobId) })
      return 1
    }
    let jobs = 0
    for await (const { jobId: id, differences } of reader.verifyAll()) {
      jobs++
      if (differences.length > 0) found.push({ job_id: id, differences })
    }
    return jobs
  })
  const different = found.filter(({ differences }) => differences.length > 0)
  process.stdout.write(
    options.json ? `${JSON.stringify({ checked, different }, null, 2)}\n` : text(checked, different),
  )
  return different.length === 0 ? exitCode.ok : exitCode.failed
}

async function withReader<T>(options: StoreOptions, use: (reader: Reader) => Promise<T>): Promise<T> {
  const location = existingStore(options)
  const reader = await inTurn(() => openReader(location))
  try {
    return await use(reader)
  } finally {
    await reader.close()
  }
}

function text(checked: number, different: readonly Difference[]): string {
  const paint = paintFor(process.stdout)
  if (different.length === 0)
    return `${paint.green(`✓ ${count(checked, "job")}`)}: every projection says what its journal says\n`
  const lines = different.flatMap(({ job_id, differences }) => [
    paint.red(`✗ ${job_id}`),
    ...differences.map(difference => `  ${difference}`),
  ])
  return `${lines.join("\n")}\n${different.length} of ${count(checked, "job")} differ.\n`
}
