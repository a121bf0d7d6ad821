import { describe, expect, it } from "vitest"
import type { LateTemplate } from "../../src/broker/port.ts"
import type { Json } from "../../src/core/json.ts"
import {
  providerSecretsFromEnvironment,
  secretsFromEnvironment,
} from "../../src/worker/environment-secrets.ts"
import { fail } from "../../src/worker/fail.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { Redactor } from "../../src/worker/redact.ts"
import { waitForSignal, waitUntil } from "../../src/worker/waiting.ts"
import fc from "../support/property.ts"
import { faultIn, gate, outputIn, settled, task, worker } from "./support.ts"

const value = 'p@ss "word"/ü+42'
const environment = {
  UMBRA_SECRET_KEY: value,
  UMBRA_SECRET_OTHER: "other-secret",
  UMBRA_SECRET_SHORT: "abc",
  UMBRA_SECRET_EMPTY: "",
  UMBRA_SECRET_ALICE_KEY: "key-of-alice",
  UMBRA_PROVIDER_SECRET_ACME: "key-of-the-operator",
  UMBRA_TOKEN: "umbra-token",
  DATABASE_URL: "postgres://operator",
  BARE: "bare-value",
}
const everybody = JSON.stringify({ "*": { shared: true } })
const secrets = secretsFromEnvironment({ ...environment, UMBRA_SECRETS: everybody })

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
  ["in hexadecimal", text => Buffer.from(text).toString("hex")],
  ["in upper-case hexadecimal", text => Buffer.from(text).toString("hex").toUpperCase()],
  [
    "in mixed-case hexadecimal",
    text =>
      Buffer.from(text)
        .toString("hex")
        .replace(/[a-f]/, d => d.toUpperCase()),
  ],
  ["in Basic authentication", text => Buffer.from(`user:${text}`).toString("base64")],
]

const never = defineHandler({
  name: "never",
  run: () => {
    throw new Error("it ran")
  },
})

const read = (name: string, owner: string, rules?: object) => () =>
  secretsFromEnvironment(
    rules === undefined ? environment : { ...environment, UMBRA_SECRETS: JSON.stringify(rules) },
  )(name, { owner })

it("errors do not name the host of a secret that is a URL; outputs that name it are not changed", () => {
  const redactor = new Redactor([{ name: "BASE", value: "http://hidden-host.invalid:1799/path" }])
  const error = "http://hidden-host.invalid:1799 cannot be reached: getaddrinfo ENOTFOUND hidden-host.invalid"
  expect(redactor.cleanError(error)).toBe(
    "[secret BASE] cannot be reached: getaddrinfo ENOTFOUND [secret BASE]",
  )
  expect(redactor.clean("from hidden-host.invalid")).toBe("from hidden-host.invalid")
})

