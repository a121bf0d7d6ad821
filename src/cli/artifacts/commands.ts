/** `umbra artifacts ls|get|put|rm|gc`. */
import { createReadStream, createWriteStream } from "node:fs"
import { stat } from "node:fs/promises"
import { basename } from "node:path"
import { Readable } from "node:stream"
import { pipeline } from "node:stream/promises"
import type { ArtifactSweep } from "../../client/index.ts"
import { UmbraError } from "../../errors.ts"
import { exitCode } from "../exit.ts"
import { print, tableLines } from "../output/print.ts"
import { count, printable } from "../output/terminal.ts"
import { listed, type TargetOptions, withTarget } from "../target/open.ts"

export async function list({ job, ...options }: TargetOptions & { readonly job?: string }): Promise<number> {
  const query = { jobId: job, limit: 1000 }
  const found = await withTarget(options, ({ artifacts }) => listed(artifacts.list(query)))
  return print(options, { artifacts: found }, () => {
    if (found.length === 0) return "No artifacts.\n"
    const rows = found.map(({ artifact, bytes, type, name, removed_at }) => {
      const end = removed_at === null ? "" : "  (removed)"
      return [artifact, String(bytes), type, `${printable(name)}${end}`]
    })
    return tableLines(rows)
  })
}

export async function get(
  hash: string,
  { output, ...options }: TargetOptions & { readonly output?: string },
): Promise<number> {
  await withTarget(options, async ({ artifacts }) => {
    const content = Readable.from(await artifacts.get(hash), { objectMode: false })
    await pipeline(content, output === undefined ? process.stdout : createWriteStream(output), {
      end: output !== undefined,
    })
  })
  return exitCode.ok
}

interface PutOptions extends TargetOptions {
  readonly name?: string
  readonly type?: string
}

export async function put(file: string, { name, type, ...options }: PutOptions): Promise<number> {
  const isInput = file === "-"
  // Before the store is opened.
  if (!isInput)
    await stat(file).catch(error => {
      throw new UmbraError("E601", `${file} cannot be read: ${(error as Error).message}.`)
    })
  const source = isInput ? process.stdin : createReadStream(file)
  const body = Readable.toWeb(source) as ReadableStream<Uint8Array>
  const stored = name ?? (isInput ? "artifact" : basename(file))
  const reference = await withTarget(options, ({ artifacts }) => artifacts.put(stored, body, type), {
    make: true,
  })
  return print(options, reference, () => `${JSON.stringify(reference)}\n`)
}

export async function remove(
  hash: string,
  { force = false, ...options }: TargetOptions & { readonly force?: boolean },
): Promise<number> {
  await withTarget(options, ({ artifacts }) => artifacts.remove(hash, { force }))
  return print(options, { removed: hash }, `Artifact ${hash} is removed.\n`)
}

export async function collect({
  dryRun = false,
  ...options
}: TargetOptions & { readonly dryRun?: boolean }): Promise<number> {
  const report = await withTarget(options, ({ artifacts }) => artifacts.sweep({ dryRun }))
  return print(options, report, () => reportText(report, dryRun))
}

function reportText({ removed, marked, orphans }: ArtifactSweep, dryRun: boolean): string {
  const size = (what: ArtifactSweep["removed"]) => `${count(what.count, "artifact")}, ${what.bytes} bytes`
  const would = dryRun ? "would be " : ""
  return [
    `Unreferenced: ${size(marked)}; a later sweep ${dryRun ? "would remove" : "removes"} them.`,
    `Marked by an earlier sweep, ${would}removed now: ${size(removed)}.`,
    `Content that belongs to no artifact, ${would}removed now: ${count(orphans.count, "file")}, ${orphans.bytes} bytes.`,
    "",
  ].join("\n")
}
