/**
 * Resolves the references of templates: which nodes they read (these become dependencies), and which names do not exist
 * (E111) or are not allowed there (E112). One look-up per reference; texts are searched only if a name is unknown.
 */
import type { Reference, Template, ValueTemplate } from "../../template/types.ts"
import { jobFields, rootNames } from "../names.ts"
import { type DocumentPath, type ProblemList, problemsInOnePiece } from "../problem.ts"
import type { Suggester } from "../suggest.ts"

/** The kind of place of a template, which determines what it may read. */
export interface TemplateSite {
  readonly kind: "config" | "when" | "for_each" | "output" | "init"
  /** Names in templates of this kind of document, besides node ids. */
  readonly world: TemplateWorld
  /** Inside the config of a node with `for_each`: `item` and `index` exist. */
  readonly hasItem: boolean
  /** Why a secret here would be stored, or `null` where secrets are allowed. */
  readonly storedBecause: string | null
}

export interface TemplateWorld {
  readonly names: readonly string[]
  /** The same as text for people. */
  readonly known: string
  /** The word for the entries whose config may contain a secret. */
  readonly user: "handler" | "adapter"
}

const world: TemplateWorld = {
  names: rootNames,
  known: "node ids, input, nodes, job, and item and index in a node with for_each",
  user: "handler",
}

const stored = { world, hasItem: false, storedBecause: "what it yields is stored with the job" }

/** The kinds of places, created once: 100,000 nodes share them. */
export const sites = {
  config: { kind: "config", world, hasItem: false, storedBecause: null },
  itemConfig: { kind: "config", world, hasItem: true, storedBecause: null },
  when: { kind: "when", ...stored },
  for_each: { kind: "for_each", ...stored },
  output: { kind: "output", world, hasItem: false, storedBecause: "a job's output is stored" },
} as const satisfies Record<string, TemplateSite>

/** The config of a handler that stores it. */
export function storedConfig(hasItem: boolean): TemplateSite {
  const storedBecause = "this handler's output is its config, which is stored"
  return { kind: "config", world, hasItem, storedBecause }
}

export interface ReferenceContext {
  readonly problems: ProblemList
  readonly suggest: Suggester
  /** Node ids to positions. */
  readonly positions: ReadonlyMap<string, number>
  /** Ids of entries that are reported themselves: a reference to one is only a consequence. */
  readonly brokenIds: ReadonlySet<string>
}

/** The place of a reference; its path is computed on demand. */
export interface ReferencePlace {
  readonly path: DocumentPath
}

/** Receives what a value's templates read: node positions, or any node if `nodes` is used with a computed id. */
export interface Reads {
  readonly node: (position: number, place: ReferencePlace, offset: number) => void
  readonly anyNode: () => void
}

export interface ReferenceCheck {
  readonly value: ValueTemplate
  /** Path of the value. */
  readonly path: DocumentPath
  readonly site: TemplateSite
  readonly reads: Reads
}

export function checkReferences(
  { value, path, site, reads }: ReferenceCheck,
  context: ReferenceContext,
): void {
  const most = context.problems.size + problemsInOnePiece
  for (const { path: inner, template } of value.templates) {
    if (context.problems.size >= most) return
    new TemplateCheck({ template, outer: path, inner, site }, context).run(reads)
  }
}

interface FoundTemplate {
  readonly template: Template
  readonly outer: DocumentPath
  readonly inner: DocumentPath
  readonly site: TemplateSite
}

/** Problems of one template that are reported: finding the position of each scans the text, which may be long. */
const MOST_REPORTED = 5

class TemplateCheck {
  readonly #found: FoundTemplate
  readonly #context: ReferenceContext
  /** Unknown names before this offset belong to a hyphenated id that was already reported. */
  #reportedUpTo = -1
  #reported = 0

  constructor(found: FoundTemplate, context: ReferenceContext) {
    this.#found = found
    this.#context = context
  }

