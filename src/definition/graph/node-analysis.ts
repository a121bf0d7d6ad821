/** The nodes of one workflow: ids, handlers, configs, templates and the dependencies that follow from them. */
import type { Adjacency } from "../../core/plan.ts"
import { insteadOfText } from "../../template/index.ts"
import type { ValueTemplate } from "../../template/types.ts"
import type { Work } from "../../turns.ts"
import type { ShapeContext } from "../document/issues.ts"
import { emptyObject, isObject, sortedCopy } from "../document/json-value.ts"
import type { HandlerCatalog, HandlerSpec } from "../handler.ts"
import { idPattern, reservedIds } from "../names.ts"
import { type DocumentPath, firstPositions, problemsInOnePiece } from "../problem.ts"
import { checkConfig, trimExpressions } from "../shape/config.ts"
import type { NodeDefinition } from "../shape/schema.ts"
import type { SoundNode } from "../shape/shape.ts"
import { compileTemplates } from "../templates.ts"
import type { AnalysedNode } from "./analysis.ts"
import { RowBuilder } from "./graph.ts"
import {
  checkReferences,
  type ReferenceContext,
  type ReferencePlace,
  sites,
  storedConfig,
  type TemplateSite,
} from "./references.ts"
import { SignalSchemas } from "./signals.ts"
import type { EdgeOrigin } from "./structure.ts"

export interface NodeAnalysisOptions extends ShapeContext {
  readonly handlers: HandlerCatalog
  /** The entries as written. */
  readonly sources: readonly unknown[]
  /** The same entries, if their shape is valid. */
  readonly definitions: readonly (SoundNode | undefined)[]
  readonly rules: number
}

const nothingRead = new Int32Array(0)

export class NodeAnalysis {
  readonly ids: readonly (string | undefined)[]
  readonly positions: ReadonlyMap<string, number>
  readonly #options: NodeAnalysisOptions
  readonly #references: ReferenceContext
  readonly #rows: RowBuilder
  readonly #analysed: (AnalysedNode | undefined)[] = []
  readonly #seen: SeenMarks
  readonly #signals: SignalSchemas

  constructor(options: NodeAnalysisOptions) {
    this.#options = options
    this.ids = options.sources.map(usableId)
    const { problems, suggest } = options
    this.#signals = new SignalSchemas(problems)
    this.positions = firstPositions(this.ids, (id, position, first) => {
      const message = `nodes[${first}] already has the id "${id}". Rename one of the two.`
      problems.add("E104", ["nodes", position, "id"], message)
    })
    const brokenIds = collectBrokenIds(options.sources, this.ids)
    this.#references = { problems, suggest, positions: this.positions, brokenIds }
    this.#rows = new RowBuilder(this.ids.length)
    this.#seen = { edges: new Int32Array(this.ids.length), reads: new Int32Array(this.ids.length) }
  }

