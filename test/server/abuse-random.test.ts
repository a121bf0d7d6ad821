/**
 * S3: ten thousand requests, made from the OpenAPI document and twisted, and connections full of random bytes. The seed
 * is printed; UMBRA_TEST_SEED plays it again.
 */
import { Agent, request } from "node:http"
import fc from "fast-check"
import { afterAll, beforeAll, expect, it } from "vitest"
import { converse } from "./abuse/connections.ts"
import { openScene, type Scene } from "./abuse/victim.ts"
import { type Drawn, type Operation, requestOf, texts } from "./drawn.ts"
import { ask, type Store, stores } from "./stage.ts"

const RUNS = 10_000
const LANES = 40
const seed = Number(process.env.UMBRA_TEST_SEED ?? Date.now() % 2 ** 31)

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

interface Twisted extends Drawn {
  readonly authorization: string | null
}

async function twisted(): Promise<fc.Arbitrary<Twisted>> {
  const { body: document } = await ask(scene.url, "/openapi.json", {})
  const { victim, attacker } = scene
  const ids = [victim.job, attacker.job, victim.name, "own"]
  const operations = Object.entries(document.paths as Record<string, Record<string, Operation>>).flatMap(
    ([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => requestOf(path, method, operation, ids)),
  )
  // Left to chance, a run in fifty would hold no request that is accepted at all.
  const accepted = fc.nat().map(nat => ({
    method: "POST",
    path: "/workflows",
    template: "/workflows",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ name: `drawn_${nat}`, nodes: [{ id: "a", handler: "mock" }] }),
  }))
  const method = fc.constantFrom("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE")
  const header = fc.tuple(
    fc.constantFrom("accept", "content-type", "idempotency-key", "traceparent", "origin", "range", "x-a"),
    fc.string({ maxLength: 50 }),
  )
  const authorization = fc.oneof(
    { arbitrary: fc.constant<string | null>(`Bearer ${attacker.token}`), weight: 8 },
    fc.constant(null),
    texts.map(text => `Bearer ${text}`),
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

/** null: Node itself would not send it. */
function send({ method, path, headers, body, authorization }: Twisted) {
  return new Promise<{ status: number; text: string } | null>((resolve, reject) => {
    const all = {
      ...headers,
      ...(authorization === null ? {} : { authorization }),
      // Node sends a body with GET or HEAD without saying how long it is: that would be two requests.
      ...(body === undefined ? {} : { "content-length": Buffer.byteLength(body) }),
    }
    try {
      const sent = request(`${scene.url}/`, { method, path, headers: all, agent }, answer => {
        const chunks: Buffer[] = []
        const finish = () => {
          const text = `${Buffer.concat(chunks)} ${JSON.stringify(answer.headers)}`
          resolve({ status: answer.statusCode ?? 0, text })
        }
        answer.on("data", chunk => chunks.push(chunk))
        answer.on("end", finish)
        answer.on("error", reject)
        // A stream has no end: what it says at first is enough.
        if (/event-stream/.test(answer.headers["content-type"] ?? ""))
          setTimeout(() => {
            finish()
            answer.off("error", reject).on("error", () => {})
            answer.destroy()
          }, 50)
      })
      sent.on("error", reject)
      // One that is never answered is named, instead of the whole test running out of time.
      sent.setTimeout(30_000, () => sent.destroy(new Error(`no answer to ${method} ${path}`)))
      sent.end(body)
    } catch {
      resolve(null)
    }
  })
}

it(`S3 ${RUNS} random requests: no 500, no crash, nothing of another owner's, no secret in the log`, async () => {
  const requests = fc.sample(await twisted(), { numRuns: RUNS, seed })
  const seen = new Map<number, number>()
  let next = 0
  const lane = async () => {
    while (next < requests.length) {
      const asked = requests[next++]!
      const answer = await send(asked)
      const status = answer?.status ?? 0
      seen.set(status, (seen.get(status) ?? 0) + 1)
      if (answer === null) continue
      const { authorization: _, ...shown } = asked
      const what = JSON.stringify(shown)
      expect(status, `${what} ${answer.text}`).toBeLessThan(500)
      scene.mustNotLeak(answer.text, `${what} ${decodeURIComponent(asked.path)}`)
    }
  }
  await Promise.all(Array.from({ length: LANES }, lane))
  // A generator that only makes rubbish would prove nothing.
  for (const status of [200, 201, 400, 401, 404, 415, 422])
    expect(seen.get(status) ?? 0, `${status} of ${JSON.stringify([...seen])}`).toBeGreaterThan(0)
  expect(seen.get(0) ?? 0).toBeLessThan(RUNS / 20)
  await scene.isUnharmed()
}, 120_000)

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
  for (const said of await Promise.all(sent.map(each => converse(port, each, 50)))) scene.mustNotLeak(said)
  await scene.isUnharmed()
})
