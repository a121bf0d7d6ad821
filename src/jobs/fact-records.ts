/**
 * Fact records (core/payloads.ts), made from the stored text of facts. Hashes and previews are computed on request, from
 * the same text that a payload is answered with: nothing is stored for them (docs/decisions/0049).
 */
import { createHash } from "node:crypto"
import { type ArtifactMention, mentionsInText } from "../core/artifacts.ts"
import type { Json } from "../core/json.ts"
import {
  type FactRecord,
  type PayloadField,
  type PayloadRef,
  payloadFields,
  WHOLE_BYTES,
} from "../core/payloads.ts"
import { members, skipValue } from "../definition/document/json-scan.ts"
import type { FactPageQuery, FactRow, Journal } from "../journal/port/journal.ts"

/** Characters of a payload's text that its reference shows. */
const PREVIEW = 200
/** Artifacts that a reference to a payload names. */
const MENTIONED = 100

/** A part of a text: the JSON text of one value. */
interface Span {
  readonly start: number
  readonly end: number
}

/** Facts of a job, which are read `limit` at a time. */
export async function* factPages(
  journal: Pick<Journal, "readFactPage">,
  query: FactPageQuery,
): AsyncGenerator<FactRow, void, undefined> {
  for (let { after } = query; ; ) {
    const page = await journal.readFactPage({ ...query, after })
    yield* page
    if (page.length < query.limit) return
    after = page.at(-1)!.seq
  }
}

/** `data`: of the row, also where the row leaves it out. */
export function factRecord(row: Omit<FactRow, "data" | "jobId">, data: string, index: number): FactRecord {
  const { seq, at, type } = row
  const fields = row.bytes <= WHOLE_BYTES ? JSON.parse(data) : shortened(data, row)
  const { node, item, attempt, worker, ...rest } = fields as { readonly [field: string]: Json }
  const code = (rest.fault as { readonly code?: string } | undefined)?.code
  const named = Object.entries({ node, item, attempt, worker, code }).filter(
    ([, value]) => value !== undefined,
  )
  return { index, seq, at, type, ...Object.fromEntries(named), ...rest } as unknown as FactRecord
}

function shortened(data: string, { seq, type }: Pick<FactRow, "seq" | "type">): { [field: string]: Json } {
  const payloads: readonly string[] = payloadFields(type)
  const value = (span: Span, field: string) =>
    payloads.includes(field)
      ? payloadOrRef(data.slice(span.start, span.end), field as PayloadField, seq)
      : parsed(data, span)
  const fields: { [field: string]: Json } = {}
  for (const [key, span] of spans(data, 0)) {
    const hasPayloads = payloads.some(field => field.startsWith(`${key}.`))
    fields[key] = hasPayloads
      ? Object.fromEntries(
          [...spans(data, span.start)].map(([inner, part]) => [inner, value(part, `${key}.${inner}`)]),
        )
      : value(span, String(key))
  }
  return fields
}

function payloadOrRef(text: string, field: PayloadField, seq: number): Json {
  const bytes = Buffer.byteLength(text)
  if (bytes <= WHOLE_BYTES) return JSON.parse(text) as Json
  const count = text.startsWith("[") ? { count: countItems(text) } : {}
  const ref: PayloadRef = {
    $payload: {
      ...{ seq, field, bytes, hash: payloadHash(text), preview: beginning(text), ...count },
      ...mentioned(text),
    },
  }
  return ref as unknown as Json
}

function mentioned(text: string): Pick<PayloadRef["$payload"], "artifacts" | "artifact_count"> {
  const artifacts: ArtifactMention[] = []
  let count = 0
  for (const mention of mentionsInText(text)) if (++count <= MENTIONED) artifacts.push(mention)
  if (count === 0) return {}
  return count > MENTIONED ? { artifacts, artifact_count: count } : { artifacts }
}

function countItems(text: string): number {
  let count = 0
  for (const _ of members(text, 0)) count++
  return count
}

export function payloadHash(text: string): string {
  return createHash("sha256").update(text).digest("hex")
}

/** Without half of a character that UTF-16 writes as two. */
function beginning(text: string): string {
  const isSplit = (text.charCodeAt(PREVIEW - 1) & 0xfc00) === 0xd800
  return text.slice(0, isSplit ? PREVIEW - 1 : PREVIEW)
}

/** The JSON text of a payload of a fact; null: the fact has none in this field. */
export function payloadText(
  { type, data }: { readonly type: string; readonly data: string },
  field: string,
): string | null {
  if (!(payloadFields(type) as readonly string[]).includes(field)) return null
  return textAt(data, field.split("."))
}

/** The same for `Source.field`: the output of a node that waited for a signal may be the data of the signal. */
export function payloadIn(data: string, field: string): string | null {
  const path = field.split(".").map(step => (/^\d+$/.test(step) ? Number(step) : step))
  const text = textAt(data, path)
  return text === null && field === "output" ? textAt(data, ["data"]) : text
}

/** The JSON text of the value at a path; null: there is none. */
export function textAt(text: string, path: readonly (string | number)[]): string | null {
  let start = 0
  for (const step of path) {
    const found = memberAt(text, start, step)
    if (found === null) return null
    start = found
  }
  return text.slice(start, skipValue(text, start))
}

function memberAt(text: string, at: number, key: string | number): number | null {
  let found: number | null = null
  // Of a key that is written twice, the last counts, as for JSON.parse.
  for (const member of members(text, at)) if (member.key === key) found = member.valueAt
  return found
}

function* spans(text: string, at: number): Generator<[key: string | number, span: Span], void, undefined> {
  for (const { key, valueAt } of members(text, at))
    yield [key, { start: valueAt, end: skipValue(text, valueAt) }]
}

/** The JSON texts of the elements of a list. */
export function* elements(text: string): Generator<string, void, undefined> {
  for (const [, { start, end }] of spans(text, 0)) yield text.slice(start, end)
}

function parsed(text: string, { start, end }: Span): Json {
  return JSON.parse(text.slice(start, end)) as Json
}

/** The steps of a JSON path that selects one value: `$`, `.name`, `["name"]`, `['name']`, `[0]`. null: it is none. */
export function pathSteps(path: string): readonly (string | number)[] | null {
  if (!path.startsWith("$")) return null
  const steps: (string | number)[] = []
  const step = /\.([\p{L}_$][\p{L}\p{N}_$-]*)|\[(\d{1,9})\]|\["((?:[^"\\]|\\.)*)"\]|\['((?:[^'\\]|\\.)*)'\]/uy
  step.lastIndex = 1
  while (step.lastIndex < path.length) {
    const found = step.exec(path)
    if (found === null) return null
    const [, name, index, double, single] = found
    if (index !== undefined) steps.push(Number(index))
    else steps.push(name ?? unescaped(double ?? single!))
  }
  return steps
}

function unescaped(text: string): string {
  return text.replace(/\\(.)/gu, "$1")
}
