/** The argument of a builder function: it adds nodes and reads the job's input. */

import type { StandardSchemaV1 } from "@standard-schema/spec"
import type { Json } from "../../core/json.ts"
import type { RetryPolicy } from "../../core/plan.ts"
import { UmbraError } from "../../errors.ts"
import type { HandlerSpec } from "../handler.ts"
import { defaultLimits } from "../limits.ts"
import { idPattern, reservedIds } from "../names.ts"
import type { NodeDefinition } from "../shape/schema.ts"
import type { Workflow } from "./builder.ts"
import { emit, type Place, written } from "./emit.ts"
import { expression, nodePath } from "./expression.ts"
import { JobRefs, useOnce } from "./head.ts"
import { refTo } from "./ref.ts"

type NodeArguments<Config, Options> =
  IsOptional<Config> extends true
    ? [config?: Templated<Config>, options?: Options]
    : [config: Templated<Config>, options?: Options]

type WithWhen<Output, Options> = Options extends { readonly when: unknown } ? Skippable<Output> : Output

/** The result of a builder. A function outside the class, so that users of the builder do not see it. */
export let readContent: (flow: AnyFlow) => {
  readonly nodes: NodeDefinition[]
  readonly handlers: readonly HandlerSpec[]
  readonly workflows: readonly Workflow[]
  /** The path of a value, and the builders whose refs may occur in it. */
  readonly place: (path: string) => Place
}

const transform: HandlerSpec = { name: "transform" }
/** The handler of a child job, which is also the key of its config. */
const childHandler = ({ definition }: Workflow) => ("routes" in definition ? "pipeline" : "workflow")

/** Any builder, whatever its job's input: for functions that add nodes to several workflows. */
export class AnyFlow extends JobRefs {
  readonly #name: string
  readonly #nodes = new Map<string, NodeDefinition>()
  readonly #added = new Set<AnyNode>()
  readonly #handlers = new Map<string, HandlerSpec>()
  readonly #workflows = new Map<string, Workflow>()

  static {
    readContent = flow => ({
      nodes: [...flow.#nodes.values()],
      handlers: [...flow.#handlers.values()],
      workflows: [...flow.#workflows.values()],
      place: path => flow.#place(path),
    })
  }

  constructor(name: string) {
    super()
    this.#name = name
  }

  /** Adds a node. Nodes whose output the config or `when` reads become dependencies automatically. */
  node<H extends HandlerSpec, const Options extends NodeOptions = NodeOptions>(
    id: string,
    handler: H,
    ...[config, options]: NodeArguments<ConfigOf<H>, Options>
  ): NodeHandle<WithWhen<OutputOf<H>, Options>> {
    this.#use(handler)
    return this.#add({ id, handler: handler.name, config, options: options ?? {} })
  }

  /** Adds a `transform` node: computes a value that several nodes can read. */
  transform<const Value extends TemplatedJson, const Options extends NodeOptions = NodeOptions>(
    id: string,
    value: Value,
    options?: Options,
  ): NodeHandle<WithWhen<Resolved<Value>, Options>> {
    return this.#add({ id, handler: transform.name, config: { value }, options: options ?? {} })
  }

  /** Adds a node that runs once per item of a list; its output is the list of their outputs. */
  each<H extends HandlerSpec, Item, const Options extends EachOptions = EachOptions>(
    id: string,
    handler: H,
    items: RefOf<readonly Item[]> | readonly Item[],
    config: (item: Ref<Item>, index: Ref<number>) => Templated<ConfigOf<H>>,
    options?: Options,
  ): NodeHandle<WithWhen<OutputOf<H>[], Options>> {
    this.#use(handler)
    return this.#addEach({ id, handler: handler.name, items, config, options })
  }

  /** Adds a node that runs another workflow, or a pipeline, as a child job; its output is that job's. */
  run<Input, Output, const Options extends RunOptions = RunOptions>(
    id: string,
    child: Workflow<Input, Output>,
    input?: Templated<Input>,
    options?: Options,
  ): NodeHandle<WithWhen<Known<Output>, Options>> {
    const config = this.#childConfig(child, input, options)
    return this.#add({ id, handler: childHandler(child), config, options: options ?? {} })
  }

  /** Adds a node that runs another workflow once per item of a list, each as a child job. */
  runEach<Input, Output, Item, const Options extends RunEachOptions = RunEachOptions>(
    id: string,
    child: Workflow<Input, Output>,
    items: RefOf<readonly Item[]> | readonly Item[],
    input: (item: Ref<Item>, index: Ref<number>) => Templated<Input>,
    options?: Options,
  ): NodeHandle<WithWhen<Known<Output>[], Options>> {
    const config = (item: Ref<Item>, index: Ref<number>) =>
      this.#childConfig(child, input(item, index), options)
    return this.#addEach({ id, handler: childHandler(child), items, config, options })
  }

  #addEach<Item, Output>(each: {
    id: string
    handler: string
    items: RefOf<readonly Item[]> | readonly Item[]
    config: (item: Ref<Item>, index: Ref<number>) => unknown
    options: EachOptions | undefined
  }): NodeHandle<Output> {
    // An origin of its own: `item` is invalid in any other node.
    const origins: ReadonlySet<object> = new Set([{}])
    const item = refTo<Item>(expression("item", origins, true))
    const index = refTo<number>(expression("index", origins, true))
    const { id, handler, items, options } = each
    const config = each.config(item, index)
    return this.#add({ id, handler, config, options: options ?? {}, forEach: items }, origins)
  }

  #childConfig(child: Workflow, input: unknown, options: RunOptions | undefined): TemplatedJson {
    const known = this.#workflows.get(child.name)
    if (known !== undefined && known !== child)
      throw new UmbraError(
        "E104",
        `workflow ${JSON.stringify(this.#name)} runs two different workflows called ${JSON.stringify(child.name)}. ` +
          "Rename one of them.",
      )
    this.#workflows.set(child.name, child)
    const reference = options?.at === undefined ? child.name : `${child.name}@${options.at}`
    return {
      [childHandler(child)]: reference,
      ...(input === undefined ? {} : { input: input as TemplatedJson }),
    }
  }

