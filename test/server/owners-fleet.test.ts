/**
 * S3: three owners, with tokens and JWTs, on a fleet of processes: two of the API, an engine, and two workers that reach it
 * through Redis. Each worker runs jobs of all owners at the same time.
 */
import { randomUUID } from "node:crypto"
import { expect, it, onTestFinished } from "vitest"
import { startRedis } from "../../scripts/services/redis.ts"
import { jobHasEnded } from "../../src/core/states.ts"
import { Tokens } from "../../src/server/auth/tokens.ts"
import { openUmbra } from "../../src/umbra.ts"
import { folderWith, startUmbra } from "../cli/umbra.ts"
import { newKey, openIssuer, tokenOf } from "./issuer.ts"
import { storeFlags, storeOf } from "./served.ts"
import { type Answer, type Asked, ask } from "./stage.ts"

const JOBS = 15

/** Logs and prints what only its owner may see, with pauses in which attempts of other owners run; one in a thread too. */
const handlers = `
const pause = () => new Promise(resolve => setTimeout(resolve, Math.random() * 5))
const talk = async ({ mark, key }, ctx) => {
  for (let n = 0; n < 20; n++) {
    ctx.log.info({ mark, key }, \`\${mark} \${n} \${key}\`)
    await pause()
    console.log("printed", mark, n, { key })
    await Promise.all([pause().then(() => console.warn("nested", mark, key)), pause()])
  }
  setTimeout(() => { ctx.log.error({ mark }, mark + " late"); console.log(mark, "late") }, 20)
  return { mark, echo: key }
}
export const here = { name: "here", run: talk }
export const apart = { name: "apart", thread: import.meta.url, run: talk }
`

const workflow = (mark: string) => ({
  name: "talk",
  nodes: ["here", "apart"].map(handler => ({
    ...{ id: handler, handler },
    config: { mark: `${mark} {{ input.n }}`, key: "{{ secrets.KEY }}" },
  })),
})

async function fleet() {
  const [store, redis, issuer, key] = [
    await storeOf("PostgreSQL"),
    await startRedis(),
    await openIssuer(),
    await newKey("good"),
  ]
  onTestFinished(() => redis.stop())
  onTestFinished(() => issuer.close())
  issuer.publish(key)
  const { path, remove } = folderWith({ "handlers.mjs": handlers })
  onTestFinished(remove)
  const { jwtIssuer, jwtAudience, jwksUrl } = issuer.settings
  const secrets = Object.fromEntries(
    ["alice", "bob", "carol"].map(owner => [`UMBRA_SECRET_${owner.toUpperCase()}`, `secret-of-${owner}`]),
  )
  const rules = {
    KEY: ["alice", "bob", "carol"].map(owner => ({
      owners: [owner],
      variable: `UMBRA_SECRET_${owner.toUpperCase()}`,
    })),
  }
  const env = {
    ...secrets,
    UMBRA_SECRETS: JSON.stringify(rules),
    UMBRA_JWT_ISSUER: jwtIssuer!,
    UMBRA_JWT_AUDIENCE: jwtAudience!,
    UMBRA_JWKS_URL: jwksUrl!,
    UMBRA_RATE_LIMIT: "never",
  }
  const start = (...words: string[]) => {
    const running = startUmbra(words, { env })
    onTestFinished(async () => {
      running.kill("SIGKILL")
      await running.ended
    })
    return running
  }
  // Tokens before the servers start, so that none of them is open.
  const umbra = await openUmbra(store.location, { roles: ["api"] })
  onTestFinished(() => umbra.close())
  const tokens = new Tokens(umbra.registry)
  const ids = new Map<string, string>()
  const token = async (owner: string) => {
    const made = await tokens.create({ owner, scopes: ["read", "submit", "manage"] })
    ids.set(owner, made.row.id)
    return made.token
  }
  const callers = {
    alice: await token("alice"),
    bob: await token("bob"),
    carol: await tokenOf(key, { claims: { sub: "carol", scope: "read submit manage" } }),
  }
  const modules = ["--handlers", `${path}/handlers.mjs`]
  const served = ["serve", "--port", "0", ...storeFlags(store)]
  start(...served, "--roles", "engine", "--redis-url", redis.url, ...modules, "--set", "concurrency=1")
  for (let n = 0; n < 2; n++) start("worker", "--redis-url", redis.url, ...modules, "--concurrency", "8")
  const urls: string[] = []
  for (let n = 0; n < 2; n++) {
    const [, port] = await start(...served, "--roles", "api", ...modules).wrote(
      /listens on http:\/\/\S+:(\d+),/,
    )
    urls.push(`http://127.0.0.1:${port}`)
  }
  const revoke = (owner: string) => tokens.revoke(ids.get(owner)!, { owner })
  return { urls, callers, revoke }
}

/** Without what differs from question to question. */
const plain = ({ status, headers, body }: Answer, id: string) =>
  JSON.stringify([status, [...headers].filter(([name]) => name !== "date"), body]).replaceAll(id, "ID")

