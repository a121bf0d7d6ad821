/**
 * Somebody with things that nobody else may see, each with a mark that shows wherever it turns up, and somebody who wants
 * to see them.
 */

import { randomUUID } from "node:crypto"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect } from "vitest"
import { type LogLevel, logTo } from "../../../src/log.ts"
import { type Scope, Tokens } from "../../../src/server/auth/tokens.ts"
import { startServer } from "../../../src/server/server.ts"
import type { ServerSettings } from "../../../src/server/settings.ts"
import { openUmbra } from "../../../src/umbra.ts"
import { defineHandler } from "../../../src/worker/handler.ts"
import { waitForSignal } from "../../../src/worker/waiting.ts"
import { adapter, route } from "../../pipeline/scene.ts"
import { type Issuer, type Key, newKey, openIssuer } from "../issuer.ts"
import { type Answer, type Asked, ask } from "../stage.ts"

const kinds = ["name", "input", "label", "owner", "secret", "line", "fault"] as const
type Kind = (typeof kinds)[number]
const canary = (what: string) => `canary-${what}-${randomUUID().slice(0, 8)}`

export interface Scene {
  readonly url: string
  readonly issuer: Issuer
  readonly key: Key
  readonly target: {
    readonly token: string
    readonly tokenId: string
    readonly owner: string
    /** Of its workflow, and of its schedule. */
    readonly name: string
    readonly job: string
    /** Of every kind: a job, its fork, an execution of a pipeline, a bulk operation, a deleted job. */
    readonly jobs: readonly string[]
    readonly artifact: string
  }
  readonly attacker: { readonly token: string; readonly job: string }
  /** Asks, and fails if the answer shows anything of the target's that was not in the question. */
  ask(path: string, asked?: Asked): Promise<Answer>
  /** Fails if a text that is not the target's to see shows what it must not. */
  mustNotLeak(text: string, question?: string): void
  token(owner: string, ...scopes: Scope[]): Promise<string>
  /** Nothing was lost or changed, no secret is in the log, nothing was an error, and the server still answers. */
  isUnharmed(): Promise<void>
  close(): Promise<void>
}