  #place(path: string, more: Iterable<object> = []): Place {
    return { path, origins: new Set([...this.origins, ...more]) }
  }

  #add<Output>(content: NodeContent, origins?: Iterable<object>): NodeHandle<Output> {
    const { id } = content
    checkId(id, this.#nodes.has(id))
    this.#nodes.set(id, nodeDefinition(content, this.#place(`nodes.${id}`, origins), this.#added))
    const handle = new AddedNode<Output>(id, refTo(expression(nodePath(id), this.origins, true)))
    this.#added.add(handle)
    return handle
  }

  #use(handler: HandlerSpec): void {
    const owner = `workflow ${JSON.stringify(this.#name)}`
    useOnce(this.#handlers, { name: handler.name, thing: handler, what: "handler", owner })
  }
}

export class Flow<Input> extends AnyFlow {
  /** The job's input, with defaults filled in. */
  readonly input: Ref<Known<Input>> = refTo(expression("input", this.origins, true))
}

/** One node of a builder: its options and its handle. */
export type RetryOptions = Partial<RetryPolicy>

export interface NodeOptions {
  /** Nodes that must be done first, in addition to those whose output the config reads. */
  readonly after?: readonly AnyNode[]
  /** If false, the node is skipped and its output is `{"skipped": true}`, so all its other fields may be missing. */
  readonly when?: Templated<boolean>
  readonly timeoutSeconds?: number
  /** An attempt is aborted and fails if its handler sends no heartbeat (`ctx.heartbeat()`) for this time. */
  readonly heartbeatSeconds?: number
  readonly retry?: RetryOptions
  /** External service whose slots and rate limit the node uses. */
  readonly provider?: string
}

export interface EachOptions extends NodeOptions {
  /** Items that may run at the same time. */
  readonly maxParallel?: number
  /** false: when an item fails, the others continue, and the node fails when all have ended. */
  readonly failFast?: boolean
}

/** For a node that runs another workflow. */
export interface RunOptions extends NodeOptions {
  /** Its version: a number or an alias. Left out: the latest when the node starts. */
  readonly at?: number | string
}

export interface RunEachOptions extends EachOptions {
  readonly at?: number | string
}

