/** Two owners at one provider, over HTTP. The fake provider is the witness: what it was asked for is in its own log. */
import { createServer, type RequestListener } from "node:http"
import type { AddressInfo } from "node:net"
import { describe, expect, it, onTestFinished } from "vitest"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { httpProvider } from "../../src/provider/http-provider.ts"
import type { HttpProviderDefinition } from "../../src/provider/http-spec.ts"
import type { Provider } from "../../src/provider/provider.ts"
import type { FakeProvider } from "../../src/testing/fake-provider.ts"
import { openUmbra } from "../../src/umbra.ts"
import { until } from "../engine/stage.ts"
import { fakeProvider, optionsFor } from "../provider/stage.ts"
import { openStage, type Stage } from "./stage.ts"

const KEY = "operator-key"
const providerSecrets = (name: string) =>
  ({ FAKE_PROVIDER_SECRET: "fake-provider-secret", FAKE_KEY: KEY })[name] as string

async function open(
  over: (fake: FakeProvider) => Partial<HttpProviderDefinition> = () => ({}),
  another?: (fake: FakeProvider) => Provider,
) {
  const fake = await fakeProvider()
  const worker = { allowPrivateAddresses: true }
  const umbra = optionsFor(fake, {
    ...{ providerSecrets, worker, providers: another === undefined ? [] : [another(fake)] },
    over: { concurrency: null, ...over(fake) },
  })
  const stage = await openStage({ withTokens: true, umbra })
  onTestFinished(() => stage.close())
  fake.webhookUrl = `${stage.server.url}/webhooks/fake`
  const owner = async (name: string) => new Owner(stage, await stage.token(name, "manage", "submit", "read"))
  return { fake, stage, owner, target: await owner("target"), attacker: await owner("attacker") }
}

const credentials = { authorization: "Bearer {{ secrets.FAKE_KEY }}" }
const withCredentials = (fake: FakeProvider): Partial<HttpProviderDefinition> => {
  const { submit, poll, cancel } = fake.definition()
  return {
    submit: { ...submit!, headers: credentials },
    poll: { ...poll!, headers: credentials },
    cancel: { ...cancel!, headers: credentials },
  }
}

/** A server of the attacker's: it answers whatever it likes. */
async function serverOf(answer: RequestListener): Promise<string> {
  const server = createServer(answer)
  await new Promise<void>(resolve => server.listen(0, "127.0.0.1", resolve))
  onTestFinished(() => void server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const naming = (id: string) =>
  serverOf((_, response) =>
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ id })),
  )

class Owner {
  readonly #stage: Stage
  readonly token: string

  constructor(stage: Stage, token: string) {
    this.#stage = stage
    this.token = token
  }

  push(nodes: readonly object[], name = "films") {
    return this.#stage.ask("/workflows", { method: "POST", token: this.token, body: { name, nodes } })
  }

  async submit(nodes: readonly object[]): Promise<string> {
    await this.push(nodes)
    const body = { workflow: "films" }
    const answer = await this.#stage.ask("/jobs", { method: "POST", token: this.token, body })
    expect(answer.status, JSON.stringify(answer.body)).toBe(201)
    return answer.body.job_id
  }

