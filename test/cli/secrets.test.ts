import { afterAll, describe, expect, it } from "vitest"
import { umbra } from "./same-process.ts"
import { folderWith } from "./umbra.ts"

const workflow = `name: summarize
nodes:
  - id: page
    handler: call_external_service
    config: { url: "https://example.com", headers: { authorization: "Bearer {{ secrets.SHOP_TOKEN }}" } }
  - id: summary
    handler: llm_service
    config:
      base_url: https://api.openai.com/v1
      model: m
      api_key: "{{ secrets.OPENAI_API_KEY }}"
      prompt: "{{ page.body }}"
`
const pipeline = `name: load
routes:
  - name: store
    inbound: rows
    adapters:
      - { type: http_fetch, config: { url: "https://example.com", headers: { a: "{{ secrets.ROUTE_KEY }}" } } }
`
const operations = `name: film
nodes: [{ id: make, handler: external, provider: acme }]
`
const providers = `name: acme
submit: { url: "https://acme.example/jobs", headers: { a: "{{ secrets.ACME_KEY }}" }, external_id: "{{ body.id }}" }
webhook:
  external_id: "{{ body.id }}"
  status: "{{ body.status }}"
  done: [done]
  signature: { scheme: standard-webhooks, secrets: [ACME_WEBHOOK] }
`

const { path: cwd, remove } = folderWith({
  "flow.yaml": workflow,
  "pipeline.yaml": pipeline,
  "plain.yaml": "name: plain\nnodes: [{ id: a, handler: transform, config: { value: 1 } }]\n",
  "bad.yaml": "name: bad\nnodes: [{ id: a, handler: nobody }]\n",
  "film.yaml": operations,
  "providers.yaml": providers,
  "umbra.yaml": "secrets:\n  OPENAI_API_KEY: { owners: [alice] }\n  SHOP_TOKEN: { shared: true }\n",
})
afterAll(remove)

const both = { UMBRA_SECRET_SHOP_TOKEN: "shop-token", UMBRA_SECRET_OPENAI_API_KEY: "sk-value" }
const check = (parameters: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  umbra(["secrets", "check", ...parameters], { cwd, env })

describe("umbra secrets check", () => {
  it("names what a workflow reads, by which nodes, and ends with 0 when all of it is there", async () => {
    const { code, stdout } = await check(["flow.yaml"], both)
    expect(stdout).toMatch(/✓ SHOP_TOKEN +page\n✓ OPENAI_API_KEY +summary\n✓ all secrets/)
    expect(code).toBe(0)
    expect(stdout).not.toMatch(/shop-token|sk-value/)
  })

  it("prints what is missing with the exact remedy for a bare variable, and exits 1", async () => {
    const { code, stdout } = await check(["flow.yaml"], { OPENAI_API_KEY: "sk-value" })
    expect(code).toBe(1)
    expect(stdout).toContain('export UMBRA_SECRET_OPENAI_API_KEY="$OPENAI_API_KEY"')
    expect(stdout).toContain('export UMBRA_SECRET_SHOP_TOKEN="…"')
    expect(stdout).toContain('✗ 2 of 2 missing for owner "local"')
  })

  it("answers for an owner by the rules of the configuration file, as JSON too", async () => {
    const config = ["--config", "umbra.yaml", "--json"]
    const names = (stdout: string) =>
      JSON.parse(stdout).secrets.map(({ name, available }: { name: string; available: boolean }) => [
        name,
        available,
      ])
    const alice = await check(["flow.yaml", "--owner", "alice", ...config], both)
    expect([alice.code, names(alice.stdout)]).toEqual([
      0,
      [
        ["SHOP_TOKEN", true],
        ["OPENAI_API_KEY", true],
      ],
    ])
    const bob = await check(["flow.yaml", "--owner", "bob", ...config], both)
    expect(bob.code).toBe(1)
    expect(JSON.parse(bob.stdout)).toMatchObject({
      owner: "bob",
      secrets: [
        { name: "SHOP_TOKEN", space: "workflow", used_by: ["page"], available: true, message: null },
        {
          name: "OPENAI_API_KEY",
          available: false,
          message: expect.stringContaining('not given to owner "bob"'),
        },
      ],
    })
  })

  it("answers for pipelines, and for the providers that a workflow uses", async () => {
    expect((await check(["pipeline.yaml"])).stdout).toMatch(/✗ ROUTE_KEY +store/)
    const env = { UMBRA_PROVIDER_SECRET_ACME_KEY: "acme-key", UMBRA_SECRET_ACME_WEBHOOK: "of-workflows" }
    const { code, stdout } = await check(["film.yaml", "--providers", "providers.yaml"], env)
    expect(code).toBe(1)
    expect(stdout).toMatch(/✓ ACME_KEY +provider acme\n✗ ACME_WEBHOOK +provider acme\n/)
    expect(stdout).toContain("export UMBRA_PROVIDER_SECRET_ACME_WEBHOOK=")
  })

  it("a workflow that reads none is fine; one that is invalid ends with 2", async () => {
    expect(await check(["plain.yaml"])).toMatchObject({ code: 0, stdout: "✓ plain.yaml reads no secret\n" })
    const { code, stdout } = await check(["bad.yaml"])
    expect([code, stdout]).toEqual([2, expect.stringContaining("E103")])
  })
})
