/** `umbra report JOB`: the job as one HTML file that replays it. */
import { writeFile } from "node:fs/promises"
import { pages } from "../../client/http.ts"
import { UmbraError } from "../../errors.ts"
import { builtDashboard } from "../../server/dashboard-folder.ts"
import { jobReport, type KeptPayloads } from "../../server/report.ts"
import { version } from "../../version.ts"
import { print } from "../output/print.ts"
import { type Target, type TargetOptions, withTarget } from "../target/open.ts"

export interface ReportOptions extends TargetOptions {
  readonly output?: string
  readonly payloads: KeptPayloads
}

const PAGE = 1000

export async function report(jobId: string, options: ReportOptions): Promise<number> {
  const { payloads, output: file = `umbra-${jobId}.html` } = options
  const html = await withTarget(options, async target => {
    const job = await target.jobs.job(jobId)
    const source = {
      job,
      graph: await target.compiledGraph(job),
      facts: factPages(target, jobId),
      payload: async (seq: number, field: string) =>
        JSON.stringify(await target.jobs.payload(jobId, seq, field)),
    }
    return jobReport(source, { folder: builtDashboard, payloads, version, now: Date.now() })
  })
  try {
    await writeFile(file, html)
  } catch (error) {
    throw new UmbraError("E604", `${file} cannot be written: ${(error as Error).message}.`, { cause: error })
  }
  const bytes = Buffer.byteLength(html)
  const text = `Wrote ${file} (${(bytes / 1e6).toFixed(1)} MB). Open it in a browser: it needs no server.\n`
  return print(options, { file, bytes, payloads }, text)
}

async function* factPages(target: Target, jobId: string) {
  const ask = (after?: string) => target.jobs.factPage(jobId, { after, limit: PAGE })
  for await (const page of pages<string, Awaited<ReturnType<typeof ask>>>(ask)) yield page.facts
}
