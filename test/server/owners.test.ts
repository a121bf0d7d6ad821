/** Two owners and a server: what belongs to one is never the other's (S3, docs/security.md). */
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { describe, expect, it, onTestFinished, vi } from "vitest"
import { openStage, type Stage, type StageOptions } from "./stage.ts"

/** A server of a workflow's author: remembers which keys it was sent. */
async function listener() {
  const heard: (string | undefined)[] = []
  const server = createServer((request, response) => {
    heard.push(request.headers["x-key"] as string | undefined)
    response.setHeader("content-type", "application/json").end("{}")
  })
  await new Promise<void>(resolve => server.listen(0, "127.0.0.1", resolve))
  onTestFinished(() => void server.close())
  return { heard, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` }
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
  it("go to the owners that the configuration names, and to nobody else whatever a workflow writes", async () => {
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
    const { heard, url } = await listener()
    const read = async (token: string, name: string) => {
      const config = { url, headers: { "x-key": `{{ secrets.${name} }}` } }
      const node = { id: "a", handler: "call_external_service", config, retry: { max_attempts: 1 } }
      const { status, error } = await runAs(stage, token, { name: "steal", nodes: [node] } as never)
      return [status, error?.code ?? null]
    }
    expect(await read(alice, "ALICE_ONLY")).toEqual(["COMPLETED", null])
    expect(await read(alice, "FOR_ALL")).toEqual(["COMPLETED", null])
    expect(await read(bob, "FOR_ALL")).toEqual(["COMPLETED", null])
    expect(heard).toEqual(["key-of-alice", "key-for-all", "key-for-all"])
    const names = ["ALICE_ONLY", "NO_RULE", "ACME", "UMBRA_PROVIDER_SECRET_ACME", "OPENAI_API_KEY", "PATH"]
    for (const name of names) expect([name, ...(await read(bob, name))]).toEqual([name, "FAILED", "E407"])
    expect(heard).toHaveLength(3)
  })

  it("are asked for with the job's owner by adapters of a pipeline too", async () => {
    const asked: string[] = []
    const { stage, alice, bob } = await twoOwners({
      worker: { allowPrivateAddresses: true },
      secrets: async (name, { owner }) => {
        asked.push(`${name} for ${owner}`)
        return owner === "alice" ? "key-of-alice" : undefined
      },
    })
    const { heard, url } = await listener()
    const config = { url, headers: { "x-key": "{{ secrets.KEY }}" } }
    const pipeline = {
      name: "fetch",
      init: { body: {} },
      routes: [{ name: "get", inbound: "urls", adapters: [{ type: "http_fetch", config }] }],
    }
    expect((await runAs(stage, alice, pipeline)).status).toBe("COMPLETED")
    expect(await runAs(stage, bob, pipeline)).toMatchObject({ status: "FAILED", error: { code: "E407" } })
    expect(heard).toEqual(["key-of-alice"])
    expect(asked).toEqual(["KEY for alice", "KEY for bob"])
  })
})