export async function openScene(
  settings: Partial<ServerSettings> = {},
  location = "memory:",
): Promise<Scene> {
  const mark = Object.fromEntries(kinds.map(kind => [kind, canary(kind)])) as Record<Kind, string>
  const { name, input, label, owner, secret } = mark
  const lines: { readonly level: LogLevel; readonly text: string }[] = []
  const log = logTo((level, fields, message) => {
    lines.push({ level, text: JSON.stringify([fields, message]) })
  })
  const handlers = [
    defineHandler({ name: "approval", run: () => waitForSignal("approved") }),
    defineHandler({
      name: "spell",
      run: (config, ctx) => {
        ctx.log.warn({ config }, mark.line)
        return { length: JSON.stringify(config).length, config }
      },
    }),
  ]
  const failing = adapter("failing", () => {
    throw Object.assign(new Error(mark.fault), { retryable: false })
  })
  const folder = await mkdtemp(join(tmpdir(), "umbra-target-"))
  const umbra = await openUmbra(location, {
    ...{ handlers, adapters: [failing], log, secrets: () => secret },
    artifacts: { location: folder },
  })
  const issuer = await openIssuer()
  const key = await newKey("good")
  issuer.publish(key)
  const tokens = new Tokens(umbra.registry)
  const token = async (of: string, ...scopes: Scope[]) => (await tokens.create({ owner: of, scopes })).token
  const given = [await token(owner, "admin"), await token("attacker", "admin")] as const
  const server = await startServer({
    umbra,
    host: "127.0.0.1",
    port: 0,
    version: "0",
    log,
    settings: { rateLimit: null, ...issuer.settings, ...settings },
  })
  const { url } = server
  const send = (path: string, asked: Asked) => ask(url, path, asked)
  const definition = {
    name,
    nodes: [
      { id: "spell", handler: "spell", config: { value: "{{ secrets.KEY }}" } },
      { id: "ask", handler: "approval", dependencies: ["spell"] },
    ],
  }
  await send("/workflows", { method: "POST", body: definition, token: given[0] })
  const asVictim = async (method: string, path: string, body?: unknown) => {
    const answer = await send(path, { method, body, token: given[0] })
    expect(answer.status, `${method} ${path} ${JSON.stringify(answer.body)}`).toBeLessThan(300)
    return answer.body
  }
  const post = (path: string, body?: unknown) => asVictim("POST", path, body)
  await asVictim("PUT", `/workflows/${name}/aliases/stable`, { version: 1 })
  const body = { workflow: name, input: { input }, labels: { label } }
  const targetJob = await post("/jobs", body)
  const confirm = { unknown: true }
  const fork = await post(`/jobs/${targetJob.job_id}/fork`, { confirm, from: ["ask"] })
  const error_handling = { retries: 0, circuit_breaker: false }
  await post("/workflows", {
    // The metrics, which operators see, name pipelines.
    name: "flow",
    init: { body: { input } },
    routes: [route("only", ["failing"], { error_handling })],
  })
  const execution = await post("/jobs?wait=30", { workflow: "flow" })
  const deleted = await post("/jobs", body)
  await post(`/jobs/${deleted.job_id}/cancel`)
  await asVictim("DELETE", `/jobs/${deleted.job_id}`)
  const bulk = await post("/bulk", { verb: "cancel", filter: { labels: { none: input } }, reason: input })
  await asVictim("PUT", `/schedules/${name}`, { workflow: name, every: "1h", input: { input } })
  const jobs = [targetJob.job_id, fork.job_id, execution.job_id, bulk.bulk_id, deleted.job_id] as string[]
  const own = { name: "own", nodes: [{ id: "ask", handler: "approval" }] }
  await send("/workflows", { method: "POST", body: own, token: given[1] })
  const { body: ownJob } = await send("/jobs", { method: "POST", body: { workflow: "own" }, token: given[1] })
  const { artifact } = await umbra.artifacts.put(input, "content of the target", { owner })
  const hidden = [...Object.values(mark), ...jobs, ...given]
  const [{ id: tokenId }] = (await send("/tokens", { token: given[0] })).body.tokens

  const mustNotLeak = (text: string, question = "") => {
    for (const hint of hidden) if (!question.includes(hint)) expect(text).not.toContain(hint)
  }
  return {
    url,
    issuer,
    key,
    target: { token: given[0], tokenId, owner, name, job: targetJob.job_id, jobs, artifact },
    attacker: { token: given[1], job: ownJob.job_id },
    token,
    mustNotLeak,
    async ask(path, asked = {}) {
      const answer = await send(path, asked)
      const headers = JSON.stringify([...answer.headers])
      // What was sent may come back; a token never does.
      const question = `${decoded(path)} ${JSON.stringify(asked.body)}`
      mustNotLeak(`${JSON.stringify(answer.body)} ${headers}`, question)
      return answer
    },
    async isUnharmed() {
      expect((await send("/health", {})).status).toBe(200)
      const job = await send(`/jobs/${targetJob.job_id}`, { token: given[0] })
      expect(job.body).toMatchObject({ owner, finished_at: null, labels: { label } })
      expect(await (await umbra.artifacts.get(artifact, { owner })).text()).toBe("content of the target")
      const workflow = await send(`/workflows/${name}`, { token: given[0] })
      expect(workflow.body).toMatchObject({ version: 1, aliases: [{ alias: "stable", weights: { 1: 1 } }] })
      const logged = lines.map(({ text }) => text).join("\n")
      for (const hint of [secret, ...given]) expect(logged).not.toContain(hint)
      expect(lines.filter(({ level }) => level === "error")).toEqual([])
    },
    async close() {
      await server.close()
      await umbra.close()
      await issuer.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch {
    return path
  }
}