describe("who may read a secret", () => {
  it("without a rule it is the local owner's alone", () => {
    expect(read("OTHER", "local")()).toBe("other-secret")
    expect(read("OTHER", "bob")).toThrow(/not given to owner "bob".*secrets: {"OTHER":{"owners":\["bob"\]}}/)
  })

  it("without a rule it belongs to no owner where the rules name several, and the error has the remedy", () => {
    const rules = { KEY: { owners: ["alice"] } }
    const cure = /secrets: \{"OTHER":\{"owners":\["local"\]\}\}.*secrets: \{"OTHER":\{"shared":true\}\}/
    expect(read("OTHER", "local", rules)).toThrow(cure)
    expect(read("OTHER", "alice", rules)).toThrow(/not given to owner "alice"/)
    // Whether it is set or not, the answer is the same.
    expect(read("NOTHING", "local", rules)).toThrow(/has no rule/)
    for (const rule of [{ owners: ["local"] }, { shared: true }])
      expect(read("OTHER", "local", { ...rules, OTHER: rule })()).toBe("other-secret")
    // One owner: nothing has to be said.
    for (const alone of [{ KEY: { owners: ["local"] } }, { KEY: { shared: true } }])
      expect(read("OTHER", "local", alone)()).toBe("other-secret")
  })

  it("with a list it is theirs alone, the local owner included only where it is named", () => {
    const rules = { OTHER: { owners: ["alice"] } }
    expect(read("OTHER", "alice", rules)()).toBe("other-secret")
    expect(read("OTHER", "bob", rules)).toThrow(/not given to owner "bob"/)
    expect(read("OTHER", "local", rules)).toThrow(/not given to owner "local"/)
  })

  it("shared: true gives it to every owner, and * is the rule of names without one", () => {
    const rules = { OTHER: { shared: true }, "*": { owners: ["alice"] } }
    for (const owner of ["alice", "bob", "local"]) expect(read("OTHER", owner, rules)()).toBe("other-secret")
    expect(read("KEY", "alice", rules)()).toBe(value)
    expect(read("KEY", "bob", rules)).toThrow(/not given/)
  })

  it("a list of rules gives owners values of their own under one name", () => {
    const mine = { owners: ["alice"], variable: "UMBRA_SECRET_ALICE_KEY" }
    const rules = { OTHER: [mine, { owners: ["bob"] }] }
    expect(read("OTHER", "alice", rules)()).toBe("key-of-alice")
    expect(read("OTHER", "bob", rules)()).toBe("other-secret")
    expect(read("OTHER", "carol", rules)).toThrow(/not given/)
  })

  it("a variable that a rule names is no secret under its own name, unless that name has a rule too", () => {
    const mine = { owners: ["alice"], variable: "UMBRA_SECRET_ALICE_KEY" }
    for (const others of [{}, { "*": { owners: ["bob"] } }, { "*": { shared: true } }])
      for (const owner of ["alice", "bob", "local"])
        expect(read("ALICE_KEY", owner, { OTHER: mine, ...others })).toThrow(`not given to owner "${owner}"`)
    const forAll = { OTHER: { shared: true, variable: "UMBRA_SECRET_ALICE_KEY" } }
    expect(read("ALICE_KEY", "local", forAll)).toThrow(/not given/)
    expect(read("ALICE_KEY", "bob", { OTHER: mine, ALICE_KEY: { owners: ["bob"] } })()).toBe("key-of-alice")
    expect(read("ALICE_KEY", "alice", { ALICE_KEY: mine })()).toBe("key-of-alice")
  })

  it("an owner without it cannot learn whether the variable is set", () => {
    const message = (name: string): string => {
      try {
        return String(read(name, "bob")())
      } catch (error) {
        return (error as Error).message.replaceAll(name, "NAME")
      }
    }
    expect(message("OTHER")).toMatch(/not given/)
    expect(message("NONE")).toBe(message("OTHER"))
    expect(message("BARE")).toBe(message("OTHER"))
  })

  it("an owner that has every name by * cannot learn which other variables are set", () => {
    const rules = { "*": { owners: ["alice", "local"] }, BARE: { owners: ["bob"] } }
    for (const name of ["UMBRA_PROVIDER_SECRET_ACME", "DATABASE_URL", "UMBRA_TOKEN"]) {
      expect(read(name, "alice", rules)).toThrow(
        `is not set. Where the worker runs: export UMBRA_SECRET_${name}="…"`,
      )
      expect(read(name, "local", rules)).toThrow(`the variable ${name} is set, but only`)
    }
    expect(read("BARE", "bob", rules)).toThrow('export UMBRA_SECRET_BARE="$BARE"')
  })

  it.each([
    "no JSON",
    '["OTHER"]',
    '{"OTHER": true}',
    '{"OTHER": {}}',
    '{"OTHER": {"owners": "alice"}}',
    '{"OTHER": {"shared": true, "owners": ["alice"]}}',
    '{"OTHER": {"shared": false}}',
    '{"OTHER": {"shared": true, "variable": "DATABASE_URL"}}',
    '{"*": {"shared": true, "variable": "UMBRA_SECRET_X"}}',
    '{"OTHER": {"shared": true, "owner": "alice"}}',
  ])("rules that say something else are refused: %s", rules => {
    expect(() => secretsFromEnvironment({ UMBRA_SECRETS: rules })).toThrow(/UMBRA_SECRETS/)
  })

  it("providers read theirs from a name space of their own", () => {
    const source = providerSecretsFromEnvironment(environment)
    expect(source("ACME")).toBe("key-of-the-operator")
    expect(() => source("OTHER")).toThrow('export UMBRA_PROVIDER_SECRET_OTHER="…"')
    expect(() => source("BARE")).toThrow('export UMBRA_PROVIDER_SECRET_BARE="$BARE"')
  })
})

