/**
 * Somebody with things that nobody else may see, each with a mark that shows wherever it turns up, and somebody who wants
 * to see them.
 */
import { randomUUID } from "node:crypto"
import { expect } from "vitest"
import { type LogLevel, logTo } from "../../../src/log.ts"
import { type Scope, Tokens } from "../../../src/server/auth/tokens.ts"
import { startServer } from "../../../src/server/server.ts"
import type { ServerSettings } from "../../../src/server/settings.ts"
import { openUmbra } from "../../../src/umbra.ts"
import { defineHandler } from "../../../src/worker/handler.ts"
import { waitForSignal } from "../../../src/worker/waiting.ts"
import { type Issuer, type Key, newKey, openIssuer } from "../issuer.ts"
import { type Answer, type Asked, ask } from "../stage.ts"

const canary = (what: string) => `canary-${what}-${randomUUID().slice(0, 8)}`

export interface Scene {
  readonly url: string
  readonly issuer: Issuer
  readonly key: Key
  readonly victim: {
    readonly token: string
    readonly owner: string
    readonly name: string
    readonly job: string
  }
  readonly attacker: { readonly token: string; readonly job: string }
  /** Asks, and fails if the answer shows anything of the victim's that was not in the question. */
  ask(path: string, asked?: Asked): Promise<Answer>
  /** Fails if a text that is not the victim's to see shows what it must not. */
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
  const marks = ["name", "input", "label", "owner", "secret", "alias"].map(canary)
  const [name, input, label, owner, secret] = marks as [string, string, string, string, string]
  const lines: { readonly level: LogLevel; readonly text: string }[] = []
  const log = logTo((level, fields, message) => {
    lines.push({ level, text: JSON.stringify([fields, message]) })
  })
  const handlers = [
    defineHandler({ name: "approval", run: () => waitForSignal("approved") }),
    defineHandler({ name: "spell", run: config => ({ length: JSON.stringify(config).length, config }) }),
  ]
  const umbra = await openUmbra(location, { handlers, log, secrets: () => secret })
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
  await send(`/workflows/${name}/aliases/stable`, { method: "PUT", body: { version: 1 }, token: given[0] })
  const body = { workflow: name, input: { input }, labels: { label } }
  const { body: victimJob } = await send("/jobs", { method: "POST", body, token: given[0] })
  const own = { name: "own", nodes: [{ id: "ask", handler: "approval" }] }
  await send("/workflows", { method: "POST", body: own, token: given[1] })
  const { body: ownJob } = await send("/jobs", { method: "POST", body: { workflow: "own" }, token: given[1] })
  const hidden = [...marks, victimJob.job_id as string, ...given]

  const mustNotLeak = (text: string, question = "") => {
    for (const mark of hidden) if (!question.includes(mark)) expect(text).not.toContain(mark)
  }
  return {
    url,
    issuer,
    key,
    victim: { token: given[0], owner, name, job: victimJob.job_id },
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
      const job = await send(`/jobs/${victimJob.job_id}`, { token: given[0] })
      expect(job.body).toMatchObject({ owner, finished_at: null, labels: { label } })
      const workflow = await send(`/workflows/${name}`, { token: given[0] })
      expect(workflow.body).toMatchObject({ version: 1, aliases: [{ alias: "stable", weights: { 1: 1 } }] })
      const logged = lines.map(({ text }) => text).join("\n")
      for (const mark of [secret, ...given]) expect(logged).not.toContain(mark)
      expect(lines.filter(({ level }) => level === "error")).toEqual([])
    },
    async close() {
      await server.close()
      await umbra.close()
      await issuer.close()
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
