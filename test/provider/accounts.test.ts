import { describe, expect, it } from "vitest"
import { httpProvider } from "../../src/provider/http-provider.ts"
import type { HttpProviderDefinition } from "../../src/provider/http-spec.ts"
import type { Provider } from "../../src/provider/provider.ts"
import { openUmbra } from "../../src/umbra.ts"

const credentials = { authorization: "Bearer {{ secrets.ACME_KEY }}" }

describe("two definitions, the host of one in a secret", () => {
  const at = (base: string, over: Partial<HttpProviderDefinition> = {}) =>
    httpProvider({
      name: "acme",
      submit: { url: `${base}/films`, headers: credentials, external_id: "{{ body.id }}" },
      poll: {
        url: `${base}/films/{{ external_id }}`,
        headers: credentials,
        status: "{{ body.s }}",
        done: ["d"],
      },
      ...over,
    })
  const hidden = "{{ secrets.ACME_BASE }}"
  const start = async (...providers: Provider[]) => {
    const umbra = await openUmbra("memory:", { providers })
    await umbra.close()
  }

  it.each([
    ["another secret", at("https://{{ secrets.HOST }}", { name: "second" }), '"acme" and "second"'],
    ["written", at("https://acme.example", { name: "second" }), '"acme" and "second"'],
    ["written, with an account", at("https://acme.example", { name: "second", account: "b" }), '"acme"'],
  ])(
    "do not start while it is not known whether they share an account (the other is %s)",
    async (_, other, who) => {
      for (const pair of [
        [at(hidden), other],
        [other, at(hidden)],
      ]) {
        const error = await start(...pair).catch(thrown => thrown)
        expect(error.code).toBe("E605")
        expect(error.message).toContain("is in a secret, so it is not known whether provider")
        for (const name of ["acme", "second"]) expect(error.message).toContain(`"${name}"`)
        const named = /Add `account: NAME` to (.*): the same/.exec(error.message)![1]!
        expect(named.split(" and ").sort().join(" and ")).toBe(who)
      }
    },
  )

  it("do not start if only a poll has its host in a secret", async () => {
    const poll = { url: `${hidden}/{{ external_id }}`, status: "{{ body.s }}", done: ["d"] }
    const half = at("https://half.example", { name: "half", poll })
    await expect(start(half, at("https://acme.example"))).rejects.toMatchObject({ code: "E605" })
  })

  it("start if both name their account, and alone, and beside one without credentials", async () => {
    await start(at(hidden, { account: "a" }), at(hidden, { name: "second", account: "a" }))
    await start(at(hidden, { account: "a" }), at("https://acme.example", { name: "second", account: "b" }))
    await start(at(hidden))
    const plain = { submit: { url: "https://acme.example", external_id: "{{ body.id }}" } }
    const open = httpProvider({
      name: "open",
      ...plain,
      poll: { url: "https://acme.example/{{ external_id }}", status: "{{ body.s }}", done: ["d"] },
    })
    await start(at(hidden), open)
  })
})
