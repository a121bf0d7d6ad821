/** Two owners and a server: what belongs to one is never the other's (S3, docs/operations/security.md). */
import { mkdtemp, readFile, rm } from "node:fs/promises"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it, onTestFinished, vi } from "vitest"
import { openStage, type Stage, type StageOptions, stores } from "./stage.ts"

/** A server of a workflow's author: remembers which keys it was sent. */
async function listener() {
  const received: (string | undefined)[] = []
  const server = createServer((request, response) => {
    received.push(request.headers["x-key"] as string | undefined)
    response.setHeader("content-type", "application/json").end("{}")
  })
  await new Promise<void>(resolve => server.listen(0, "127.0.0.1", resolve))
  onTestFinished(() => void server.close())
  return { received, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` }
}

async function twoOwners(umbra: StageOptions["umbra"] = {}) {
  const stage = await openStage({ withTokens: true, umbra })
  onTestFinished(() => stage.close())
  const token = (owner: string) => stage.token(owner, "read", "submit", "manage")
  return { stage, alice: await token("alice"), bob: await token("bob") }
}

async function runAs({ ask }: Stage, token: string, definition: { readonly name: string }) {
  const { name } = definition
  const pushed = await ask("/workflows", { method: "POST", token, body: definition })
  expect(pushed.status, JSON.stringify(pushed.body)).toBeLessThan(300)
  const job = await ask("/jobs?wait=30", { method: "POST", token, body: { workflow: name } })
  expect(job.status, JSON.stringify(job.body)).toBeLessThan(300)
  return job.body
}

describe("secrets of a server with two owners", () => {
  it("go to the owners that the configuration names, and to no other whatever a workflow contains", async () => {
    const variables = {
      UMBRA_SECRET_ALICE_ONLY: "key-of-alice",
      UMBRA_SECRET_FOR_ALL: "key-for-all",
      UMBRA_SECRET_NO_RULE: "key-without-rule",
      UMBRA_PROVIDER_SECRET_ACME: "key-of-the-operator",
      OPENAI_API_KEY: "bare-key",
      UMBRA_SECRETS: JSON.stringify({ ALICE_ONLY: { owners: ["alice"] }, FOR_ALL: { shared: true } }),
    }
    for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value)
    onTestFinished(() => void vi.unstubAllEnvs())
    const { stage, alice, bob } = await twoOwners({ worker: { allowPrivateAddresses: true } })
    const { received, url } = await listener()
    const read = async (token: string, name: string) => {
      const config = { url, headers: { "x-key": `{{ secrets.${name} }}` } }
      const node = { id: "a", handler: "call_external_service", config, retry: { max_attempts: 1 } }
      const { status, error } = await runAs(stage, token, { name: "steal", nodes: [node] } as never)
      return [status, error?.code ?? null]
    }
    expect(await read(alice, "ALICE_ONLY")).toEqual(["COMPLETED", null])
    expect(await read(alice, "FOR_ALL")).toEqual(["COMPLETED", null])
    expect(await read(bob, "FOR_ALL")).toEqual(["COMPLETED", null])
    expect(received).toEqual(["key-of-alice", "key-for-all", "key-for-all"])
    const names = ["ALICE_ONLY", "NO_RULE", "ACME", "UMBRA_PROVIDER_SECRET_ACME", "OPENAI_API_KEY", "PATH"]
    for (const name of names) expect([name, ...(await read(bob, name))]).toEqual([name, "FAILED", "E407"])
    expect(received).toHaveLength(3)
  })

  it("are requested with the job's owner by adapters of a pipeline too", async () => {
    const asked: string[] = []
    const { stage, alice, bob } = await twoOwners({
      worker: { allowPrivateAddresses: true },
      secrets: async (name, { owner }) => {
        asked.push(`${name} for ${owner}`)
        return owner === "alice" ? "key-of-alice" : undefined
      },
    })
    const { received, url } = await listener()
    const config = { url, headers: { "x-key": "{{ secrets.KEY }}" } }
    const pipeline = {
      name: "fetch",
      init: { body: {} },
      routes: [{ name: "get", inbound: "urls", adapters: [{ type: "http_fetch", config }] }],
    }
    expect((await runAs(stage, alice, pipeline)).status).toBe("COMPLETED")
    expect(await runAs(stage, bob, pipeline)).toMatchObject({ status: "FAILED", error: { code: "E407" } })
    expect(received).toEqual(["key-of-alice"])
    expect(asked).toEqual(["KEY for alice", "KEY for bob"])
  })
})

describe("two owners on one server", () => {
  it("have names, keys, versions and aliases of their own, and cannot run each other's workflows", async () => {
    const { stage, alice, bob } = await twoOwners()
    const value = (text: string) => ({
      name: "report",
      nodes: [{ id: "a", handler: "transform", config: { value: text } }],
      output: "{{ a }}",
    })
    expect((await runAs(stage, alice, value("of alice"))).output).toBe("of alice")
    const submit = (token: string, workflow: string) =>
      stage.ask("/jobs?wait=30", {
        ...{ method: "POST", token, body: { workflow } },
        headers: { "idempotency-key": "the same" },
      })
    expect((await submit(bob, "report")).body.code).toBe("E305")
    expect((await runAs(stage, bob, value("of bob"))).output).toBe("of bob")
    const [first, second] = [await submit(alice, "report"), await submit(bob, "report")]
    expect([first.status, first.body.output]).toEqual([201, "of alice"])
    expect([second.status, second.body.output]).toEqual([201, "of bob"])
    await stage.ask("/workflows", { method: "POST", token: alice, body: { ...value("x"), name: "private" } })
    const retry = { max_attempts: 1 }
    const child = { id: "a", handler: "workflow", config: { workflow: "private" }, retry }
    expect(await runAs(stage, bob, { name: "parent", nodes: [child] } as never)).toMatchObject({
      status: "FAILED",
      error: { code: "E305" },
    })
    const route = {
      name: "r",
      inbound: "q",
      adapters: [{ type: "submit_job", config: { workflow: "private" } }],
    }
    const error_handling = { retries: 0 }
    const pipeline = { name: "feeder", init: { body: {} }, routes: [{ ...route, error_handling }] }
    const fed = await runAs(stage, bob, pipeline)
    expect(fed.output.routes.r).toMatchObject({ dead_lettered: 1 })
    const { jobs } = (await stage.ask("/jobs?workflow=private", { token: alice })).body
    expect(jobs).toEqual([])
  })

  it("do not read each other's facts, logs, payloads, past graphs and compiled graphs", async () => {
    const { stage, alice, bob } = await twoOwners()
    const nodes = [{ id: "a", handler: "transform", config: { value: "x".repeat(2000) } }]
    const { job_id } = await runAs(stage, alice, { name: "report", nodes } as never)
    const { facts } = (await stage.ask(`/jobs/${job_id}/facts`, { token: alice })).body
    const { seq, output } = facts.find(({ type }: { type: string }) => type === "node_completed")
    expect(output.$payload.bytes).toBe(2002)
    const paths = [
      `/jobs/${job_id}/facts`,
      `/jobs/${job_id}/facts?follow`,
      `/jobs/${job_id}/facts?after=${seq}`,
      `/jobs/${job_id}/logs`,
      `/jobs/${job_id}/logs?follow`,
      `/jobs/${job_id}/payloads/${seq}/output`,
      `/jobs/${job_id}/graph?at=${seq}`,
      `/jobs/${job_id}/graph?at=%231`,
      "/workflows/report/versions/1/graph",
    ]
    const etag = (await stage.ask(paths[3]!, { token: alice })).headers.get("etag")!
    for (const path of paths) {
      expect((await stage.ask(path, { token: alice })).status, path).toBe(200)
      const { status, body } = await stage.ask(path, { token: bob, headers: { "if-none-match": etag } })
      expect([path, status]).toEqual([path, 404])
      expect(JSON.stringify(body)).not.toContain("xxx")
    }
  })

  it("fork with definitions of their own, also if these differ only in a default that one has written", async () => {
    const { location, remove } = await stores.SQLite!()
    onTestFinished(remove)
    const definition = (retry?: object) => ({
      name: "report",
      nodes: [{ id: "a", handler: "transform", config: { value: 2 }, ...(retry && { retry }) }],
    })
    const first = await openStage({ location, withTokens: true })
    const tokens: string[] = []
    const forks: string[] = []
    for (const [owner, retry] of [
      ["bob", { max_attempts: 3 }],
      ["alice", undefined],
    ] as const) {
      const token = await first.token(owner, "read", "submit", "manage")
      tokens.push(token)
      const { job_id } = await runAs(first, token, {
        ...definition(),
        nodes: [{ id: "a", handler: "transform", config: { value: 1 } }],
      } as never)
      const body = { workflow: definition(retry) }
      const fork = await first.ask(`/jobs/${job_id}/fork`, { method: "POST", token, body })
      expect(fork.status, JSON.stringify(fork.body)).toBe(201)
      forks.push(fork.body.job_id)
    }
    await first.close()
    // The definitions are read from the store.
    const second = await openStage({ location, withTokens: true })
    onTestFinished(() => second.close())
    const shown = await Promise.all(
      forks.map((job, n) => second.ask(`/jobs/${job}/compiled-graph?definition=true`, { token: tokens[n]! })),
    )
    expect(shown.map(({ body }) => body.definition.nodes[0].retry)).toEqual([{ max_attempts: 3 }, undefined])
  })

  it("see nothing of each other in streams, whatever position they resume from", async () => {
    const { stage, alice, bob } = await twoOwners()
    const follow = (token: string, id?: string) =>
      stage.ask("/jobs/stream", { token, headers: id === undefined ? {} : { "last-event-id": id } })
    const idIn = (text: string) => /^id: (.+)$/m.exec(text)![1]!
    const before = idIn((await follow(alice)).body)
    const waits = { name: "waits", nodes: [{ id: "a", handler: "approval" }] }
    await stage.ask("/workflows", { method: "POST", token: alice, body: waits })
    const job = await stage.ask("/jobs", { method: "POST", token: alice, body: { workflow: "waits" } })
    const { job_id } = job.body
    expect((await follow(alice, before)).body).toContain(job_id)
    const mine = await stage.ask("/workflows", {
      method: "POST",
      token: bob,
      body: { ...waits, name: "mine" },
    })
    expect(mine.status).toBe(201)
    const own = await stage.ask("/jobs", { method: "POST", token: bob, body: { workflow: "mine" } })
    const seen = [(await follow(bob)).body, (await follow(bob, before)).body].join("\n")
    expect(seen).toContain(own.body.job_id)
    expect(seen).not.toContain(job_id)
    expect(seen).not.toContain("waits")
    const asked = [
      await stage.ask(`/jobs?parent=${job_id}`, { token: bob }),
      await stage.ask(`/jobs?after=${job_id}`, { token: bob }),
      await stage.ask("/jobs?limit=100", { token: bob }),
    ]
    for (const { body } of asked) expect(JSON.stringify(body.jobs ?? [])).not.toContain(job_id)
  })

  it("use the same paths for different files", async () => {
    const folder = await mkdtemp(join(tmpdir(), "umbra-owners-"))
    onTestFinished(() => rm(folder, { recursive: true, force: true }))
    const { stage, alice, bob } = await twoOwners({ files: { allowFiles: [folder] } })
    const sink = (text: string, path: string) => ({
      name: "write",
      init: { body: { text } },
      routes: [
        {
          ...{ name: "w", inbound: "lines", error_handling: { retries: 0 } },
          adapters: [{ type: "jsonl_sink", config: { path } }],
        },
      ],
    })
    await runAs(stage, alice, sink("of alice", "out.jsonl"))
    await runAs(stage, bob, sink("of bob", "out.jsonl"))
    expect(await readFile(join(folder, "alice", "out.jsonl"), "utf8")).toBe('{"text":"of alice"}\n')
    expect(await readFile(join(folder, "bob", "out.jsonl"), "utf8")).toBe('{"text":"of bob"}\n')
    for (const path of ["../alice/out.jsonl", join(folder, "alice", "out.jsonl"), join(folder, "x")]) {
      const job = await runAs(stage, bob, sink("forged", path))
      const { dead_letters } = (await stage.ask(`/jobs/${job.job_id}/dead-letters`, { token: bob })).body
      expect(dead_letters).toMatchObject([{ error: { code: "E721" } }])
    }
    expect(await readFile(join(folder, "alice", "out.jsonl"), "utf8")).toBe('{"text":"of alice"}\n')
  })
})