  /** `undefined` if the limit of edges was exceeded: then the graph is not complete. */
  *analyse(): Work<readonly (AnalysedNode | undefined)[] | undefined> {
    const { definitions, limits, problems } = this.#options
    for (let position = 0; position < definitions.length; position++) {
      const definition = definitions[position]
      if (definition === undefined) this.#rows.add([])
      this.#analysed.push(definition && this.#node(definition, position))
      yield
      if (this.#rows.size <= limits.edges) continue
      const message = `The workflow has more than ${limits.edges} dependencies (limit edges). Add intermediate nodes that join dependencies, or split the workflow.`
      problems.add("E101", ["nodes", position], message)
      return undefined
    }
    return this.#analysed
  }

  checkOutput(output: ValueTemplate): void {
    const reads = { node: () => {}, anyNode: () => {} }
    checkReferences({ value: output, path: ["output"], site: sites.output, reads }, this.#references)
  }

  dependencies(): Adjacency {
    return this.#rows.build()
  }

  readonly findOrigin = (from: number, to: number): EdgeOrigin => {
    const path = ["nodes", from]
    const declared = this.#options.definitions[from]?.dependencies?.indexOf(this.ids[to]!) ?? -1
    if (declared >= 0) return { path: [...path, "dependencies", declared], byTemplate: false }
    const node = this.#analysed[from]
    const values = { config: node?.config, when: node?.when, for_each: node?.forEach }
    for (const [key, value] of Object.entries(values)) {
      for (const { path: inner, template } of value?.templates ?? []) {
        const reference = template.references.find(
          ({ name, path }) => (name === "nodes" ? path[0] : name) === this.ids[to],
        )
        if (reference !== undefined)
          return { path: [...path, key, ...inner], offset: reference.offset, byTemplate: true }
      }
    }
    return { path, byTemplate: false }
  }

  #node(definition: SoundNode, position: number): AnalysedNode {
    const handler = this.#handler(definition, position)
    const given = this.#compile(definition.config ?? emptyObject, position, "config")
    const config = handler === undefined ? given : trimExpressions(handler, given)
    if (handler?.config !== undefined) {
      const path = () => ["nodes", position, "config"]
      const title = `handler "${handler.name}"`
      checkConfig({ owner: handler, title, config: config.source, path }, this.#options)
    }
    if (handler?.needsProvider === true && definition.provider == null) {
      const message = `Handler "${handler.name}" needs "provider": the provider does the node's work. Add it to the node.`
      this.#options.problems.add("E101", ["nodes", position, "handler"], message)
    }
    if (handler?.providerHeaders !== undefined && definition.provider != null && this.#options.rules >= 2)
      this.#checkHeaders(handler.providerHeaders, config.source, position)
    const node = {
      definition: definition as NodeDefinition,
      config,
      when: this.#when(definition, position),
      forEach:
        definition.for_each == null ? null : this.#expression(definition.for_each, position, "for_each"),
      reads: nothingRead as Int32Array,
      signal: handler === undefined ? undefined : this.#signals.add(handler, config, position),
    }
    node.reads = this.#edges(node, position, handler?.storesConfig === true)
    return node
  }

  #checkHeaders(refused: readonly string[], config: unknown, position: number): void {
    const headers = isObject(config) && isObject(config.headers) ? Object.keys(config.headers) : []
    for (const name of headers.filter(header => refused.includes(header.toLowerCase()))) {
      const message = `A node with "provider" cannot set the header "${name}": the provider's own address determines the host. Remove the header.`
      this.#options.problems.add("E102", ["nodes", position, "config", "headers", name], message)
    }
  }

  #when({ when }: SoundNode, position: number): ValueTemplate | null {
    if (when == null || when === true) return null
    return this.#options.rules < 2
      ? this.#compile(when, position, "when")
      : this.#expression(when, position, "when")
  }

  /** One expression, or a literal; white space around the expression is ignored. */
  #expression(value: unknown, position: number, key: "when" | "for_each"): ValueTemplate {
    const compiled = this.#compile(typeof value === "string" ? value.trim() : value, position, key)
    const whole = compiled.templates[0]
    if (whole === undefined || whole.path.length > 0 || !whole.template.yieldsText) return compiled
    // For a version stored before 0.2, the node fails, not its job.
    if (whole.template.isExpression && this.#options.rules < 2) return compiled
    const yields = key === "when" ? "true or false" : "a list"
    const message = `"${key}" yields text here. ${insteadOfText(whole.template, yields)}`
    this.#options.problems.add("E101", ["nodes", position, key], message)
    return compiled
  }

  #compile(value: unknown, position: number, key: string): ValueTemplate {
    return compileTemplates(sortedCopy(value), () => ["nodes", position, key], this.#options.problems)
  }

  #handler(definition: SoundNode, position: number): HandlerSpec | undefined {
    if (definition.handler === undefined) return undefined
    const { handlers, problems, suggest } = this.#options
    const handler = handlers.get(definition.handler)
    if (handler !== undefined) return handler
    const advice = suggest.advice(definition.handler, handlers.names())
    problems.add(
      "E103",
      ["nodes", position, "handler"],
      `There is no handler "${definition.handler}". ${advice}`,
    )
    return undefined
  }

