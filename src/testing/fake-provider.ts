/**
 * A provider for tests: a REST service on 127.0.0.1 that accepts operations, reports their state, cancels them and sends
 * signed webhooks. It plays a script for each operation, or follows commands (`complete`, `fail`, `deliver` …), and keeps
 * its own log: its data about slots and keys does not come from the engine under test.
 */

import { createHmac, randomUUID } from "node:crypto"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import type { Json } from "../core/json.ts"
import { valueIn } from "../core/maps.ts"
import type { HttpProviderDefinition } from "../provider/http-spec.ts"

export interface FakeProviderOptions {
  /** The address for webhooks, read for each; null: none are sent. Can also be set later. */
  readonly webhookUrl?: string | (() => string | null)
  /** The secret that signs webhooks. */
  readonly secret?: string
  /** Is the time signed too, so that a replay can be detected? */
  readonly signsTime?: boolean
  /** The script of an operation, requested when its key is first seen. Without a script it runs until a method ends it. */
  readonly script?: (submission: { readonly key: string; readonly request: Json }) => FakeScript
  /** The limit of concurrent operations above which `overLimit` is raised. */
  readonly limit?: number
}

/** A fault for the next requests to `route`, of any operation. */
export interface Misbehaviour extends FakeAnswer {
  readonly route: Route
  readonly times?: number
}

type Route = "submit" | "poll" | "cancel"

/** One webhook that was sent. */
export interface FakeDelivery {
  readonly id: string
  readonly isGenuine: boolean
  /** null: it was not received. */
  readonly status: number | null
}

/** One request that was received. */
export interface FakeRequest {
  /** Milliseconds since 1970. */
  readonly at: number
  readonly method: string
  readonly url: string
  readonly authorization: string | null
}

export async function startFakeProvider(options: FakeProviderOptions = {}): Promise<FakeProvider> {
  const fake = new FakeProvider(options)
  await fake.listen()
  return fake
}

export class FakeProvider {
  readonly operations = new Map<string, FakeOperation>()
  readonly deliveries: FakeDelivery[] = []
  /** All requests in order, including unknown ones. */
  readonly requests: FakeRequest[] = []
  readonly secret: string
  webhookUrl: FakeProviderOptions["webhookUrl"] | null
  /** Most operations that ran at the same time, and how often that exceeded the limit. */
  mostAtOnce = 0
  overLimit = 0
  cancels = 0
  /** Number of operations that run right now. */
  running = 0
  readonly #byKey = new Map<string, FakeOperation>()
  readonly #plays = new Map<string, Play>()
  readonly #performances = new Set<Promise<void>>()
  readonly #options: FakeProviderOptions
  readonly #server: Server
  readonly #pauses = new Map<NodeJS.Timeout, () => void>()
  readonly #wrong: { what: Misbehaviour; left: number }[] = []
  readonly #held = new Map<string, () => void>()
  #isClosed = false

  constructor(options: FakeProviderOptions) {
    this.#options = options
    this.webhookUrl = options.webhookUrl ?? null
    this.secret = options.secret ?? "fake-provider-secret"
    this.#server = createServer((request, response) => void this.#receive(request, response))
  }

