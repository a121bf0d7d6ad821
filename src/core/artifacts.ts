/**
 * References to artifacts in JSON: an object with a key `artifact` whose value is `sha256:` and 64 hex digits. A job holds what
 * its facts refer to, by rows that are stored with these facts.
 */
import type { Json, JsonObject } from "./json.ts"

const HASH = /^sha256:[0-9a-f]{64}$/

export function isArtifactHash(value: unknown): value is string {
  return typeof value === "string" && HASH.test(value)
}

/** Every reference contains this text: a text without it is skipped after one search. */
export const ARTIFACT_MARK = '"sha256:'

/** In a JSON text without white space a key follows a brace or a comma; a quote inside of a string is escaped. */
const REFERENCE = /(?<=[{,])"artifact":"(sha256:[0-9a-f]{64})"/g

/** The hashes that a JSON text, as `JSON.stringify` writes it, refers to. */
export function artifactsInText(text: string): readonly string[] {
  if (!text.includes(ARTIFACT_MARK)) return none
  return distinct(Array.from(text.matchAll(REFERENCE), match => match[1]!))
}

/** The hashes that a JSON value refers to. */
export function artifactsInValue(value: Json | undefined): readonly string[] {
  const found: string[] = []
  const open: (Json | undefined)[] = [value]
  while (open.length > 0) {
    const next = open.pop()
    if (typeof next !== "object" || next === null) continue
    if (Array.isArray(next)) {
      for (const item of next) if (typeof item === "object") open.push(item)
      continue
    }
    for (const key in next) {
      const member = (next as JsonObject)[key]
      if (typeof member === "object") open.push(member)
      else if (key === "artifact" && isArtifactHash(member)) found.push(member)
    }
  }
  return distinct(found)
}

/** A reference to an artifact, with the fields that the text or value has. */
export type ArtifactMention = Pick<ArtifactReference, "artifact"> & Partial<ArtifactReference>

/** The artifacts that a JSON value refers to, an object before its members, each as often as it is referred to. */
export function mentionsInValue(value: Json | undefined): ArtifactMention[] {
  const found: ArtifactMention[] = []
  const open: (Json | undefined)[] = [value]
  while (open.length > 0) {
    const next = open.pop()
    if (typeof next !== "object" || next === null) continue
    if (!Array.isArray(next) && isArtifactHash((next as JsonObject).artifact))
      found.push(toMention(next as JsonObject))
    for (const member of Object.values(next).reverse()) if (typeof member === "object") open.push(member)
  }
  return found
}

function toMention({ artifact, name, type, bytes }: JsonObject): ArtifactMention {
  return {
    artifact: artifact as string,
    ...(typeof name === "string" && { name }),
    ...(typeof type === "string" && { type }),
    ...(typeof bytes === "number" && { bytes }),
  }
}

/** A reference as `put` returns it is not longer. */
const MENTION_CHARACTERS = 2_000

/** The same of a JSON text, as `JSON.stringify` writes it, without parsing all of it; of the rest only what `put` writes. */
export function* mentionsInText(text: string): Generator<ArtifactMention, void, undefined> {
  if (!text.includes(ARTIFACT_MARK)) return
  for (const { 1: artifact, index } of text.matchAll(REFERENCE))
    yield wholeMention(text, index - 1) ?? { artifact: artifact! }
}

/** An object with texts and numbers only, and its end. */
const FLAT = /^\{"\w+":(?:"(?:[^"\\]|\\.)*"|[\w.+-]+)(?:,"\w+":(?:"(?:[^"\\]|\\.)*"|[\w.+-]+))*\}/

/** The object that begins at `start`; undefined: none does, or it has other fields too. */
function wholeMention(text: string, start: number): ArtifactMention | undefined {
  const found = FLAT.exec(text.slice(start, start + MENTION_CHARACTERS))?.[0]
  return found === undefined ? undefined : toMention(JSON.parse(found) as JsonObject)
}

const none: readonly string[] = []

function distinct(hashes: readonly string[]): readonly string[] {
  return hashes.length === 0 ? none : [...new Set(hashes)]
}

/** The artifact of an owner in a row of `held`. */
export function heldArtifact(owner: string, hash: string): string {
  return `${hash} ${owner}`
}

/** What a handler gets for content that it has stored: plain JSON, which outputs, templates and other nodes pass on. */
export type ArtifactReference = {
  /** `sha256:` and 64 hex digits. */
  readonly artifact: string
  readonly name: string
  /** A media type. */
  readonly type: string
  readonly bytes: number
}

/** Content that an owner has, as processes with access to the content store need it. */
export interface StoredArtifact {
  readonly hash: string
  /** In the content store; null: the content was removed. */
  readonly key: string | null
  readonly bytes: number
  readonly name: string
  readonly type: string
}

/** A query of an attempt to the engine that owns its job, since a worker has no database. Each may be repeated. */
export type ArtifactQuestion =
  /** Content was written to the content store: it belongs to the owner of the job now. */
  | { readonly type: "put"; readonly artifact: StoredArtifact & { readonly key: string } }
  | { readonly type: "find"; readonly hash: string }
  /** How many bytes the owner has. */
  | { readonly type: "used" }

export type ArtifactAnswer =
  | { readonly artifact: StoredArtifact | null }
  | { readonly used: number }
  | { readonly error: { readonly code: string; readonly message: string } }

/** What people see of an artifact. */
export interface ArtifactView extends ArtifactReference {
  readonly created_at: string
  readonly last_put_at: string
  /** When its content was removed although it is referred to; null: it has its content. */
  readonly removed_at: string | null
}

export interface ArtifactPage {
  readonly artifacts: readonly ArtifactView[]
  /** null: there are no more. */
  readonly next: string | null
}

interface Count {
  readonly count: number
  readonly bytes: number
}

export interface SweepReport {
  /** Content of artifacts that an earlier sweep had marked. */
  readonly removed: Count
  /** Artifacts that nothing refers to: the next sweep removes them. */
  readonly marked: Count
  /** Content without a row. */
  readonly orphans: Count
}