  #edges(node: AnalysedNode, position: number, storesConfig: boolean): Int32Array {
    const { definition, config, when, forEach } = node
    const edges = new NodeEdges(position, this.#seen)
    const dependencies: readonly unknown[] = definition.dependencies ?? []
    const most = this.#options.problems.size + problemsInOnePiece
    for (let i = 0; i < dependencies.length && this.#options.problems.size < most; i++) {
      const id = dependencies[i]
      if (typeof id !== "string") continue
      const to = this.positions.get(id)
      if (to === undefined) this.#missing(id, ["nodes", position, "dependencies", i])
      else if (!edges.declare(to)) this.#self(definition, ["nodes", position, "dependencies", i])
    }
    const onNode = (to: number, place: ReferencePlace, offset: number): void => {
      if (!edges.read(to)) this.#self(definition, place.path, offset)
    }
    const reads = { node: onNode, anyNode: () => edges.readAny() }
    const check = (value: ValueTemplate | null, key: string, site: TemplateSite): void => {
      if (value === null || value.templates.length === 0) return
      checkReferences({ value, path: ["nodes", position, key], site, reads }, this.#references)
    }
    const hasItem = definition.for_each != null
    check(config, "config", storesConfig ? storedConfig(hasItem) : hasItem ? sites.itemConfig : sites.config)
    check(when, "when", sites.when)
    check(forEach, "for_each", sites.for_each)
    this.#rows.add(edges.dependencies())
    return edges.reads()
  }

  #self(definition: SoundNode, path: DocumentPath, offset?: number): void {
    const message = `The node "${definition.id}" depends on itself. Remove the dependency, or name another node.`
    this.#options.problems.add("E106", path, message, offset === undefined ? {} : { offset })
  }

  #missing(id: string, path: DocumentPath): void {
    if (this.#references.brokenIds.has(id)) return
    const hint = this.#options.suggest.hint(id, this.positions.keys())
    const message = `There is no node ${JSON.stringify(id.slice(0, 200))}.${hint || " Add it, or remove the dependency."}`
    this.#options.problems.add("E105", path, message)
  }
}

/** The id of an entry, if others can refer to it. */
function usableId(source: unknown): string | undefined {
  if (!isObject(source)) return undefined
  const { id } = source
  return typeof id === "string" && idPattern.test(id) && !reservedIds.has(id) ? id : undefined
}

/** Possible ids of entries without a valid id: any text in them. */
function collectBrokenIds(sources: readonly unknown[], ids: readonly (string | undefined)[]): Set<string> {
  const broken = new Set<string>()
  sources.forEach((source, i) => {
    if (ids[i] !== undefined) return
    const values = isObject(source) ? Object.values(source) : [source]
    for (const value of values)
      if (typeof value === "string" || typeof value === "number") broken.add(String(value))
  })
  return broken
}

/** For every node, the last node (its position + 1) that depends on it: this avoids a set per node. */
interface SeenMarks {
  readonly edges: Int32Array
  readonly reads: Int32Array
}

const byPosition = (a: number, b: number): number => a - b

/** The dependencies of one node, declared or read by templates, each once, and which of them its templates read. */
class NodeEdges {
  readonly #position: number
  readonly #seen: SeenMarks
  readonly #edges: number[] = []
  readonly #reads: number[] = []
  #readsAny = false
  #needsItself = false

  constructor(position: number, seen: SeenMarks) {
    this.#position = position
    this.#seen = seen
  }

  /** False the first time that the node depends on itself. */
  declare(to: number): boolean {
    if (to === this.#position) {
      const isNew = !this.#needsItself
      this.#needsItself = true
      return !isNew
    }
    if (this.#seen.edges[to] !== this.#position + 1) {
      this.#seen.edges[to] = this.#position + 1
      this.#edges.push(to)
    }
    return true
  }

  /** As `declare`, for a dependency of a template. */
  read(to: number): boolean {
    if (to !== this.#position && this.#seen.reads[to] !== this.#position + 1) {
      this.#seen.reads[to] = this.#position + 1
      this.#reads.push(to)
    }
    return this.declare(to)
  }

  /** An id that is computed when the node runs may be any of its dependencies. */
  readAny(): void {
    this.#readsAny = true
  }

  dependencies(): number[] {
    return this.#edges.length > 1 ? this.#edges.sort(byPosition) : this.#edges
  }

  reads(): Int32Array {
    const reads = this.#readsAny ? this.#edges : this.#reads
    return reads.length === 0
      ? nothingRead
      : new Int32Array(reads.length > 1 ? reads.sort(byPosition) : reads)
  }
}