/** Any node that was added. */
interface AnyNode {
  readonly id: string
  readonly output: RefOf<unknown>
}

/** A node that was added. Later nodes read its output. */
export interface NodeHandle<Output> extends AnyNode {
  readonly output: Ref<Output>
}

/** A class, so that a handle passed by mistake instead of its output can be told from plain data. */
class AddedNode<Output> implements NodeHandle<Output> {
  readonly id: string
  readonly output: Ref<Output>

  constructor(id: string, output: Ref<Output>) {
    this.id = id
    this.output = output
  }
}

interface NodeContent {
  readonly id: string
  readonly handler: string
  readonly config: unknown
  readonly options: EachOptions
  readonly forEach?: RefOf<readonly unknown[]> | readonly unknown[]
}

/** `owned`: the handles of the same flow, since an id alone could be that of another workflow's node. */
function nodeDefinition(node: NodeContent, place: Place, owned: ReadonlySet<unknown>): NodeDefinition {
  const { id, handler, config, options, forEach } = node
  const { timeoutSeconds, heartbeatSeconds, retry, provider, maxParallel, failFast } = options
  const at = (key: string): Place => ({ ...place, path: `nodes.${id}.${key}` })
  const dependencies = options.after?.map(other => dependencyId(id, other, owned))
  return {
    id,
    handler,
    ...(config !== undefined && { config: emit(config, at("config")) as Record<string, unknown> }),
    ...(dependencies?.length && { dependencies }),
    ...written({ timeoutSeconds, heartbeatSeconds, retry, provider, maxParallel, failFast }),
    ...(options.when !== undefined && { when: emit(options.when, at("when")) as string | boolean }),
    ...(forEach !== undefined && { for_each: emit(forEach, at("for_each")) as string | unknown[] }),
  }
}

function dependencyId(id: string, other: AnyNode, owned: ReadonlySet<unknown>): string {
  if (owned.has(other)) return other.id
  throw new UmbraError(
    "E105",
    `node ${JSON.stringify(id)}: after: [${String(other?.id)}] is not a node of this workflow. ` +
      "Use what this flow's node() returned.",
  )
}

/** Checked here as well as by the compiler: here the stack trace points at the line that added the node. */
function checkId(id: string, taken: boolean): void {
  if (taken)
    throw new UmbraError("E104", `there is already a node ${JSON.stringify(id)}. Give this one another id.`)
  if (reservedIds.has(id)) {
    throw new UmbraError(
      "E101",
      `a node cannot be called ${JSON.stringify(id)}: templates use that name. Rename it.`,
    )
  }
  if (!idPattern.test(id) || id.length > defaultLimits.idLength) {
    throw new UmbraError(
      "E101",
      `${JSON.stringify(id)} is not a valid node id. Use letters, digits, _ and -, starting with a letter or _, ` +
        `at most ${defaultLimits.idLength} characters.`,
    )
  }
}

/**
 * The types of the builder; nothing here exists at run time.
 *
 * A `Ref<T>` represents a value of type T that is known only when the job runs. Reading a field of it gives a ref to
 * that field, so every operation is a function (`orElse`, `cast`, …) and never a method: no field name of user data can
 * collide with a method name.
 */

declare const refersTo: unique symbol

/** The part of a ref that carries its type. Covariant: a ref to a string is also a ref to `string | undefined`. */
export interface RefOf<T> {
  readonly [refersTo]: T
}

/** A value known only when the job runs. A value that may be missing (`T | undefined`) has no fields before `orElse`. */
export type Ref<T> = RefOf<T> & Fields<T>

type IsAny<T> = 0 extends 1 & T ? true : false

/** A part that a schema declares as `any` stays `any`, at any depth. */
// biome-ignore lint/suspicious/noExplicitAny: it is the author's any, passed on
type Unchecked = any

/** `unknown` is some JSON: it can be passed on as a whole, and `cast` states its type. */
export type Known<T> = IsAny<T> extends true ? Unchecked : unknown extends T ? Json : T

/** Names that JavaScript itself reads from values; use `expr` for data under such a name. */
type Unreachable = "then" | "toJSON" | symbol

