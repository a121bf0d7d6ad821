/** A server on a free port with a store of its own, and a client that checks every answer against the OpenAPI document. */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { dereference, validate } from "@cfworker/json-schema"
import { expect } from "vitest"
import type { Journal } from "../../src/journal/port/journal.ts"
import { silentLog } from "../../src/log.ts"
import { type LocalToken, type Scope, Tokens } from "../../src/server/auth/tokens.ts"
import { type Server, startServer } from "../../src/server/server.ts"
import type { ServerSettings } from "../../src/server/settings.ts"
import { openUmbra, type Umbra, type UmbraOptions } from "../../src/umbra.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { waitForSignal } from "../../src/worker/waiting.ts"
import { freshDatabase } from "../support/services.ts"

export interface Answer {
  readonly status: number
  readonly headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects.
  readonly body: any
}

export interface Asked {
  readonly method?: string
  /** JSON, unless it is a text or bytes. */
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly token?: string
}

export interface Stage {
  readonly server: Server
  readonly umbra: Umbra
  ask(path: string, asked?: Asked): Promise<Answer>
  token(owner: string, ...scopes: Scope[]): Promise<string>
  close(): Promise<void>
}

export interface StageOptions {
  readonly location?: string | Journal
  /** Made before the server starts, so that it is not open. */
  readonly withTokens?: boolean
  readonly settings?: Partial<ServerSettings>
  readonly localToken?: LocalToken
  readonly host?: string
  readonly umbra?: UmbraOptions
}

/** Nodes that a test ends when it wants to. */
const handlers = [
  defineHandler({ name: "approval", run: () => waitForSignal("approved") }),
  defineHandler({
    name: "broken",
    run: () => {
      throw new Error("this handler always fails")
    },
  }),
]

export async function openStage(options: StageOptions = {}): Promise<Stage> {
  const umbra = await openUmbra(options.location ?? "memory:", { handlers, ...options.umbra })
  const tokens = new Tokens(umbra.registry)
  if (options.withTokens) await tokens.create({ owner: "nobody", scopes: ["read"] })
  const server = await startServer({
    umbra,
    host: options.host ?? "127.0.0.1",
    port: 0,
    version: "0.0.0",
    log: silentLog,
    settings: { rateLimit: null, ...options.settings },
    ...(options.localToken === undefined ? {} : { localToken: options.localToken }),
  })
  const check = await answerCheckOf(
    server.url,
    JSON.stringify([options.umbra?.roles, options.settings?.basePath]),
  )
  return {
    server,
    umbra,
    async ask(path, asked = {}) {
      const answer = await ask(server.url, path, asked)
      check(asked.method ?? "GET", path, answer)
      return answer
    },
    token: async (owner, ...scopes) => (await tokens.create({ owner, scopes })).token,
    async close() {
      await server.close()
      await umbra.close()
    },
  }
}

export async function ask(url: string, path: string, asked: Asked): Promise<Answer> {
  const { method = "GET", body, token, headers = {} } = asked
  const isText = typeof body === "string" || body instanceof Uint8Array
  const response = await fetch(`${url}${path}`, {
    method,
    headers: {
      ...(body === undefined || isText ? {} : { "content-type": "application/json" }),
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: isText ? (body as string) : JSON.stringify(body) }),
  })
  const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") ?? false
  const text = isStream ? await beginningOf(response) : await response.text()
  // The answer to HEAD has a type and no text.
  const isJson = /json/.test(response.headers.get("content-type") ?? "")
  return {
    status: response.status,
    headers: response.headers,
    body: isJson && text !== "" ? JSON.parse(text) : text,
  }
}

/** A stream has no end: what it begins with is its answer. */
async function beginningOf({ body }: Response): Promise<string> {
  const reader = body!.getReader()
  const decoder = new TextDecoder()
  let text = ""
  while (!text.includes("data: ")) {
    const { value, done } = await reader.read()
    if (done) break
    text += decoder.decode(value, { stream: true })
  }
  await reader.cancel()
  return text
}

interface Operation {
  readonly responses: Record<string, { content?: Record<string, { schema?: object; examples?: object }> }>
}

type AnswerCheck = (method: string, target: string, answer: Answer) => void

/** By what a server's document depends on, its routes: to write, read and compile one takes longer than to start the server. */
const answerChecks = new Map<string, Promise<AnswerCheck>>()

async function answerCheckOf(url: string, key: string): Promise<AnswerCheck> {
  const known = answerChecks.get(key)
  if (known !== undefined) return known
  const check = answerCheck(url)
  answerChecks.set(key, check)
  return check
}

/** Every answer must be one that the document promises: status, code and schema. */
async function answerCheck(url: string): Promise<AnswerCheck> {
  const { body: document } = await ask(url, "/openapi.json", {})
  const paths = document.paths as Record<string, Record<string, Operation>>
  const patterns = Object.keys(paths)
    .map(path => ({ path, pattern: new RegExp(`^${path.replaceAll(/\{[^}]+\}/g, "[^/]+")}$`) }))
    .sort((a, b) => Number(a.path.includes("{")) - Number(b.path.includes("{")))
  // Once for the document: a validator of its own for each schema would resolve all references of all schemas again.
  const schemas = dereference(document)
  return (method, target, answer) => {
    const path = patterns.find(({ pattern }) => pattern.test(target.replace(/\?.*/, "")))?.path
    const operation = path === undefined ? undefined : paths[path]?.[method.toLowerCase()]
    if (operation === undefined) return
    const promised = operation.responses[answer.status]
    expect(
      promised,
      `${method} ${path} answered ${answer.status}: ${JSON.stringify(answer.body)}`,
    ).toBeDefined()
    const type = answer.headers.get("content-type")?.split(";")[0] ?? ""
    const { schema, examples = {} } = promised?.content?.[type] ?? {}
    if (schema === undefined) return
    if (type === "application/problem+json")
      expect(Object.keys(examples), `${method} ${path} ${answer.status}`).toContain(answer.body.code)
    const result = validate(answer.body, schema, "2020-12", schemas)
    expect(result.valid ? [] : result.errors, `${method} ${path} ${answer.status}`).toEqual([])
  }
}

export interface Store {
  readonly location: string
  remove(): Promise<void>
}

export const stores: Readonly<Record<string, () => Promise<Store>>> = {
  SQLite: async () => {
    const location = await mkdtemp(join(tmpdir(), "umbra-server-"))
    return { location, remove: () => rm(location, { recursive: true, force: true }) }
  },
  PostgreSQL: async () => {
    const { url, drop } = await freshDatabase()
    return { location: url, remove: drop }
  },
}

export const hello = {
  name: "hello",
  nodes: [{ id: "greet", handler: "transform", config: { value: "Hello {{ input.name }}" } }],
}