  async job(id: string) {
    return (await this.#stage.ask(`/jobs/${id}`, { token: this.token })).body
  }

  async graph(id: string) {
    return (await this.#stage.ask(`/jobs/${id}/graph`, { token: this.token })).body
  }

  async ended(id: string) {
    await until("the job has ended", async () => (await this.job(id)).finished_at !== null)
    return this.job(id)
  }

  async operation(id: string): Promise<string> {
    let externalId = ""
    await until("the operation is on record", async () => {
      externalId = (await this.graph(id)).waiting_for[0]?.external_id ?? ""
      return externalId !== ""
    })
    return externalId
  }

  cancel(id: string) {
    return this.#stage.ask(`/jobs/${id}/cancel`, { method: "POST", token: this.token })
  }
}

const film = { id: "film", handler: "external", provider: "fake", config: { scene: 1 } }
const calling = (url: string, over: object = {}) => ({
  id: "film",
  handler: "call_external_service",
  provider: "fake",
  config: { method: "POST", url, json: { request: null }, ...over },
})

describe("an operation at a provider", () => {
  it("of another owner is not followed: its result reaches the first owner alone, by webhook and by poll", async () => {
    const { fake, target, attacker } = await open(() => ({ poll_seconds: [0.2] }))
    const job = await target.submit([film])
    const id = await target.operation(job)
    const theft = await attacker.submit([calling(await naming(id))])
    expect(await attacker.ended(theft)).toMatchObject({ status: "FAILED", error: { code: "E425" } })
    expect(JSON.stringify(await attacker.job(theft))).not.toContain(id)
    fake.complete(id, { film: "the target's" })
    await fake.deliver(id)
    expect(await target.ended(job)).toMatchObject({
      status: "COMPLETED",
      output: { film: { film: "the target's" } },
    })
    expect(await attacker.job(theft)).toMatchObject({ status: "FAILED", output: null })
  })

  it("of another owner is not cancelled with the job that named it", async () => {
    const { fake, target, attacker } = await open()
    const job = await target.submit([film])
    const id = await target.operation(job)
    const theft = await attacker.submit([calling(await naming(id))])
    await attacker.ended(theft)
    await attacker.cancel(theft)
    const own = await attacker.submit([film])
    const ownId = await attacker.operation(own)
    await attacker.cancel(own)
    await until("the attacker's own is cancelled", () => fake.operations.get(ownId)?.status === "canceled")
    expect(fake.operations.get(id)?.status).toBe("running")
    expect((await target.graph(job)).waiting_for[0]?.external_id).toBe(id)
  })

  it("that is over still belongs to its owner: no other owner can poll its result", async () => {
    const { fake, target, attacker } = await open(() => ({ poll_seconds: [0.2] }))
    const job = await target.submit([film])
    const id = await target.operation(job)
    fake.complete(id, { film: "the target's" })
    await target.ended(job)
    const theft = await attacker.submit([calling(await naming(id))])
    expect(await attacker.ended(theft)).toMatchObject({ status: "FAILED", error: { code: "E425" } })
  })

  it("may be waited for by several nodes of one owner", async () => {
    const { fake, target } = await open()
    const job = await target.submit([film])
    const id = await target.operation(job)
    const second = await target.submit([calling(await naming(id))])
    expect(await target.operation(second)).toBe(id)
    fake.complete(id)
    await fake.deliver(id)
    for (const each of [job, second]) expect((await target.ended(each)).status).toBe("COMPLETED")
  })

  it.each(["../../account/users/1", "..\\account", "x?admin=1", "x#y", "x/../../account", "%2e%2e/account"])(
    "with the id %s stays within its segment of the operator's URLs",
    async evil => {
      const { fake, attacker } = await open(() => ({ poll_seconds: [0.05] }))
      const job = await attacker.submit([calling(await naming(evil))])
      await attacker.operation(job)
      const isOf = (method: string) => fake.requests.some(request => request.method === method)
      await until("it was polled", () => isOf("GET"))
      await attacker.cancel(job)
      await until("it was cancelled", () => isOf("DELETE"))
      const urls = new Set(fake.requests.map(({ url }) => url))
      expect([...urls]).toEqual([`/operations/${encodeURIComponent(evil)}`])
    },
  )

  it.each([
    [".", 'the id is ".", which would name another resource in a URL'],
    ["..", 'the id is "..", which would name another resource in a URL'],
    ["", "the id is empty"],
    ["a\nb", "the id contains a control character"],
    ["a\ud800b", "the id contains a lone surrogate"],
    ["x".repeat(501), "the id is longer than 500 characters"],
  ])("with the id %j is rejected, and the error says why", async (evil, why) => {
    const given = await naming(evil)
    const echo = { url: given, json: {}, external_id: "{{ body.id }}" }
    const { fake, attacker } = await open(() => ({ submit: echo }))
    for (const node of [calling(given), film]) {
      const { status, error } = await attacker.ended(await attacker.submit([node]))
      expect([status, error.code]).toEqual(["FAILED", "E422"])
      expect(error.message).toContain(why)
    }
    expect(fake.requests).toEqual([])
  })
})

describe("a provider with credentials", () => {
  it("gets no submission at another origin, so that no other service names operations there", async () => {
    const { fake, attacker } = await open(withCredentials)
    let asked = 0
    const evil = await serverOf((_, response) => {
      asked++
      response.writeHead(200, { "content-type": "application/json" }).end('{"id":"op-1"}')
    })
    const job = await attacker.submit([calling(evil)])
    expect(await attacker.ended(job)).toMatchObject({ status: "FAILED", error: { code: "E424" } })
    expect([asked, fake.requests.length]).toEqual([0, 0])
  })

  it("is not submitted to through a redirect to another origin", async () => {
    const evil = await naming("op-1")
    const redirecting = await serverOf((_, response) => response.writeHead(303, { location: evil }).end())
    const { fake, attacker } = await open(fake => ({ ...withCredentials(fake), origins: [redirecting] }))
    const job = await attacker.submit([calling(redirecting, { follow_redirects: true })])
    expect(await attacker.ended(job)).toMatchObject({ status: "FAILED", error: { code: "E424" } })
    expect(fake.requests).toEqual([])
  })

  it("is submitted to at its own origin", async () => {
    const { fake, target } = await open(withCredentials)
    const job = await target.submit([calling(`${fake.url}/operations`)])
    const id = await target.operation(job)
    fake.complete(id)
    await fake.deliver(id)
    expect((await target.ended(job)).status).toBe("COMPLETED")
  })
})

describe("a redirect of the provider", () => {
  /** A provider whose requests to `part` are redirected to a server elsewhere. */
  async function openRedirected(part: "submit" | "poll" | "cancel", status: number, over = {}) {
    const asked: string[] = []
    const elsewhere = await serverOf((request, response) => {
      asked.push(`${request.method} ${request.url}`)
      response
        .writeHead(200, { "content-type": "application/json" })
        .end(JSON.stringify({ id: "elsewhere-1", status: "done", output: "forged" }))
    })
    const moved = await serverOf((_, response) =>
      response.writeHead(status, { location: `${elsewhere}/there` }).end(),
    )
    const opened = await open(fake => {
      const definition = { ...fake.definition(), ...withCredentials(fake) }
      const request = { ...definition[part]!, url: `${moved}/operations` }
      return { poll_seconds: [0.1], ...definition, [part]: request, ...over }
    })
    return { ...opened, asked, elsewhere, moved }
  }

  const messageOf = (moved: string, elsewhere: string) =>
    `${moved} redirected to ${elsewhere}, which is not an origin of the node's provider`

  it("does not take a poll to another origin, and the error says so", async () => {
    const { fake, stage, target, asked, elsewhere, moved } = await openRedirected("poll", 302)
    const job = await target.submit([film])
    const id = await target.operation(job)
    const admin = await stage.token("local", "admin")
    let errors: { code: string; message: string }[] = []
    await until("two polls have failed", async () => {
      const { body } = await stage.ask("/providers", { token: admin })
      errors = body.providers.find(({ name }: { name: string }) => name === "fake").recent_errors
      return errors.length >= 2
    })
    expect(errors[0]!.code).toBe("E424")
    expect(errors[0]!.message).toContain(messageOf(moved, elsewhere))
    expect(asked).toEqual([])
    fake.complete(id)
    await fake.deliver(id)
    expect(await target.ended(job)).toMatchObject({ status: "COMPLETED" })
  })

  it.each([302, 307])("does not take a cancellation to another origin (%i)", async status => {
    const { stage, target, asked, elsewhere, moved } = await openRedirected("cancel", status)
    const job = await target.submit([film])
    await target.operation(job)
    await target.cancel(job)
    const admin = await stage.token("local", "admin")
    let errors: { code: string; message: string }[] = []
    await until("the cancellation has failed", async () => {
      const { body } = await stage.ask("/providers", { token: admin })
      errors = body.providers.find(({ name }: { name: string }) => name === "fake").recent_errors
      return errors.length >= 1
    })
    expect(errors[0]!.code).toBe("E424")
    expect(errors[0]!.message).toContain(messageOf(moved, elsewhere))
    expect(asked).toEqual([])
  })

  it("does not take a submission to another origin", async () => {
    const { target, asked, elsewhere, moved } = await openRedirected("submit", 303)
    const job = await target.submit([film])
    const { error } = await target.ended(job)
    expect(error.code).toBe("E424")
    expect(error.message).toContain(messageOf(moved, elsewhere))
    expect(asked).toEqual([])
  })

  it("may go to the origins that the definition lists", async () => {
    const elsewhere = await serverOf((_, response) =>
      response
        .writeHead(200, { "content-type": "application/json" })
        .end(JSON.stringify({ status: "done", output: "from elsewhere" })),
    )
    const moved = await serverOf((_, response) => response.writeHead(302, { location: elsewhere }).end())
    const { target } = await open(fake => {
      const { poll } = fake.definition()
      return { origins: [elsewhere], poll_seconds: [0.1], poll: { ...poll!, url: moved } }
    })
    const job = await target.submit([film])
    expect(await target.ended(job)).toMatchObject({ status: "COMPLETED" })
  })
})

describe("two definitions of one account", () => {
  /** A second definition at the same origin, for the attacker; the first is for the target. */
  async function openTwo(over: Partial<HttpProviderDefinition> = {}) {
    const second = (fake: FakeProvider) =>
      httpProvider(
        {
          ...{ ...fake.definition(), ...withCredentials(fake), rate: null, concurrency: null },
          ...{ name: "second", owners: ["attacker"], ...over },
        },
        { allowPrivateAddresses: true },
      )
    const first = (fake: FakeProvider) => ({
      ...withCredentials(fake),
      owners: ["target"],
      ...(over.account && { account: "one" }),
    })
    const opened = await open(first, second)
    const job = await opened.target.submit([film])
    const id = await opened.target.operation(job)
    const naming = (url: string) => ({
      ...{ ...film, handler: "call_external_service", provider: "second", config: { url } },
    })
    return { ...opened, job, id, naming, echo: naming(`${opened.fake.url}/operations/${id}`) }
  }

  it("share its operations: an id that one has is not followed through the other", async () => {
    const { fake, target, attacker, job, id, echo } = await openTwo()
    const theft = await attacker.submit([echo])
    expect(await attacker.ended(theft)).toMatchObject({ status: "FAILED", error: { code: "E425" } })
    expect(fake.operations.get(id)?.status).toBe("running")
    fake.complete(id)
    await fake.deliver(id)
    expect((await target.ended(job)).status).toBe("COMPLETED")
  })

  it("share its operations: an id that one has is not cancelled through the other while it is submitted", async () => {
    let answered = () => {}
    const isAsked = new Promise<void>(asked => {
      answered = asked
    })
    let release = () => {}
    const held = new Promise<void>(resolve => {
      release = resolve
    })
    let named = ""
    const slow = await serverOf(async (_, response) => {
      answered()
      await held
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ id: named }))
    })
    const { fake, attacker, id, naming } = await openTwo({ origins: [slow] })
    named = id
    const theft = await attacker.submit([naming(slow)])
    await isAsked
    await attacker.cancel(theft)
    release()
    const own = await attacker.submit([{ ...film, provider: "second" }])
    const ownId = await attacker.operation(own)
    await attacker.cancel(own)
    await until("the attacker's own is cancelled", () => fake.operations.get(ownId)?.status === "canceled")
    expect(fake.operations.get(id)?.status).toBe("running")
  })

