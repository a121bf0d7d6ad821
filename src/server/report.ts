/**
 * The replay file of a job: one HTML file, the dashboard's page of a job with the journal of the job inside. It opens without
 * a server and makes no request. The build writes the page without data, `report.html` (docs/decisions/0058).
 *
 * 1. The data is JSON in an element that browsers do not execute, with every `<` escaped: no text of a job can end it.
 * 2. The page may run only its own scripts: its policy names their hashes.
 */
import { createHash } from "node:crypto"
import { readFile } from "node:fs/promises"
import { join } from "node:path"
import type { CompiledGraph } from "../core/compiled-graph.ts"
import type { Json } from "../core/json.ts"
import { type FactRecord, type PayloadField, payloadFields, WHOLE_BYTES } from "../core/payloads.ts"
import type { JobSnapshot } from "../engine/owner/snapshot.ts"
import { UmbraError } from "../errors.ts"

export const keptPayloads = ["none", "preview", "full"] as const
/** Data of the user in the file: none, what a list of facts shows (whole up to 1 KiB, then the beginning), or all. */
export type KeptPayloads = (typeof keptPayloads)[number]

const MOST_BYTES = 20_000_000
const PLACE = "<!--umbra-data-->"

export interface ReportSource {
  readonly job: JobSnapshot
  readonly graph: CompiledGraph
  /** Pages, oldest first. */
  readonly facts: AsyncIterable<readonly FactRecord[]>
  /** The JSON text of a payload. */
  payload(seq: number, field: string): Promise<string>
}

export interface ReportOptions {
  /** The folder of the built dashboard. */
  readonly folder: string
  readonly payloads: KeptPayloads
  /** The release that writes the file. */
  readonly version: string
  readonly now: number
}

export async function jobReport(source: ReportSource, options: ReportOptions): Promise<string> {
  const { payloads, version, now } = options
  const page = await readPage(options.folder)
  const text = new Bounded(
    MOST_BYTES - Buffer.byteLength(page.before) - Buffer.byteLength(page.after),
    payloads,
  )
  text.add('<script type="application/json" id="umbra-data">{"format":1')
  text.member("umbra", version)
  text.member("created_at", new Date(now).toISOString())
  text.member("payloads_kept", payloads)
  text.member("job", shownJob(source.job, payloads))
  text.member("graph", source.graph)
  const references: Reference[] = []
  text.add(',"facts":[')
  let separator = ""
  for await (const facts of source.facts)
    for (const fact of facts) {
      if (payloads === "full") references.push(...referencesIn(fact))
      text.add(separator + escaped(JSON.stringify(payloads === "none" ? withoutPayloads(fact) : fact)))
      separator = ","
    }
  text.add('],"payloads":{')
  for (const [i, { seq, field }] of references.entries()) {
    const value = escaped(await source.payload(seq, field))
    text.add(`${i === 0 ? "" : ","}"${seq}/${field}":${value}`)
  }
  text.add("}}</script>")
  return `${page.before}${text.text()}${page.after}`
}

/** Texts that are joined at the end, with a bound. */
class Bounded {
  readonly #parts: string[] = []
  readonly #payloads: KeptPayloads
  #left: number

  constructor(bytes: number, payloads: KeptPayloads) {
    this.#left = bytes
    this.#payloads = payloads
  }

