/** Calls an adapter as an execution does, and keeps what it did. */
import type { Json } from "../../src/core/json.ts"
import { logTo } from "../../src/log.ts"
import { type Adapter, type AdapterContext, EmittedMessage } from "../../src/pipeline/adapter.ts"
import { type BuiltinAdapterSettings, builtinAdapters } from "../../src/pipeline/adapters/index.ts"
import { checkSchema } from "../../src/worker/output.ts"

export interface Given {
  readonly body?: Json
  readonly config?: unknown
  /** Number of the message. */
  readonly seq?: number
  readonly jobId?: string
  readonly owner?: string
  readonly signal?: AbortSignal
  readonly gathered?: readonly string[]
}

export interface Done {
  readonly answer: Json | undefined
  readonly emitted: { readonly body: Json; readonly kind: string }[]
  readonly continued: Json[]
  readonly submitted: unknown[]
  readonly logged: unknown[]
}

export const builtIn = (type: string, settings: Partial<BuiltinAdapterSettings> = {}): Adapter => {
  const all = builtinAdapters({ allowFiles: true, allowPrivateAddresses: true, ...settings })
  return all.find(adapter => adapter.type === type)!
}

export async function run(adapter: Adapter, given: Given = {}): Promise<Done> {
  const { body = null, seq = 1 } = given
  const done: Done & { answer: Json | undefined } = {
    answer: undefined,
    emitted: [],
    continued: [],
    submitted: [],
    logged: [],
  }
  const returned = adapter.process({ id: `route:${seq}`, body }, contextOf(adapter, given, done))
  if (typeof returned === "object" && returned !== null && isIterable(returned)) {
    for await (const each of returned) {
      const emitted = each instanceof EmittedMessage ? each : { body: each, kind: "default" }
      done.emitted.push({ body: emitted.body as Json, kind: emitted.kind })
    }
  } else done.answer = ((await returned) ?? undefined) as Json | undefined
  return done
}

const isIterable = (value: object): value is AsyncIterable<Json> =>
  (Symbol.iterator in value && !Array.isArray(value)) || Symbol.asyncIterator in value

export function configOf(adapter: Adapter, value: unknown = {}): unknown {
  return checkSchema({ schema: adapter.config!, value, what: `config of "${adapter.type}"`, code: "E403" })
}

function contextOf(adapter: Adapter, given: Given, done: Done): AdapterContext {
  const {
    seq = 1,
    jobId = "job-1",
    owner = "local",
    gathered = [],
    signal = new AbortController().signal,
  } = given
  return {
    config: configOf(adapter, given.config),
    jobId,
    owner,
    pipeline: "p",
    route: "route",
    attempt: 1,
    correlationId: "c",
    parent: null,
    idempotencyKey: `${jobId}/route:${seq}/0`,
    gathered,
    input: null,
    storage: { get: async () => undefined, put: () => {}, claim: async () => true },
    signal,
    log: logTo((level, fields, message) => done.logged.push({ level, fields, message })),
    emit: (body, { kind = "default" } = {}) => done.emitted.push({ body, kind }),
    continueWith: body => done.continued.push(body),
    submit: async (workflow, input, options) => {
      done.submitted.push({ workflow, input, ...options })
      return `job of ${workflow}`
    },
  }
}

/** Follows a source to its end. `config` may read the message, as templates do. */
export async function drain(
  adapter: Adapter,
  config: (body: Json) => unknown,
  { body = null, seen }: { body?: Json; seen?: (done: Done) => void } = {},
): Promise<{ bodies: Json[]; steps: number }> {
  const bodies: Json[] = []
  let steps = 0
  for (let next: Json | undefined = body; next !== undefined; steps++) {
    const done: Done = await run(adapter, { body: next, config: config(next) })
    if (seen) seen(done)
    else bodies.push(...done.emitted.map(each => each.body))
    next = done.continued[0]
  }
  return { bodies, steps }
}