  get path(): DocumentPath {
    return [...this.#found.outer, ...this.#found.inner]
  }

  run(reads: Reads): void {
    for (const reference of this.#found.template.references) {
      if (this.#reported === MOST_REPORTED) return
      const position = this.#context.positions.get(reference.name)
      if (position !== undefined) reads.node(position, this, reference.offset)
      else if (!this.#found.site.world.names.includes(reference.name)) this.#unknown(reference)
      else if (reference.name === "nodes") this.#nodes(reference, reads)
      else if (reference.name === "job") this.#job(reference)
      else if (reference.name === "secrets") this.#secret(reference)
      else if (reference.name === "item" || reference.name === "index") this.#item(reference)
      else if (reference.name === "message") this.#message(reference)
    }
  }

  #report(code: "E111" | "E112", reference: Reference, message: string): void {
    this.#reported++
    this.#context.problems.add(code, this.path, message, { offset: reference.offset })
  }

  #nodes(reference: Reference, reads: Reads): void {
    const id = reference.path[0]
    if (id === undefined) {
      reads.anyNode()
      return
    }
    const position = this.#context.positions.get(String(id))
    if (position !== undefined && typeof id === "string") {
      reads.node(position, this, reference.offset)
      return
    }
    if (this.#context.brokenIds.has(String(id))) return
    const hint = this.#context.suggest.hint(String(id), this.#context.positions.keys())
    this.#report(
      "E111",
      reference,
      `There is no node ${JSON.stringify(id)}.${hint || " Add it, or correct the id."}`,
    )
  }

  #job(reference: Reference): void {
    const field = reference.path[0]
    if (field === undefined || jobFields.includes(field as (typeof jobFields)[number])) return
    const hint = this.#context.suggest.hint(String(field), jobFields)
    this.#report(
      "E111",
      reference,
      `"job" has no field ${JSON.stringify(field)}; it has ${jobFields.join(", ")}.${hint}`,
    )
  }

  #secret(reference: Reference): void {
    const { storedBecause, world } = this.#found.site
    if (storedBecause !== null) {
      const message = `A secret is not allowed here: ${storedBecause}. Use it in the config of the ${world.user} that needs it.`
      this.#report("E112", reference, message)
      return
    }
    if (typeof reference.path[0] === "string") return
    this.#report("E111", reference, 'A secret must be read by its name: "{{ secrets.NAME }}".')
  }

  #item(reference: Reference): void {
    if (this.#found.site.hasItem) return
    const where =
      this.#found.site.kind === "config"
        ? 'Add "for_each" to the node, or correct the name'
        : "Move it to the config"
    this.#report(
      "E111",
      reference,
      `"${reference.name}" exists only in the config of a node with "for_each". ${where}.`,
    )
  }

  #message(reference: Reference): void {
    if (this.#found.site.kind === "config") return
    const text =
      '"message" exists only in the config of an adapter. An initial message can use "input" and "job".'
    this.#report("E111", reference, text)
  }

  #unknown(reference: Reference): void {
    if (reference.offset < this.#reportedUpTo || this.#context.brokenIds.has(reference.name)) return
    const hyphenated = this.#hyphenatedId(reference.offset)
    if (hyphenated !== undefined) {
      this.#reportedUpTo = hyphenated.end
      const message = `"${hyphenated.id}" is parsed as a subtraction here. Write nodes["${hyphenated.id}"] to read that node.`
      this.#report("E111", reference, message)
      return
    }
    const { world } = this.#found.site
    if (reference.name === "loop") {
      const instead = world.names.includes("index") ? ' In a node with "for_each" use "index".' : ""
      this.#report("E111", reference, `"loop" exists only inside {% for %}.${instead || " Remove it."}`)
      return
    }
    const hint = this.#context.suggest.hint(reference.name, this.#knownNames())
    const advice = hint || ` Available are ${world.known}.`
    this.#report("E111", reference, `Unknown name "${reference.name}".${advice}`)
  }

  *#knownNames(): Iterable<string> {
    yield* this.#found.site.world.names
    yield* this.#context.positions.keys()
  }

  /** The node whose hyphenated id is written around `offset` like a plain name. */
  #hyphenatedId(offset: number): { id: string; end: number } | undefined {
    const { source } = this.#found.template
    let start = offset
    while (start > 0 && /[A-Za-z0-9_-]/.test(source[start - 1]!)) start--
    const run = /^[A-Za-z0-9_-]+/.exec(source.slice(start, start + 256))?.[0] ?? ""
    for (let length = run.length; length > 0; length = run.lastIndexOf("-", length - 1)) {
      const id = run.slice(0, length)
      const covers = id.includes("-") && start + length > offset
      if (covers && this.#context.positions.has(id)) return { id, end: start + length }
    }
    return undefined
  }
}