type FieldOf<T, K extends keyof T> = Known<T[K]> | (object extends Pick<T, K> ? undefined : never)

/**
 * Items of a list. An index past the end fails the node with E201 when the job runs, as in plain TypeScript without
 * `noUncheckedIndexedAccess`; with that flag, the named items need no `!`.
 */
type Items<E> = { readonly [I in -1 | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9]: Ref<Known<E>> } & {
  readonly [index: number]: Ref<Known<E>>
}

/** Keys of a mapping with any names: each may be missing. */
type Entries<T> = { readonly [key: string]: Ref<Known<T[keyof T]> | undefined> }

type Members<T> = { readonly [K in Exclude<keyof T, Unreachable>]: Ref<FieldOf<T, K>> }

type TupleMembers<T extends readonly unknown[]> = {
  readonly [K in Extract<keyof T, `${number}`>]: Ref<Known<T[K]>>
}

// Wrapped in tuples so that a union is taken as a whole: only fields that all its members share can be read.
type Fields<T> =
  IsAny<T> extends true
    ? Unchecked
    : [T] extends [readonly (infer E)[]]
      ? number extends T["length"]
        ? Items<E>
        : TupleMembers<T>
      : [T] extends [object]
        ? string extends keyof T
          ? Entries<T>
          : Members<T>
        : unknown

type Scalar = string | number | boolean | null

/** Any JSON with refs at any depth; none of them may be missing. */
export type TemplatedJson =
  | Scalar
  // biome-ignore lint/complexity/noBannedTypes: `{} | null` is exactly "anything but undefined"
  | RefOf<{} | null>
  | readonly TemplatedJson[]
  | { readonly [key: string]: TemplatedJson | undefined }

/** A T in which any part may be a ref instead of a literal. */
export type Templated<T> =
  IsAny<T> extends true
    ? TemplatedJson
    : // `[]`: otherwise the type would distribute over each kind of JSON, without end.
      [Json] extends [T]
      ? TemplatedJson
      : RefOf<Exclude<T, undefined>> | TemplatedParts<Exclude<T, undefined>>

type TemplatedParts<T> = T extends Scalar
  ? T
  : T extends readonly unknown[]
    ? { readonly [K in keyof T]: Templated<T[K]> }
    : T extends object
      ? { readonly [K in keyof T]: Templated<T[K]> | (object extends Pick<T, K> ? undefined : never) }
      : never

/** The type of a templated value when the job runs. */
export type Resolved<V> =
  IsAny<V> extends true
    ? Unchecked
    : V extends RefOf<infer T>
      ? T
      : V extends Json
        ? V
        : { readonly [K in keyof V]: Resolved<V[K]> }

/** The type of a ref's value, if it has one. */
export type Present<R> =
  IsAny<R> extends true ? Unchecked : R extends RefOf<infer T> ? Exclude<T, undefined> : never

/** The output of a node with `when`: if skipped, it is `{"skipped": true}` and every other field is missing (J12). */
export type Skippable<T> =
  IsAny<T> extends true
    ? Unchecked
    : [T] extends [readonly unknown[]]
      ? T | { readonly skipped: true }
      : [T] extends [object]
        ? Partial<T> & { readonly skipped?: true }
        : T | { readonly skipped: true }

type SchemaInput<S> = S extends StandardSchemaV1 ? StandardSchemaV1.InferInput<S> : unknown
type SchemaOutput<S> = S extends StandardSchemaV1 ? StandardSchemaV1.InferOutput<S> : unknown

/** A `HandlerSpec<Config, Output>` without the types of its schemas has only the type of the parsed config. */
type InputOrOutput<S> = unknown extends SchemaInput<S> ? SchemaOutput<S> : SchemaInput<S>

/** The config of a handler or adapter, before defaults are filled in. */
export type ConfigOf<H extends Pick<HandlerSpec, "config">> = InputOrOutput<NonNullable<H["config"]>>

/** Config may be left out if nothing in it is required. */
export type IsOptional<Config> = undefined extends Config
  ? true
  : Record<never, never> extends Config
    ? true
    : false

/** The output of a node with this handler. */
export type OutputOf<H extends HandlerSpec> = Known<SchemaOutput<NonNullable<H["output"]>>>
