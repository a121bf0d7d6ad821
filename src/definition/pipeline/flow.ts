/**
 * Pipelines written in TypeScript: `pipeline("name", { input }, flow => …)`. As with `workflow`, the result is the plain
 * definition a person would write in YAML, with the same hash.
 */
import type { StandardSchemaV1 } from "@standard-schema/spec"
import type { Json } from "../../core/json.ts"
import type { RetryPolicy } from "../../core/plan.ts"
import { UmbraError } from "../../errors.ts"
import type { AdapterSpec } from "../adapter.ts"
import { idPattern, idWords } from "../names.ts"
import type { Workflow } from "../typed/builder.ts"
import { emit, written } from "../typed/emit.ts"
import { expression } from "../typed/expression.ts"
import type { ConfigOf, IsOptional, Known, Ref, Templated } from "../typed/flow.ts"
import { buildHead, type InputOptions, JobRefs, type Settings, useOnce } from "../typed/head.ts"
import { refTo } from "../typed/ref.ts"
import type { BackpressurePlan, BreakerPlan, PipelineTotals, RoutePlan } from "./plan.ts"
import type { AdapterDefinition, InitDefinition, PipelineDefinition, RouteDefinition } from "./schema.ts"

declare const bodyType: unique symbol

/** A queue with a type for its messages, shared by the routes that write to it and the one that reads it. */
export interface Queue<Body> {
  readonly name: string
  /** Exists for the compiler only. */
  readonly [bodyType]?: (body: Body) => Body
}

/** A class, so that a queue can be told from a mapping of kinds, one of which may be called "name". */
class NamedQueue<Body> implements Queue<Body> {
  readonly name: string

  constructor(name: string) {
    this.name = name
  }
}

// biome-ignore lint/suspicious/noExplicitAny: a queue of any messages
type AnyQueue = Queue<any> | string

export interface ErrorHandlingOptions {
  /** Retries of a message after the first attempt. */
  readonly retries?: number
  readonly backoff?: Partial<Omit<RetryPolicy, "maxAttempts">>
  readonly circuitBreaker?: Partial<BreakerPlan> | false
  /** false: a message that cannot be processed fails the job. */
  readonly deadLetter?: boolean
}

type Tuning = Partial<Pick<RoutePlan, "runOn" | "concurrency" | "prefetch">>

export interface RouteOptions<Body = unknown> extends Tuning {
  readonly inbound: Queue<Body> | string
  /** The queue for messages that its adapters emit, or one per kind. */
  readonly outbound?: AnyQueue | { readonly [kind: string]: AnyQueue }
  /** Messages started per second, at most. */
  readonly rate?: number
  readonly backpressure?: Partial<BackpressurePlan>
  readonly errorHandling?: ErrorHandlingOptions
}

/** With a function, the config can read the message that the adapter receives. */
type AdapterConfig<Config, Body> = Templated<Config> | ((message: Ref<Known<Body>>) => Templated<Config>)

type AdapterArguments<Config, Body> =
  IsOptional<Config> extends true
    ? [config?: AdapterConfig<Config, Body>]
    : [config: AdapterConfig<Config, Body>]

/** Any route that was added. */
export interface AnyRoute {
  readonly name: string
}

/** A route that was added. `Body` is what comes to the next adapter. */
export interface Route<Body> extends AnyRoute {
  /** Adds an adapter after the existing ones; the type of its result is unknown, so use `cast` for the next one. */
  adapter<A extends AdapterSpec>(adapter: A, ...config: AdapterArguments<ConfigOf<A>, Body>): Route<Json>
}

/** The result of a builder. A function outside the class, so that users of the builder do not see it. */
let readContent: (flow: PipelineFlow<unknown>) => {
  readonly routes: RouteDefinition[]
  readonly init: InitDefinition[]
  readonly adapters: readonly AdapterSpec[]
}

export class PipelineFlow<Input> extends JobRefs {
  /** The job's input, with defaults filled in. */
  readonly input: Ref<Known<Input>> = refTo(expression("input", this.origins, true))
  readonly #name: string
  readonly #routes = new Map<string, RouteDefinition>()
  readonly #init: InitDefinition[] = []
  readonly #adapters = new Map<string, AdapterSpec>()

  static {
    readContent = flow => ({
      routes: [...flow.#routes.values()],
      init: flow.#init,
      adapters: [...flow.#adapters.values()],
    })
  }

  constructor(name: string) {
    super()
    this.#name = name
  }

  /** A queue whose messages have this type. Without a type, the name alone is enough. */
  queue<Body>(name: string): Queue<Body> {
    return new NamedQueue(name)
  }

  /** An initial message of the job; without a body, the job's input. Default: one for the first route. */
  init<Body>(queue: Queue<Body> | string, body?: Templated<Body>): void {
    const place = { path: `init[${this.#init.length}].body`, origins: this.origins }
    this.#init.push({
      queue: queueName(queue),
      ...(body !== undefined && { body: emit(body, place) }),
    })
  }