describe("a source that is a function", () => {
  const seen: Json[] = []
  const peek = defineHandler({ name: "peek", run: config => void seen.push(config) })
  const asking = (how: (name: string, of: { owner: string }) => Promise<string | undefined>) =>
    worker([peek], { secrets: how, settings: { graceSeconds: 0.01 } })
  const reading = { config: { key: null }, late: [late(["key"], "{{ secrets.KEY }}")], owner: "alice" }

  it("is called with the job's owner, and its results are filled in and masked", async () => {
    const { run } = worker([defineHandler({ name: "peek", run: config => config })], {
      secrets: async (name, { owner }) => `${name} of ${owner}`,
    })
    expect(outputIn(await run(task("peek", reading)))).toEqual({ key: "[secret KEY]" })
  })

  it("what it lacks, or throws, is the attempt's fault", async () => {
    const none = asking(async () => undefined)
    expect(faultIn(await none.run(task("peek", reading)))).toMatchObject({ code: "E407", retryable: false })
    const away = asking(async () => {
      throw Object.assign(new Error("vault away"), { code: "ECONNREFUSED" })
    })
    expect(faultIn(await away.run(task("peek", reading)))).toMatchObject({ retryable: true })
  })

  it("an attempt that was aborted during the call never begins", async () => {
    const { promise, open } = gate<string>()
    const { broker, run, of } = asking(() => promise)
    const one = task("peek", reading)
    void run(one)
    broker.cancel(one)
    open("late-secret")
    await settled()
    expect(seen).toEqual([])
    expect(of("finished")).toEqual([])
  })
})

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
    ["NONE", 'The secret NONE is not set. Where the worker runs: export UMBRA_SECRET_NONE="…"'],
    ["EMPTY", "The secret EMPTY is not set"],
    ["SHORT", "The secret SHORT is shorter than 4 characters"],
    ["BARE", 'Where the worker runs: export UMBRA_SECRET_BARE="$BARE"'],
    ["ACME", "The secret ACME is not set"],
    ["UMBRA_TOKEN", "The secret UMBRA_TOKEN is not set"],
    ["UMBRA_PROVIDER_SECRET_ACME", "The secret UMBRA_PROVIDER_SECRET_ACME is not set"],
    ["DATABASE_URL", "The secret DATABASE_URL is not set"],
    ["constructor", "The secret constructor is not set"],
  ])("%s is a final fault with its name and no value", async (name, message) => {
    const outcome = await worker([never], { secrets }).run(
      task("never", { owner: "local", late: [late([], `{{ secrets.${name} }}`)] }),
    )
    expect(faultIn(outcome)).toMatchObject({ code: "E407", retryable: false })
    expect(faultIn(outcome).message).toContain(message)
    expect(JSON.stringify(outcome)).not.toMatch(/abc|umbra-token|bare-value|of-the-operator|postgres:/)
  })

  it("a name that is no name of a variable is refused, so that no advice to the operator can hold a command", async () => {
    const outcome = await worker([never], { secrets }).run(
      task("never", { late: [late([], "{{ secrets['X=1; rm -rf ~ #'] }}")] }),
    )
    expect(faultIn(outcome)).toMatchObject({ code: "E407" })
    expect(faultIn(outcome).message).not.toContain("export")
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
        if (how === "signal") return waitForSignal(`for ${text}`, { schema: { title: text } })
        if (how === "fail") fail(text, { details: { nested: [text] } })
        return { text, [text]: { text } }
      },
    })
    const { run, reports } = worker([echo], { secrets })
    for (const how of ["return", "throw", "string", "fail", "code", "timer", "signal"]) {
      await run(task("echo", { config: { how, key: null }, late: [late(["key"], "{{ secrets.KEY }}")] }))
    }
    const redacted = JSON.stringify(reports.map(({ type, data }) => ({ type, data })))
    expect(reports.filter(({ type }) => type === "finished")).toHaveLength(7)
    expect(redacted).toContain("[secret KEY]")
    for (const [, form] of encodings) {
      const written = form(value)
      expect(redacted).not.toContain(written)
      expect(redacted).not.toContain(JSON.stringify(written).slice(1, -1))
    }
    expect(redacted).not.toContain('ss \\"word')
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
        const redacted = new Redactor([{ name: "S", value: secret }]).clean(`<${encode(secret)}>`)
        expect(redacted).toContain("[secret S]")
        expect(redacted).not.toContain(secret)
      }),
    )
  })
})