  it("share nothing if they name different accounts", async () => {
    const { attacker, id, echo } = await openTwo({ account: "another" })
    const own = await attacker.submit([echo])
    expect(await attacker.operation(own)).toBe(id)
  })
})

describe("a provider for some owners", () => {
  it("is refused to the others by validate, push and submit, and its definition is not shown to them", async () => {
    const { fake, stage, target, attacker } = await open(() => ({ owners: ["target"] }))
    const body = { name: "films", nodes: [film] }
    const { token } = attacker
    for (const path of ["/workflows/validate", "/workflows"]) {
      const answer = await stage.ask(path, { method: "POST", token, body })
      expect([answer.status, answer.body.code]).toEqual([403, "E426"])
      expect(JSON.stringify(answer.body)).not.toContain("target")
    }
    const job = await target.submit([film])
    await target.operation(job)
    expect(fake.operations.size).toBe(1)
  })

  it("fails nodes of jobs that were there before the restriction", async () => {
    const fake = await fakeProvider()
    const store = createMemoryStore()
    const before = await openUmbra(openMemory(store))
    const { id } = await before.submit({ name: "films", nodes: [film] }, null, { owner: "attacker" })
    await before.close()
    const umbra = await openUmbra(openMemory(store), optionsFor(fake, { over: { owners: ["target"] } }))
    onTestFinished(() => umbra.close())
    const ended = await umbra.wait(id, { timeoutMs: 60_000 })
    expect(ended).toMatchObject({ status: "FAILED", error: { code: "E426" } })
    expect(fake.requests).toEqual([])
  })

  it("limits how many operations one owner has at once, and others are not held up", async () => {
    const { fake, target, attacker } = await open(() => ({ concurrency: 3, concurrency_per_owner: 2 }))
    const nodes = ["a", "b", "c", "d"].map(id => ({ ...film, id }))
    const many = await attacker.submit(nodes)
    await until("two run", () => fake.running === 2)
    const one = await target.submit([film])
    const id = await target.operation(one)
    expect(fake.running).toBe(3)
    const waiting = (await attacker.graph(many)).waiting_for.filter(
      (wait: { kind: string }) => wait.kind === "slot",
    )
    expect(waiting.length).toBe(2)
    fake.complete(id)
    await fake.deliver(id)
    expect((await target.ended(one)).status).toBe("COMPLETED")
    expect(fake.mostAtOnce).toBe(3)
  })

  it("grants its next slot to the owner that has none, whichever requested first", async () => {
    const { fake, target, attacker } = await open(() => ({ concurrency: 1 }))
    const many = await attacker.submit(["a", "b", "c", "d"].map(id => ({ ...film, id })))
    await until("one runs", () => fake.running === 1)
    const graph = () => attacker.graph(many)
    await until("the rest waits", async () => {
      const { waiting_for } = await graph()
      return waiting_for.filter((wait: { kind: string }) => wait.kind === "slot").length === 3
    })
    const one = await target.submit([film])
    await until("it waits", async () => (await target.graph(one)).waiting_for[0]?.kind === "slot")
    expect((await target.graph(one)).live.nodes[0].waiting_on).toMatchObject({ kind: "slot", position: 1 })
    const [first] = fake.operations.keys()
    fake.complete(first!)
    await fake.deliver(first!)
    await target.operation(one)
    expect([...fake.operations.values()][1]?.key).toContain(one)
  })
})