  listen(): Promise<void> {
    return new Promise(resolve => this.#server.listen(0, "127.0.0.1", resolve))
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** The declarative form of this provider; webhooks are signed with the secret named FAKE_PROVIDER_SECRET. */
  definition(name = "fake"): HttpProviderDefinition {
    const outcome = {
      status: "{{ body.status }}",
      done: ["done"],
      failed: ["failed", "canceled"],
      output: "{{ body.output }}",
      error: "{{ body.error }}",
      retryable: "{{ body.retryable }}",
      progress: "{{ body.progress }}",
      preview: "{{ body.preview }}",
    }
    const operation = `${this.url}/operations/{{ external_id }}`
    return {
      name,
      submit: {
        url: `${this.url}/operations`,
        json: { request: "{{ config }}" },
        external_id: "{{ body.id }}",
      },
      poll: { url: operation, ...outcome },
      cancel: { url: operation },
      webhook: {
        ...outcome,
        external_id: "{{ body.id }}",
        event_id: "{{ body.event_id }}",
        signature: {
          scheme: "hmac-sha256",
          header: "x-fake-signature",
          prefix: "sha256=",
          timestamp_header: this.#options.signsTime === true ? "x-fake-time" : undefined,
          secrets: ["FAKE_PROVIDER_SECRET"],
        },
      },
    }
  }

  misbehave(what: Misbehaviour): void {
    this.#wrong.push({ what, left: what.times ?? 1 })
  }

  /** Ends an operation, without sending a webhook. */
  complete(id: string, output: Json = { made: id }): void {
    this.#end(id, { status: "done", output })
  }

  fail(id: string, error = "it did not work", retryable = true): void {
    this.#end(id, { status: "failed", error, retryable })
  }

  #end(id: string, end: Partial<FakeOperation>): void {
    const operation = this.operations.get(id)
    if (operation?.status !== "running") return
    Object.assign(operation, end)
    this.running--
  }

  /** Ends a step `hold` of the operation's script. */
  release(id: string): void {
    this.#held.get(id)?.()
  }

  /** Resolves when every script that has started has ended. */
  async played(): Promise<void> {
    while (this.#performances.size > 0) await Promise.all(this.#performances)
  }

  /** Sends a webhook with the state of the operation, or with something else. */
  async deliver(id: string, webhook: FakeWebhook = {}): Promise<Response> {
    const { webhookUrl } = this
    const url = webhook.url ?? (typeof webhookUrl === "function" ? webhookUrl() : webhookUrl)
    if (url == null) throw new Error("This fake provider has no webhookUrl.")
    const body = webhook.body ?? this.webhookBody(id, webhook.eventId, webhook.says)
    const headers = this.signed(body, webhook.secret, webhook.secondsAgo)
    const isGenuine = webhook.secret === undefined && webhook.secondsAgo === undefined
    try {
      const response = await fetch(url, { method: "POST", body, headers })
      this.deliveries.push({ id, isGenuine, status: response.status })
      return response
    } catch (error) {
      this.deliveries.push({ id, isGenuine, status: null })
      throw error
    }
  }

  webhookBody(id: string, eventId: string = randomUUID(), says: FakeWebhook["says"] = {}): string {
    return JSON.stringify({ ...publicView(this.operations.get(id)!), ...says, event_id: eventId })
  }

  signed(body: string, secret: string = this.secret, secondsAgo = 0): Record<string, string> {
    const time = String(Math.floor(Date.now() / 1000) - secondsAgo)
    const isTimed = this.#options.signsTime === true
    const signature = createHmac("sha256", secret).update(isTimed ? `${time}.${body}` : body)
    return {
      "content-type": "application/json",
      "x-fake-signature": `sha256=${signature.digest("hex")}`,
      ...(isTimed ? { "x-fake-time": time } : {}),
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const release of this.#held.values()) release()
    for (const [timer, wake] of this.#pauses) {
      clearTimeout(timer)
      wake()
    }
    this.#server.closeAllConnections()
    await new Promise(resolve => this.#server.close(resolve))
  }

  async #receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = "", url = "" } = request
    this.requests.push({ at: Date.now(), method, url, authorization: request.headers.authorization ?? null })
    const body = await readText(request)
    const id = /^\/operations\/([\w-]+)$/.exec(url)?.[1]
    if (id === undefined && url !== "/operations") {
      answer(response, null)
      return
    }
    const route = id === undefined ? "submit" : request.method === "DELETE" ? "cancel" : "poll"
    const submission = route === "submit" ? parseSubmission(request, body) : null
    const key = submission?.key ?? this.operations.get(id!)?.key
    const play = key === undefined ? undefined : this.#ensurePlay(key, submission?.request ?? null)
    const wrong = this.#takeWrong(route) ?? play?.next(route)
    if (wrong !== undefined) {
      if (wrong.afterwards === true && submission !== null) this.#submit(submission)
      answerWrongly(response, wrong)
      return
    }
    const operation = submission === null ? this.operations.get(id!) : this.#submit(submission)
    if (submission !== null) await play?.answerable
    answer(response, operation === undefined ? null : this.#served(route, operation))
  }

  #ensurePlay(key: string, request: Json): Play {
    return valueIn(this.#plays, key, () => new Play(this.#options.script?.({ key, request }) ?? {}))
  }

  #takeWrong(route: Route): FakeAnswer | undefined {
    const wrong = this.#wrong.find(({ what, left }) => what.route === route && left > 0)
    if (wrong === undefined) return undefined
    wrong.left--
    return wrong.what
  }

  #served(route: Route, operation: FakeOperation): FakeOperation {
    if (route === "poll") operation.polls++
    if (route === "cancel") {
      this.cancels++
      this.#end(operation.id, { status: "canceled" })
    }
    return operation
  }

  #submit({ key, request }: { key: string; request: Json }): FakeOperation {
    const known = this.#byKey.get(key)
    if (known !== undefined) {
      known.submissions++
      return known
    }
    const operation: FakeOperation = {
      ...{ id: `op-${randomUUID()}`, key, request, status: "running", output: null },
      ...{ error: null, retryable: true, progress: null, preview: null, submissions: 1, polls: 0 },
    }
    this.#byKey.set(key, operation)
    this.operations.set(operation.id, operation)
    this.mostAtOnce = Math.max(this.mostAtOnce, ++this.running)
    if (this.running > (this.#options.limit ?? Number.POSITIVE_INFINITY)) this.overLimit++
    const performance = this.#plays.get(key)!.perform(step => this.#perform(operation, step))
    this.#performances.add(performance)
    void performance.finally(() => this.#performances.delete(performance))
    return operation
  }

  async #perform(operation: FakeOperation, step: FakeStep): Promise<void> {
    const { id } = operation
    switch (step.do) {
      case "wait":
        return this.#pause(step.ms)
      case "hold":
        return new Promise(resolve => this.#held.set(id, resolve))
      case "await_polls":
        return this.#polled(operation, operation.polls + step.count)
      case "show":
        operation.progress = step.progress ?? operation.progress
        operation.preview = step.preview ?? operation.preview
        return
      case "complete":
        return this.complete(id, step.output)
      case "fail":
        return this.fail(id, step.error, step.retryable)
      case "webhook": {
        const sent = Array.from({ length: step.times ?? 1 }, () => this.deliver(id, step))
        await Promise.allSettled(this.#isClosed ? [] : sent)
      }
    }
  }

  async #polled(operation: FakeOperation, polls: number): Promise<void> {
    while (operation.polls < polls && !this.#isClosed) await this.#pause(5)
  }

  #pause(ms: number): Promise<void> {
    if (this.#isClosed) return Promise.resolve()
    return new Promise(resolve => {
      const timer = setTimeout(() => {
        this.#pauses.delete(timer)
        resolve()
      }, ms)
      this.#pauses.set(timer, resolve)
    })
  }
}

function parseSubmission(request: IncomingMessage, body: string): { key: string; request: Json } {
  const key = String(request.headers["idempotency-key"] ?? randomUUID())
  return { key, request: (JSON.parse(body) as { request: Json }).request }
}

function answer(response: ServerResponse, operation: FakeOperation | null): void {
  if (operation === null) response.writeHead(404).end("{}")
  else
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(publicView(operation)))
}

function answerWrongly(response: ServerResponse, wrong: FakeAnswer): void {
  const { status = 200, headers, body = JSON.stringify({ error: "not now" }), silence } = wrong
  if (silence === "cut") response.destroy()
  else if (silence === undefined) response.writeHead(status, headers).end(body)
}

function publicView(operation: FakeOperation): { [name: string]: Json } {
  const { id, status, output, error, retryable, progress, preview } = operation
  return { id, status, output, error, retryable, progress, preview }
}

async function readText(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString()
}

/** The script of one operation of a fake provider, as data: a table of faults can be written, generated or printed. */
export interface FakeOperation {
  readonly id: string
  /** The idempotency key it was submitted with. */
  readonly key: string
  readonly request: Json
  status: "running" | "done" | "failed" | "canceled"
  output: Json
  error: string | null
  /** For a failure: may a new operation succeed? */
  retryable: boolean
  progress: number | null
  preview: Json
  /** How often it was submitted: more than once means a repetition with the same key. */
  submissions: number
  polls: number
}

/** A false answer to a request. */
export interface FakeAnswer {
  /** Default 200. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** Sent unchanged; default: an error, as JSON. */
  readonly body?: string
  /** No answer at all: the caller's timeout passes, or the connection is cut. */
  readonly silence?: "hang" | "cut"
  /** For a submission: the work starts anyway, only the answer is lost. */
  readonly afterwards?: boolean
}

/** A webhook; by default one with the state of the operation. */
export interface FakeWebhook {
  /** Sent instead of the current state: an outdated or wrong state. */
  readonly says?: Partial<Pick<FakeOperation, "status" | "output" | "error" | "progress" | "preview">>
  /** Sent, and signed, instead of a body. */
  readonly body?: string
  /** Makes a second webhook the same delivery. */
  readonly eventId?: string
  /** Signed with another secret: a forgery. */
  readonly secret?: string
  /** Signed this long ago; needs `signsTime`. */
  readonly secondsAgo?: number
  readonly url?: string
}

export type FakeStep =
  /** The submission is answered now. Without this step it is answered before all others. */
  | { readonly do: "answer" }
  | { readonly do: "wait"; readonly ms: number }
  /** Waits until `release` is called with the operation's id. */
  | { readonly do: "hold" }
  /** Waits until it has been polled this many more times. */
  | { readonly do: "await_polls"; readonly count: number }
  | { readonly do: "show"; readonly progress?: number; readonly preview?: Json }
  | { readonly do: "complete"; readonly output?: Json }
  | { readonly do: "fail"; readonly error?: string; readonly retryable?: boolean }
  /** `times`: this many at once. The next step waits for the answers; a webhook that is not received is lost. */
  | ({ readonly do: "webhook"; readonly times?: number } & FakeWebhook)

export interface FakeScript {
  /** Answers to the first requests, in order; later requests get the true state. */
  readonly submit?: readonly FakeAnswer[]
  readonly poll?: readonly FakeAnswer[]
  readonly cancel?: readonly FakeAnswer[]
  /** Steps after the operation was accepted, one after the other. */
  readonly steps?: readonly FakeStep[]
}

/** A script and its current position. */
class Play {
  readonly script: FakeScript
  readonly #answered = { submit: 0, poll: 0, cancel: 0 }
  #answer: () => void = () => {}
  /** Resolves when a submission may be answered. */
  readonly answerable: Promise<void>

  constructor(script: FakeScript) {
    this.script = script
    this.answerable = new Promise(resolve => {
      this.#answer = resolve
    })
  }

  /** The next false answer, if there is one. */
  next(route: "submit" | "poll" | "cancel"): FakeAnswer | undefined {
    return this.script[route]?.[this.#answered[route]++]
  }

  /** The steps, each after the previous one has ended. */
  async perform(perform: (step: FakeStep) => unknown): Promise<void> {
    const { steps = [] } = this.script
    if (!steps.some(step => step.do === "answer")) this.#answer()
    for (const step of steps)
      if (step.do === "answer") this.#answer()
      else await perform(step)
  }
}