  /** Adds a route; add its adapters to the result. */
  route<Body>(name: string, options: RouteOptions<Body>): Route<Body> {
    checkName(name, this.#routes.has(name))
    const { inbound, outbound, ...rest } = options
    const adapters: AdapterDefinition[] = []
    this.#routes.set(name, {
      name,
      inbound: queueName(inbound),
      ...(outbound !== undefined && { outbound: outboundNames(outbound) }),
      ...written(rest),
      adapters,
    })
    const add = (adapter: AdapterSpec, config: unknown): void => {
      adapters.push(this.#adapter(adapter, config, `routes.${name}.adapters[${adapters.length}].config`))
    }
    const route: Route<Json> = {
      name,
      adapter(adapter, ...[config]) {
        add(adapter, config)
        return route
      },
    }
    return route as unknown as Route<Body>
  }

  #adapter(adapter: AdapterSpec, config: unknown, path: string): AdapterDefinition {
    const { type } = adapter
    const owner = `pipeline ${JSON.stringify(this.#name)}`
    useOnce(this.#adapters, { name: type, thing: adapter, what: "adapter", owner })
    // An origin of its own: at every adapter `message` has another meaning.
    const mine = {}
    const given =
      typeof config === "function" ? config(refTo(expression("message", new Set([mine]), true))) : config
    if (given === undefined) return { type }
    const place = { path, origins: new Set([...this.origins, mine]) }
    return { type, config: emit(given, place) as Record<string, unknown> }
  }
}

const queueName = (queue: AnyQueue): string => (typeof queue === "string" ? queue : queue.name)

function outboundNames(outbound: NonNullable<RouteOptions["outbound"]>): string | Record<string, string> {
  if (typeof outbound === "string") return outbound
  if (outbound instanceof NamedQueue) return outbound.name
  return Object.fromEntries(Object.entries(outbound).map(([kind, queue]) => [kind, queueName(queue)]))
}

/** Checked here as well as by the compiler: here the stack trace points at the line that added the route. */
function checkName(name: string, taken: boolean): void {
  if (taken)
    throw new UmbraError(
      "E104",
      `there is already a route ${JSON.stringify(name)}. Give this one another name.`,
    )
  if (!idPattern.test(name))
    throw new UmbraError("E101", `${JSON.stringify(name)} is not a valid route name. Use ${idWords}.`)
}

interface PipelineSettings extends Settings {
  /** How many routes a message and its predecessors may pass after an initial message; required if routes form a cycle. */
  readonly maxHops?: number
  /** With more dead letters the job fails: a whole number, or (0.05) a share of the messages of any one route. */
  readonly maxDeadLetters?: number
}

export type PipelineOptions<S extends StandardSchemaV1> = PipelineSettings & InputOptions<S>

type Build<Input> = (flow: PipelineFlow<Input>) => unknown
type Pipeline<Input> = Workflow<Input, PipelineTotals, PipelineDefinition>

export function pipeline(name: string, build: Build<unknown>): Pipeline<unknown>
export function pipeline(
  name: string,
  options: PipelineSettings & { readonly input?: never },
  build: Build<unknown>,
): Pipeline<unknown>
export function pipeline<S extends StandardSchemaV1>(
  name: string,
  options: PipelineOptions<S>,
  build: Build<StandardSchemaV1.InferOutput<S>>,
): Pipeline<StandardSchemaV1.InferInput<S>>
export function pipeline(name: string, ...rest: unknown[]): Pipeline<unknown> {
  const build = rest.pop() as Build<unknown>
  const options = (rest[0] ?? {}) as PipelineSettings & Partial<InputOptions<StandardSchemaV1>>
  const flow = new PipelineFlow<unknown>(name)
  build(flow)
  const { routes, init, adapters } = readContent(flow)
  const definition: PipelineDefinition = {
    ...buildHead(name, options),
    ...(options.maxHops !== undefined && { max_hops: options.maxHops }),
    ...(options.maxDeadLetters !== undefined && { max_dead_letters: options.maxDeadLetters }),
    ...(init.length > 0 && { init }),
    routes,
  }
  return Object.freeze({
    name,
    definition,
    handlers: Object.freeze([]),
    adapters,
    workflows: Object.freeze([]),
  })
}
