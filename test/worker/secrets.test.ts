import fc from "fast-check"
import { describe, expect, it } from "vitest"
import type { LateTemplate } from "../../src/broker/port.ts"
import type { Json } from "../../src/core/json.ts"
import { fail } from "../../src/worker/fail.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { Redactor } from "../../src/worker/redact.ts"
import { secretsFromEnvironment } from "../../src/worker/secrets.ts"
import { waitForSignal, waitUntil } from "../../src/worker/waiting.ts"
import { faultIn, outputIn, task, worker } from "./support.ts"

const value = 'p@ss "word"/ü+42'
const secrets = secretsFromEnvironment({
  KEY: value,
  OTHER: "other-secret",
  SHORT: "abc",
  EMPTY: "",
  UMBRA_TOKEN: "umbra-token",
})

const late = (path: (string | number)[], source: string, names = {}, nodes = {}): LateTemplate => ({
  path,
  source,
  names,
  nodes,
})

const encodings: readonly (readonly [string, (text: string) => string])[] = [
  ["as it is", text => text],
  ["in JSON", text => JSON.stringify({ key: text })],
  ["in JSON within JSON", text => JSON.stringify(JSON.stringify({ key: text }))],
  ["in a URL", text => `https://x.test/?k=${encodeURIComponent(text)}&l=1`],
  ["in a form", text => new URLSearchParams({ k: text }).toString()],
  ["in base64", text => Buffer.from(text).toString("base64")],
  ["in base64url", text => Buffer.from(text).toString("base64url")],
  ["in Basic authentication", text => Buffer.from(`user:${text}`).toString("base64")],
]

describe("secrets", () => {
  it("are filled in where the handler runs, beside other values, at any depth", async () => {
    const seen: Json[] = []
    const peek = defineHandler({ name: "peek", run: config => void seen.push(config) })
    const { run } = worker([peek], { secrets })
    await run(
      task("peek", {
        config: { headers: [{ value: null }], url: null, plain: 1 },
        late: [
          late(["headers", 0, "value"], "Bearer {{ secrets.OTHER }}"),
          late(
            ["url"],
            "{{ input.base }}/{{ fetch.id }}?k={{ secrets.OTHER }}",
            { input: { base: "http://x" } },
            { fetch: { id: 7 } },
          ),
        ],
      }),
    )
    expect(seen).toEqual([
      { headers: [{ value: "Bearer other-secret" }], url: "http://x/7?k=other-secret", plain: 1 },
    ])
  })

  it.each([
    ["NONE", "The secret NONE is not set"],
    ["EMPTY", "The secret EMPTY is not set"],
    ["SHORT", "The secret SHORT is shorter than 4 characters"],
    ["UMBRA_TOKEN", "UMBRA_TOKEN belongs to Umbra itself"],
    ["DATABASE_URL", "DATABASE_URL belongs to Umbra itself"],
    ["constructor", "The secret constructor is not set"],
  ])("%s is a final fault with its name and no value", async (name, message) => {
    const never = defineHandler({
      name: "never",
      run: () => {
        throw new Error("it ran")
      },
    })
    const outcome = await worker([never], { secrets }).run(
      task("never", { late: [late([], `{{ secrets.${name} }}`)] }),
    )
    expect(faultIn(outcome)).toMatchObject({ code: "E407", retryable: false })
    expect(faultIn(outcome).message).toContain(message)
    expect(JSON.stringify(outcome)).not.toMatch(/abc|umbra-token/)
  })

  it.each(encodings)("never come out of a worker when a handler echoes them %s", async (_, encode) => {
    const text = encode(value)
    const echo = defineHandler({
      name: "echo",
      run(config, ctx) {
        const how = (config as { how: string }).how
        ctx.progress(1, `using ${text}`)
        ctx.preview({ [text]: [text] })
        ctx.usage({ [text]: 1 })
        ctx.log.info({ text, error: new Error(text), [text]: 1 }, `log ${text}`)
        if (how === "throw")
          throw Object.assign(new Error(`service said ${text}`), {
            details: { text },
            cause: new Error(text),
          })
        if (how === "string") throw text
        if (how === "code") throw Object.assign(new Error("refused"), { code: text })
        if (how === "timer") return waitUntil(5, { text })
        if (how === "signal") return waitForSignal(`for ${text}`)
        if (how === "fail") fail(text, { details: { nested: [text] } })
        return { text, [text]: { text } }
      },
    })
    const { run, reports } = worker([echo], { secrets })
    for (const how of ["return", "throw", "string", "fail", "code", "timer", "signal"]) {
      await run(task("echo", { config: { how, key: null }, late: [late(["key"], "{{ secrets.KEY }}")] }))
    }
    const told = JSON.stringify(reports.map(({ type, data }) => ({ type, data })))
    expect(reports.filter(({ type }) => type === "finished")).toHaveLength(7)
    expect(told).toContain("[secret KEY]")
    for (const [, form] of encodings) {
      const written = form(value)
      expect(told).not.toContain(written)
      expect(told).not.toContain(JSON.stringify(written).slice(1, -1))
    }
    expect(told).not.toContain('ss \\"word')
  })

  it("stay hidden when a filter has changed them", async () => {
    const echo = defineHandler({ name: "echo", run: config => config })
    const { run } = worker([echo], { secrets })
    const outcome = await run(
      task("echo", { config: { key: null }, late: [late(["key"], "{{ secrets.OTHER | upper }}")] }),
    )
    expect(outputIn(outcome)).toEqual({ key: "[secret OTHER]" })
  })

  it("stay hidden in the fault of a template or a schema", async () => {
    const echo = defineHandler({ name: "echo", run: config => config })
    const { run } = worker([echo], { secrets })
    const outcome = await run(task("echo", { late: [late([], "{{ secrets.OTHER.x }}")] }))
    expect(faultIn(outcome).retryable).toBe(false)
    expect(JSON.stringify(outcome)).not.toContain("other-secret")
  })

  it("an output that holds none is left alone, digits included", () => {
    const redactor = new Redactor([{ name: "PIN", value: "123456" }])
    expect(redactor.value({ a: 12345, b: "text", c: [true, null] })).toEqual({
      a: 12345,
      b: "text",
      c: [true, null],
    })
    expect(redactor.value([91234567])).toEqual(["9[secret PIN]7"])
  })

  it("lines of a long secret are secrets too", () => {
    const redactor = new Redactor([{ name: "PEM", value: "-----BEGIN-----\nabcdefghijkl\n-----END-----\n" }])
    expect(redactor.clean("line: abcdefghijkl")).toBe("line: [secret PEM]")
  })

  it("any secret is found in any of its writings within any text", () => {
    const text = fc
      .string({ unit: "grapheme", minLength: 8, maxLength: 40 })
      .filter(text => text.trim().length >= 8)
    fc.assert(
      fc.property(text, fc.constantFrom(...encodings), (secret, [, encode]) => {
        const told = new Redactor([{ name: "S", value: secret }]).clean(`<${encode(secret)}>`)
        expect(told).toContain("[secret S]")
        expect(told).not.toContain(secret)
      }),
    )
  })
})
