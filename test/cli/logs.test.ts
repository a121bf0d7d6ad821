/** What `umbra logs` prints, and that it prints what was stored. */
import { join } from "node:path"
import pc from "picocolors"
import { expect, it, onTestFinished } from "vitest"
import { logLines } from "../../src/cli/jobs/logs.ts"
import { guardStream } from "../../src/cli/output/terminal.ts"
import type { LogLine } from "../../src/client/index.ts"
import { errorTable } from "../../src/errors.ts"
import { openUmbra } from "../../src/umbra.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { umbra } from "./same-process.ts"
import { folderWith } from "./umbra.ts"

const paint = pc.createColors(false)
const at = "2026-11-18T04:41:15.750Z"

it("keeps messages of several lines whole, and makes control characters harmless", () => {
  const line: LogLine = {
    ...{
      id: "1.0.1.1",
      at,
      level: "warn",
      source: "handler",
      node: "a",
      item: 2,
      attempt: 1,
      line: 4,
      lost: 3,
    },
    message: "first\u001b[31m\nsecond\u0007",
    fields: { sku: "tea\u001b]0;", stack: "Error\n  at x" },
  }
  expect(logLines(line, paint)).toEqual([
    "… 3 lines of a[2] #1 were lost",
    `${at} WARN    a[2] #1  first\ufffd[31m sku=tea\ufffd]0;`,
    "    second\ufffd",
    "    stack=Error",
    "      at x",
  ])
})

it("marks lines of the engine where a handler cannot write, with and without colours", () => {
  const engine: LogLine = {
    ...{ id: "1.0.1.1", at, level: "error", source: "engine", node: "a", attempt: 1 },
    message: "failed after 3 ms: BAD first\nsecond\nthird",
  }
  const handler: LogLine = { ...engine, source: "handler", line: 1 }
  expect(logLines(engine, paint)[0]).toBe(`${at} ERROR * a #1  failed after 3 ms: BAD first`)
  expect(logLines(handler, paint)[0]).toBe(`${at} ERROR   a #1  failed after 3 ms: BAD first`)
  // Neither its message, nor its fields, nor a node with a strange name begin earlier.
  const node = "* a #1  completed"
  for (const text of logLines(
    { ...handler, node, message: `x\n${at} ERROR * a`, fields: { s: "y\n*" } },
    paint,
  ))
    expect(text.slice(0, 33)).toMatch(/^(\S+ ERROR {3}$| {4})/)
  const colours = pc.createColors(true)
  const [, ...rest] = logLines(engine, colours)
  expect(rest).toEqual(["second", "third"].map(text => `    ${colours.dim(text)}`))
})

it("shows format characters, which are invisible otherwise", () => {
  const hidden = "\ufeff\u200b\u200d\u00ad\u2060\u{e0041}\u{e007f}\u202e"
  const line: LogLine = {
    ...{ id: "1.0.1.1", at, level: "info", source: "handler", node: "a", attempt: 1, line: 1 },
    message: `a${hidden}b`,
    fields: { [`k${hidden}`]: hidden },
  }
  expect(logLines(line, paint).join("\n")).toBe(
    `${at} INFO    a #1  a${"\ufffd".repeat(8)}b k${"\ufffd".repeat(8)}=${"\ufffd".repeat(8)}`,
  )
  const written: string[] = []
  const stream = { write: (text: string) => written.push(text) > 0 } as unknown as NodeJS.WriteStream
  guardStream(stream)
  stream.write(JSON.stringify({ message: hidden }))
  expect(written[0]).toMatch(/^[\x20-\x7e]+$/)
  expect(JSON.parse(written[0]!)).toEqual({ message: hidden })
})

it("prints the log of a job in a folder, of one node, from a level on, and follows it to its end", async () => {
  const folder = folderWith({})
  onTestFinished(() => folder.remove())
  const data = join(folder.path, "data")
  const talk = defineHandler({
    name: "talk",
    run: (_, ctx) => {
      ctx.log.info({ n: 1 }, "one")
      ctx.log.warn({}, "two")
      return null
    },
  })
  const engine = await openUmbra(data, { handlers: [talk] })
  const nodes = ["a", "b"].map(id => ({ id, handler: "talk" }))
  const { id } = await engine.submit({ name: "talks", nodes } as never, {})
  await engine.wait(id)
  await engine.close()
  const run = async (...more: string[]) => (await umbra(["logs", id, ...more, "--data-dir", data])).stdout
  expect(await run()).toMatch(
    /INFO {2}\* a #1 {2}dispatched\n[\s\S]*INFO {4}b #1 {2}one n=1\n[\s\S]*completed after/,
  )
  expect(await run("b", "--level", "warn")).toMatch(/^\S+ WARN {4}b #1 {2}two\n$/)
  expect(await run("--tail", "3")).toMatch(
    /^\S+ WARN {4}a #1 {2}two\n\S+ INFO {4}b #1 {2}one n=1\n\S+ WARN {4}b #1 {2}two\n$/,
  )
  expect(await run("a", "--source", "engine")).not.toMatch(/one|two/)
  expect(await run("--until", "2020-01-01T00:00:00Z")).toBe("")
  const typo = await umbra(["logs", id, "typo", "--data-dir", data])
  expect([typo.code, typo.stdout]).toEqual([errorTable.E310.exitCode, ""])
  expect(typo.stderr).toContain(`has no node "typo"`)
  const tail = (await run("a", "--tail", "1", "--follow", "--json")).trim().split("\n")
  expect(tail.map(text => JSON.parse(text).message)).toEqual(["two"])
  const followed = (await run("a", "--level", "warn", "--follow", "--json")).trim().split("\n")
  expect(followed.map(text => JSON.parse(text).message)).toEqual(["two"])
})