it("S3 no owner reads a line, a secret or a job of another, through any process", async () => {
  const { urls, callers } = await fleet()
  const names = Object.keys(callers) as (keyof typeof callers)[]
  const marks = Object.fromEntries(names.map(owner => [owner, `mark-${owner}-${randomUUID()}`]))
  const as = (owner: keyof typeof callers, n: number, path: string, asked: Asked = {}) =>
    ask(urls[n % 2]!, path, { ...asked, token: callers[owner] })
  const post = async (owner: keyof typeof callers, n: number, path: string, body: unknown) => {
    const answer = await as(owner, n, path, { method: "POST", body })
    expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300)
    return answer.body
  }
  for (const [n, owner] of names.entries()) await post(owner, n, "/workflows", workflow(marks[owner]!))
  const jobs = await Promise.all(
    Array.from({ length: JOBS }, (_, n) => n).flatMap(n =>
      names.map(async owner => {
        const { job_id } = await post(owner, n, "/jobs", { workflow: "talk", input: { n } })
        return { owner, n, job: job_id as string }
      }),
    ),
  )
  const others = (text: string, owner: string) =>
    names.filter(
      name => name !== owner && (text.includes(marks[name]!) || text.includes(`secret-of-${name}`)),
    )
  for (const { owner, n, job } of jobs) {
    let ended = await as(owner, n, `/jobs/${job}?wait=60`)
    // Workers of a busy machine may take longer: the limit of the test ends this.
    while (ended.status === 200 && !jobHasEnded(ended.body.status))
      ended = await as(owner, n, `/jobs/${job}?wait=60`)
    expect(ended.body, job).toMatchObject({ status: "COMPLETED", owner })
    expect(ended.body.output.here).toEqual({ mark: `${marks[owner]} ${n}`, echo: "[secret KEY]" })
    let lines: { readonly source: string; readonly message: string }[] = []
    await expect
      .poll(async () => {
        lines = (await as(owner, n + 1, `/jobs/${job}/logs?limit=1000`)).body.lines
        return lines.filter(({ source }) => source === "handler").length
      })
      .toBeGreaterThanOrEqual(120)
    const text = JSON.stringify(lines)
    expect(others(text, owner), job).toEqual([])
    expect(text).not.toContain("secret-of-")
    expect(text).toContain("[secret KEY]")
    // Every line is about this job of the owner, and not about another one of it.
    for (const { source, message } of lines)
      if (source === "handler") expect(message).toContain(`${marks[owner]} ${n} `)
  }

  const thief = names[1]!
  const theirs = jobs.find(({ owner }) => owner === "alice")!.job
  const missing = `${theirs.slice(0, -12)}000000000000`
  const paths = [
    "",
    "/logs",
    "/logs?follow",
    "/facts",
    "/facts?follow",
    "/stream",
    "/graph",
    "/why",
    "/report",
  ]
  for (const path of [...paths, "/events", "/compiled-graph", "/nodes/here", "/nodes/here/config"])
    for (const n of [0, 1]) {
      const [found, nothing] = [
        await as(thief, n, `/jobs/${theirs}${path}`),
        await as(thief, n, `/jobs/${missing}${path}`),
      ]
      expect(found.status, path).toBe(404)
      expect(plain(found, theirs), path).toBe(plain(nothing, missing))
    }
  for (const [n, path] of [
    "/jobs?limit=1000",
    "/failures",
    "/waits",
    "/workflows/talk/stats",
    "/jobs/stream",
  ].entries()) {
    const { body } = await as(thief, n, path)
    expect(others(JSON.stringify(body), thief), path).toEqual([])
    for (const { owner, job } of jobs) if (owner !== thief) expect(JSON.stringify(body)).not.toContain(job)
  }
})

it("S3 a session is one of every API process, is not reached from a page of another port, and ends with its token", async () => {
  const { urls, callers, revoke } = await fleet()
  const page = (url: string) => ({ origin: url, "sec-fetch-site": "same-origin", "umbra-csrf": "1" })
  const logIn = await ask(urls[0]!, "/session", {
    ...{ method: "POST", body: { token: callers.alice }, headers: page(urls[0]!) },
  })
  expect(logIn.status).toBe(201)
  const id = /=([^;]+);/.exec(logIn.headers.get("set-cookie")!)![1]!
  const cookie = (url: string) => `umbra_session_${new URL(url).port}=${id}`
  const read = (url: string, headers: Record<string, string>) =>
    ask(url, "/jobs", { headers: { cookie: cookie(url), ...headers } })
  for (const url of urls) expect((await read(url, page(url))).status).toBe(200)
  // The page of the other process, of another port, and of the same host without a proof.
  for (const headers of [
    page(urls[1]!),
    { origin: "http://127.0.0.1:1", "umbra-csrf": "1" },
    { "sec-fetch-site": "same-site", "umbra-csrf": "1" },
    { origin: "null", "umbra-csrf": "1" },
    {},
  ] as Record<string, string>[])
    expect((await read(urls[0]!, headers)).status).toBe(403)
  const act = (headers: Record<string, string>, type = "application/json") =>
    ask(urls[0]!, "/workflows", {
      method: "POST",
      body: JSON.stringify(workflow("x")),
      headers: { cookie: cookie(urls[0]!), "content-type": type, ...headers },
    })
  expect((await act({ origin: urls[0]!, "sec-fetch-site": "same-origin" })).status).toBe(403)
  expect((await act(page(urls[0]!), "text/plain")).status).toBe(403)
  expect((await act(page(urls[0]!))).status).toBe(201)
  expect((await read(urls[0]!, { ...page(urls[0]!), "umbra-owner": "bob" })).status).toBe(403)
  const other = await ask(urls[1]!, "/jobs", {
    headers: { ...page(urls[1]!), cookie: `umbra_session_1=${id}` },
  })
  expect(other.status).toBe(401)
  await revoke("alice")
  for (const url of urls) expect((await read(url, page(url))).status).toBe(401)
})
