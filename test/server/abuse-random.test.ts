/**
 * S3: ten thousand requests, made from the OpenAPI document and then altered, and connections full of random bytes. The
 * seed is printed; UMBRA_TEST_SEED repeats the run.
 */
import { Agent, request } from "node:http"
import { afterAll, beforeAll, expect, it } from "vitest"
import fc from "../support/property.ts"
import { seed } from "../support/seed.ts"
import { readReplies } from "./abuse/connections.ts"
import { openScene, type Scene } from "./abuse/scene.ts"
import { type Drawn, type Operation, requestOf, texts } from "./drawn.ts"
import { ask, type Store, stores } from "./stage.ts"

const RUNS = 10_000
const LANES = 40

let store: Store
let scene: Scene
let agent: Agent
beforeAll(async () => {
  console.log(`UMBRA_TEST_SEED=${seed}`)
  store = await stores.PostgreSQL!()
  scene = await openScene({ maxWaitSeconds: 0.05 }, store.location)
  agent = new Agent({ keepAlive: true, maxSockets: LANES })
})
afterAll(async () => {
  agent?.destroy()
  await scene?.close()
  await store?.remove()
})

interface MutatedRequest extends Drawn {
  readonly authorization: string | null
}

/** Requests whose answer is known. They are sent before the random ones: the server is proven to judge each of them. */
const known: readonly [status: number, request: Partial<MutatedRequest>][] = [
  [200, { path: "/workflows" }],
  [201, { method: "POST", body: JSON.stringify({ name: "known", nodes: [{ id: "a", handler: "spell" }] }) }],
  [400, { method: "POST", path: "/jobs", body: "{" }],
  [401, { path: "/workflows", authorization: null }],
  [404, { path: "/jobs/none" }],
  [415, { method: "POST", headers: { "content-type": "text/html" }, body: "<p>" }],
  [422, { method: "POST", body: JSON.stringify({ name: "known", nodes: [] }) }],
]

function knownRequest(part: Partial<MutatedRequest>): MutatedRequest {
  return {
    method: "GET",
    path: "/workflows",
    template: "/workflows",
    headers: part.body === undefined ? {} : { "content-type": "application/json" },
    authorization: `Bearer ${scene.attacker.token}`,
    ...part,
  }
}

/** Replaces the characters that Node refuses to send in a header (`http.validateHeaderValue`). */
function headerValue(text: string): string {
  return text.replace(/[^\t\x20-\x7e\x80-\xff]/g, each => `%${each.charCodeAt(0).toString(16)}`)
}

async function mutated(): Promise<fc.Arbitrary<MutatedRequest>> {
  const { body: document } = await ask(scene.url, "/openapi.json", {})
  const { target, attacker } = scene
  const ids = [target.job, attacker.job, target.name, "own"]
  const operations = Object.entries(document.paths as Record<string, Record<string, Operation>>).flatMap(
    ([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => requestOf(path, method, operation, ids)),
  )
  // Requests that are accepted, so that the others meet a server whose data changes.
  const accepted = fc.nat().map(nat => ({
    method: "POST",
    path: "/workflows",
    template: "/workflows",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ name: `drawn_${nat}`, nodes: [{ id: "a", handler: "spell" }] }),
  }))
  const method = fc.constantFrom("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE")
  const header = fc.tuple(
    fc.constantFrom("accept", "content-type", "idempotency-key", "traceparent", "origin", "range", "x-a"),
    fc.string({ maxLength: 50 }).map(headerValue),
  )
  const authorization = fc.oneof(
    { arbitrary: fc.constant<string | null>(`Bearer ${attacker.token}`), weight: 8 },
    fc.constant(null),
    texts.map(text => headerValue(`Bearer ${text}`)),
  )
  return fc
    .tuple(
      fc.oneof(...operations, accepted),
      authorization,
      fc.option(method, { freq: 10 }),
      fc.option(header, { freq: 6 }),
      fc.option(fc.string({ unit: "binary", maxLength: 30 }), { freq: 8 }),
    )
    .map(([drawn, sent, other, more, tail]) => ({
      ...drawn,
      authorization: sent,
      method: other ?? drawn.method,
      headers: more === null ? drawn.headers : { ...drawn.headers, [more[0]]: more[1] },
      path: tail === null ? drawn.path : `${drawn.path}/${encodeURI(tail.replace(/\p{Surrogate}/gu, ""))}`,
    }))
}

function send({ method, path, headers, body, authorization }: MutatedRequest) {
  return new Promise<{ status: number; text: string }>((resolve, reject) => {
    const all = {
      ...headers,
      ...(authorization === null ? {} : { authorization }),
      // Node sends a body with GET or HEAD without saying how long it is: that would be two requests.
      ...(body === undefined ? {} : { "content-length": Buffer.byteLength(body) }),
    }
    const sent = request(`${scene.url}/`, { method, path, headers: all, agent }, answer => {
      const chunks: Buffer[] = []
      const finish = () => {
        const text = `${Buffer.concat(chunks)} ${JSON.stringify(answer.headers)}`
        resolve({ status: answer.statusCode ?? 0, text })
      }
      answer.on("data", chunk => chunks.push(chunk))
      answer.on("end", finish)
      answer.on("error", reject)
      // A stream has no end: its first bytes are enough.
      if (/event-stream/.test(answer.headers["content-type"] ?? ""))
        setTimeout(() => {
          finish()
          answer.off("error", reject).on("error", () => {})
          answer.destroy()
        }, 50)
    })
    sent.on("error", reject)
    // A request that is never answered is named, instead of the whole test running out of time.
    sent.setTimeout(30_000, () => sent.destroy(new Error(`no answer to ${method} ${path}`)))
    sent.end(body)
  })
}

it(`S3 ${RUNS} random requests: no 500, no crash, nothing of another owner's, no secret in the log`, async () => {
  for (const [status, part] of known) {
    const answer = await send(knownRequest(part))
    expect(answer.status, `${JSON.stringify(part)} ${answer.text}`).toBe(status)
  }
  const requests = fc.sample(await mutated(), { numRuns: RUNS, seed })
  let next = 0
  let answered = 0
  const lane = async () => {
    while (next < requests.length) {
      const asked = requests[next++]!
      const { status, text } = await send(asked)
      answered++
      const { authorization: _, ...shown } = asked
      const what = JSON.stringify(shown)
      expect(status, `${what} ${text}`).toBeLessThan(500)
      scene.mustNotLeak(text, `${what} ${decodeURIComponent(asked.path)}`)
    }
  }
  await Promise.all(Array.from({ length: LANES }, lane))
  // Node refuses to send none of them: each one reached the server.
  expect(answered).toBe(RUNS)
  await scene.isUnharmed()
})

it("S3 300 connections full of random bytes, some of which begin like HTTP: no crash, nothing shown", async () => {
  const port = Number(new URL(scene.url).port)
  const starts = [
    "",
    "GET / HTTP/1.1\r\n",
    "POST /jobs HTTP/1.1\r\nHost: x\r\n",
    "GET /jobs HTTP/1.1\r\nHost: x\r\n\r\n",
  ]
  const bytes = fc.tuple(fc.constantFrom(...starts), fc.uint8Array({ minLength: 1, maxLength: 300 }))
  const sent = fc
    .sample(bytes, { numRuns: 300, seed })
    .map(([start, rest]) => Buffer.concat([Buffer.from(start), rest, Buffer.from("\r\n\r\n")]))
  for (const answer of await Promise.all(sent.map(each => readReplies(port, each, 400))))
    scene.mustNotLeak(answer)
  await scene.isUnharmed()
})