  add(text: string): void {
    this.#left -= Buffer.byteLength(text)
    if (this.#left < 0) throw tooLarge(this.#payloads)
    this.#parts.push(text)
  }

  member(name: string, value: unknown): void {
    this.add(`,"${name}":${escaped(JSON.stringify(value))}`)
  }

  text(): string {
    return this.#parts.join("")
  }
}

/** In JSON, `<` occurs in texts only. */
function escaped(json: string): string {
  return json.replaceAll("<", "\\u003c")
}

function tooLarge(payloads: KeptPayloads): UmbraError {
  const less = payloads === "none" ? "" : ` Use payloads=${payloads === "full" ? "preview" : "none"}.`
  return new UmbraError(
    "E648",
    `The file would be larger than ${MOST_BYTES / 1e6} MB.${less} \`umbra replay\` and the dashboard show jobs of any size.`,
  )
}

interface Page {
  readonly before: string
  readonly after: string
}

async function readPage(folder: string): Promise<Page> {
  const file = join(folder, "report.html")
  const html = await readFile(file, "utf8").catch(() => null)
  if (html === null)
    throw new UmbraError(
      "E634",
      `This installation was built without the dashboard (${file} is missing), which the file needs. \`npm run build\` builds it.`,
    )
  const withPolicy = html.replace(/<head[^>]*>/i, head => `${head}${buildPolicy(html)}`)
  const [before, after, more] = withPolicy.split(PLACE)
  if (after === undefined || more !== undefined)
    throw new UmbraError("E634", `${file} is not a template: it must contain ${PLACE} once.`)
  return { before: before!, after }
}

function buildPolicy(html: string): string {
  const hashes = (element: string) => {
    const found = html.matchAll(new RegExp(`<${element}\\b[^>]*>([\\s\\S]*?)</${element}>`, "gi"))
    const texts = [...new Set([...found].map(([, text]) => text!))]
    const names = texts.map(text => `'sha256-${createHash("sha256").update(text).digest("base64")}'`)
    return names.length === 0 ? "'none'" : names.join(" ")
  }
  const policy = [
    "default-src 'none'",
    `script-src ${hashes("script")}`,
    `style-src ${hashes("style")}`,
    "img-src data:",
    "worker-src blob:",
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ")
  return `<meta http-equiv="Content-Security-Policy" content="${policy}">`
}

function shownJob(job: JobSnapshot, payloads: KeptPayloads): JobSnapshot {
  const { previews: _, ...rest } = job
  const isShown =
    payloads === "full" ||
    (payloads === "preview" && Buffer.byteLength(JSON.stringify(job.output ?? null)) <= WHOLE_BYTES)
  if (isShown || job.output == null) return payloads === "none" ? rest : job
  return { ...rest, output: null, output_left_out: true }
}

interface Reference {
  readonly seq: number
  readonly field: string
}

function referencesIn(fact: FactRecord): Reference[] {
  return payloadFields(fact.type)
    .filter(field => isReference(payloadIn(fact, field)))
    .map(field => ({ seq: fact.seq, field }))
}

function isReference(
  value: Json | undefined,
): value is { readonly $payload: { readonly [name: string]: Json } } {
  return typeof value === "object" && value !== null && "$payload" in value
}

function payloadIn(fact: FactRecord, field: PayloadField): Json | undefined {
  const [name, inner] = field.split(".") as [string, string?]
  const value = (fact as { readonly [name: string]: Json | undefined })[name]
  return inner === undefined ? value : (value as { readonly [name: string]: Json } | undefined)?.[inner]
}

/** Each payload is a reference that shows nothing but its length, and for a list the number of its items. */
function withoutPayloads(fact: FactRecord): FactRecord {
  const shown: { [name: string]: Json } = { ...fact }
  for (const field of payloadFields(fact.type)) {
    const value = payloadIn(fact, field)
    if (value === undefined) continue
    const [name, inner] = field.split(".") as [string, string?]
    const hidden = hiddenReference(fact.seq, field, value)
    shown[name] =
      inner === undefined ? hidden : { ...(shown[name] as { [name: string]: Json }), [inner]: hidden }
  }
  return shown as FactRecord
}

function hiddenReference(seq: number, field: string, value: Json): Json {
  const own = isReference(value) ? value.$payload : null
  const bytes = own === null ? Buffer.byteLength(JSON.stringify(value)) : own.bytes!
  const count = own === null ? (Array.isArray(value) ? value.length : undefined) : own.count
  // Not even a hash: that of a short text can be guessed.
  return { $payload: { seq, field, bytes, hash: "", preview: "", ...(count === undefined ? {} : { count }) } }
}
