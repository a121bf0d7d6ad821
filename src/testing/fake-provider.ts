/**
 * A provider for tests: a REST service on 127.0.0.1 that takes operations, tells how they stand, cancels them and sends
 * signed webhooks. It does what it is told (`complete`, `fail`, `deliver` …), may misbehave, and keeps a log of its own:
 * what it says about slots and keys does not come from the engine under test.
 */
import { createHmac, randomUUID } from "node:crypto"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import type { Json } from "../core/json.ts"
import type { HttpProviderDefinition } from "../provider/http-spec.ts"

export interface FakeOperation {
  readonly id: string
  /** The idempotency key it was submitted with. */
  readonly key: string
  readonly request: Json
  status: "running" | "done" | "failed" | "canceled"
  output: Json
  error: string | null
  progress: number | null
  preview: Json
  /** How often it was submitted: more than once is a repetition that its key gave away. */
  submissions: number
  polls: number
}

export interface FakeProviderOptions {
  /** Where webhooks go; also settable later. */
  readonly webhookUrl?: string
  /** What they are signed with. */
  readonly secret?: string
  /** Called for every new operation: `fake.later(…)`, `fake.complete(…)`. */
  readonly onSubmit?: (operation: FakeOperation, fake: FakeProvider) => void
  /** Operations at once beyond which `overLimit` is raised. */
  readonly limit?: number
}

/** What goes wrong with the next requests to `route`. */
export interface Misbehaviour {
  readonly route: "submit" | "poll" | "cancel"
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly times?: number
  /** For submit: the work is begun all the same, only the answer is lost. */
  readonly afterwards?: boolean
}

export async function startFakeProvider(options: FakeProviderOptions = {}): Promise<FakeProvider> {
  const fake = new FakeProvider(options)
  await fake.listen()
  return fake
}

export class FakeProvider {
  readonly operations = new Map<string, FakeOperation>()
  readonly secret: string
  webhookUrl: string | null
  /** Most operations that ran at once, and whether that was ever more than the limit. */
  mostAtOnce = 0
  overLimit = 0
  cancels = 0
  readonly #byKey = new Map<string, FakeOperation>()
  readonly #options: FakeProviderOptions
  readonly #server: Server
  readonly #timers = new Set<NodeJS.Timeout>()
  readonly #wrong: { what: Misbehaviour; left: number }[] = []

  constructor(options: FakeProviderOptions) {
    this.#options = options
    this.webhookUrl = options.webhookUrl ?? null
    this.secret = options.secret ?? "fake-provider-secret"
    this.#server = createServer((request, response) => void this.#answer(request, response))
  }

  listen(): Promise<void> {
    return new Promise(resolve => this.#server.listen(0, "127.0.0.1", resolve))
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  get running(): number {
    return [...this.operations.values()].filter(({ status }) => status === "running").length
  }

  /** The declarative form of this provider; webhooks are signed with the secret named FAKE_PROVIDER_SECRET. */
  definition(name = "fake"): HttpProviderDefinition {
    const outcome = {
      status: "{{ body.status }}",
      done: ["done"],
      failed: ["failed", "canceled"],
      output: "{{ body.output }}",
      error: "{{ body.error }}",
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
          secrets: ["FAKE_PROVIDER_SECRET"],
        },
      },
    }
  }

  misbehave(what: Misbehaviour): void {
    this.#wrong.push({ what, left: what.times ?? 1 })
  }

  /** Ends an operation; whether anybody hears of it is another matter. */
  complete(id: string, output: Json = { made: id }): void {
    this.#end(id, { status: "done", output })
  }

  fail(id: string, error = "it did not work"): void {
    this.#end(id, { status: "failed", error })
  }

  #end(id: string, end: Partial<FakeOperation>): void {
    const operation = this.operations.get(id)
    if (operation?.status === "running") Object.assign(operation, end)
  }

  later(ms: number, work: () => unknown): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      work()
    }, ms)
    this.#timers.add(timer)
  }

  /** The webhook that tells how the operation stands; `eventId` makes a second one the same delivery. */
  async deliver(
    id: string,
    more: { eventId?: string; url?: string; secret?: string } = {},
  ): Promise<Response> {
    const url = more.url ?? this.webhookUrl
    if (url === null) throw new Error("This fake provider has no webhookUrl.")
    const body = this.webhookBody(id, more.eventId)
    return fetch(url, { method: "POST", body, headers: this.signed(body, more.secret) })
  }

  webhookBody(id: string, eventId: string = randomUUID()): string {
    return JSON.stringify({ ...publicView(this.operations.get(id)!), event_id: eventId })
  }

  signed(body: string, secret: string = this.secret): Record<string, string> {
    const signature = createHmac("sha256", secret).update(body).digest("hex")
    return { "content-type": "application/json", "x-fake-signature": `sha256=${signature}` }
  }

  async close(): Promise<void> {
    for (const timer of this.#timers) clearTimeout(timer)
    this.#server.closeAllConnections()
    await new Promise(resolve => this.#server.close(resolve))
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await textOf(request)
    const id = /^\/operations\/([\w-]+)$/.exec(request.url ?? "")?.[1]
    const route = id === undefined ? "submit" : request.method === "DELETE" ? "cancel" : "poll"
    const wrong = this.#wrong.find(({ what, left }) => what.route === route && left > 0)
    if (wrong !== undefined) {
      wrong.left--
      const { status, headers, afterwards } = wrong.what
      if (afterwards === true) this.#submit(request, body)
      response.writeHead(status, headers).end(JSON.stringify({ error: "not now" }))
      return
    }
    const operation = route === "submit" ? this.#submit(request, body) : this.operations.get(id!)
    if (operation === undefined) {
      response.writeHead(404).end("{}")
      return
    }
    if (route === "poll") operation.polls++
    if (route === "cancel") {
      this.cancels++
      this.#end(operation.id, { status: "canceled" })
    }
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(publicView(operation)))
  }

  #submit(request: IncomingMessage, body: string): FakeOperation {
    const key = String(request.headers["idempotency-key"] ?? randomUUID())
    const known = this.#byKey.get(key)
    if (known !== undefined) {
      known.submissions++
      return known
    }
    const operation: FakeOperation = {
      ...{ id: `op-${randomUUID()}`, key, request: (JSON.parse(body) as { request: Json }).request },
      ...{ status: "running", output: null, error: null, progress: null, preview: null },
      ...{ submissions: 1, polls: 0 },
    }
    this.#byKey.set(key, operation)
    this.operations.set(operation.id, operation)
    this.mostAtOnce = Math.max(this.mostAtOnce, this.running)
    if (this.running > (this.#options.limit ?? Number.POSITIVE_INFINITY)) this.overLimit++
    this.#options.onSubmit?.(operation, this)
    return operation
  }
}

function publicView({ id, status, output, error, progress, preview }: FakeOperation): {
  [name: string]: Json
} {
  return { id, status, output, error, progress, preview }
}

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString()
}
