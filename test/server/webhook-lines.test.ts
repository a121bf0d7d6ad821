/** Webhooks that had no effect on a node, in the log of its job: only those that are genuine and name its operation. */
import { describe, expect, it, onTestFinished } from "vitest"
import { defineProvider } from "../../src/provider/provider.ts"
import { until } from "../engine/stage.ts"
import { fakeProvider, make, optionsFor, waiting } from "../provider/stage.ts"
import { storeOf } from "./served.ts"
import { openStage } from "./stage.ts"

const own = defineProvider({
  ...{ name: "own", concurrency: null, submit: () => ({ externalId: "op-1" }) },
  verify: ({ headers }) => headers["x-key"] === "right",
  webhook: ({ body }) => body as never,
})

async function open(store: string) {
  const { location } = await storeOf(store)
  const fake = await fakeProvider({ signsTime: true })
  const webhook = { ...fake.definition().webhook!, output: "{{ body.output.made }}" }
  const umbra = optionsFor(fake, { over: { poll_seconds: [3600], webhook }, providers: [own] })
  const stage = await openStage({ location, withTokens: true, umbra })
  onTestFinished(() => stage.close())
  const token = await stage.token("ada", "read")
  const post = async (body: string, { key = fake.secret, secondsAgo = 0 } = {}) => {
    const headers = fake.signed(body, key, secondsAgo)
    return (await stage.ask("/webhooks/fake", { method: "POST", body, headers })).status
  }
  const logs = async (job: string, query = "") => {
    const { status, body } = await stage.ask(`/jobs/${job}/logs?source=engine${query}`, { token })
    expect(status, JSON.stringify(body)).toBe(200)
    return body
  }
  const shown = async (job: string, query = "") =>
    (await logs(job, query)).lines.filter(({ message }: { message: string }) => message.startsWith("webhook"))
  return { fake, stage, token, post, logs, shown }
}

describe.each(["SQLite", "PostgreSQL"])("webhooks in the log of a job on %s", store => {
  it("shows those that name an operation of it, and whose signature is genuine", async () => {
    const { fake, stage, post, logs, shown } = await open(store)
    const job = await stage.umbra.submit(make(), {}, { owner: "ada" })
    const id = await waiting(stage.umbra, fake, job.id)
    const other = await stage.umbra.submit(make(["quiet"]), {}, { owner: "ada" })
    const body = (more: object) =>
      JSON.stringify({ id, event_id: "first", status: "done", output: { made: 1 }, ...more })
    // Forged, of no operation, unreadable, too old, forged and too old.
    expect(await post(body({}), { key: "a guess" })).toBe(401)
    expect(await post(JSON.stringify({ status: "done" }))).toBe(422)
    expect(await post(body({ output: 7 }))).toBe(422)
    expect(await post(body({}), { secondsAgo: 3600 })).toBe(401)
    expect(await post(body({}), { key: "a guess", secondsAgo: 3600 })).toBe(401)
    const refused = [
      {
        level: "warn",
        node: "film",
        attempt: 1,
        message: expect.stringMatching(/^webhook refused: E662 The webhook cannot be read/),
      },
      {
        level: "warn",
        node: "film",
        attempt: 1,
        message: expect.stringMatching(/^webhook refused: E661 .*too far away/),
      },
    ]
    expect(await shown(job.id)).toMatchObject(refused)
    expect(await shown(job.id)).toHaveLength(2)

    expect(await post(body({}))).toBe(202)
    expect(await job.wait({ timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED" })
    expect(await post(body({ event_id: "later" }))).toBe(202)
    const late = {
      level: "info",
      node: "film",
      message: `webhook ignored: operation ${id} of provider fake had ended`,
    }
    expect(await shown(job.id)).toMatchObject([...refused, late])

    // Page by page the log is the same, and no line is shown twice.
    const { lines } = await logs(job.id)
    const paged = []
    for (let after = ""; ; ) {
      const page = await logs(job.id, `&limit=1${after}`)
      paged.push(...page.lines)
      if (page.next === null) break
      after = `&after=${page.next}`
    }
    expect(paged.map(({ id: _, ...line }) => line)).toEqual(
      lines.map(({ id: _, ...line }: { id: string }) => line),
    )
    expect(await shown(job.id, "&node=film&attempt=1&level=warn")).toMatchObject(refused)
    expect(await shown(job.id, "&node=film&attempt=2")).toEqual([])
    expect(await shown(other.id)).toEqual([])
    const eve = await stage.token("eve", "read")
    expect((await stage.ask(`/jobs/${job.id}/logs`, { token: eve })).status).toBe(404)
  })

  it("shows ten of an operation at most, in each node that waits for it", async () => {
    const { stage, shown } = await open(store)
    const nodes = ["a", "b"].map(id => ({ id, handler: "external", provider: "own" }))
    const job = await stage.umbra.submit({ name: "two", nodes }, {}, { owner: "ada" })
    await until("both wait", async () => {
      const { waiting_for } = await stage.umbra.graph(job.id)
      return waiting_for.filter(({ kind }) => kind === "external").length === 2
    })
    for (let n = 0; n < 12; n++) {
      const body = JSON.stringify({ externalId: "op-1", eventId: { n }, news: { status: "running" } })
      const headers = { "x-key": "right" }
      expect((await stage.ask("/webhooks/own", { method: "POST", body, headers })).status).toBe(422)
      // At most ten refusals of a second are recorded.
      if (n === 8) await new Promise(resolve => setTimeout(resolve, 1000))
    }
    expect(await stage.umbra.webhookEvents("own", 100)).toHaveLength(12)
    for (const node of ["a", "b"]) {
      const lines = await shown(job.id, `&node=${node}`)
      expect(lines).toHaveLength(10)
      for (const line of lines) expect(line).toMatchObject({ node, attempt: 1, level: "warn" })
    }
    expect(await shown(job.id)).toHaveLength(10)
  })
})

it("a stream of the log has a refused webhook although nothing else happens to the job", async () => {
  const { fake, stage, post, token } = await open("SQLite")
  const job = await stage.umbra.submit(make(), {}, { owner: "ada" })
  const id = await waiting(stage.umbra, fake, job.id)
  const stop = new AbortController()
  onTestFinished(() => stop.abort())
  const headers = { authorization: `Bearer ${token}` }
  const { body } = await fetch(`${stage.server.url}/jobs/${job.id}/logs?follow`, {
    headers,
    signal: stop.signal,
  })
  const reader = body!.pipeThrough(new TextDecoderStream()).getReader()
  let text = ""
  const has = async (word: string) => {
    while (!text.includes(word)) text += (await reader.read()).value
  }
  await has("waits for operation")
  expect(await post(JSON.stringify({ id, event_id: "first", status: "done", output: 7 }))).toBe(422)
  await has("webhook refused: E662")
  expect(text.split("webhook refused").length).toBe(2)
  await reader.cancel()
})
