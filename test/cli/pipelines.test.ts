import { afterAll, describe, expect, it } from "vitest"
import { umbra } from "./same-process.ts"
import { folderWith } from "./umbra.ts"

const crawl = `name: crawl
max_hops: 3
routes:
  - name: fetch
    inbound: pages
    adapters: [{ type: transform, config: { value: "{{ message }}" } }, { type: mine }]
    outbound: { default: chunks, link: pages }
  - { name: store, inbound: chunks, adapters: [{ type: log }] }
`
const mine = `export const mine = { type: "mine", process: message => message.body }\n`

const folder = folderWith({ "crawl.yaml": crawl, "mine.mjs": mine, "nothing.mjs": "export const a = 1\n" })
afterAll(folder.remove)
const run = (...parameters: string[]) => umbra(parameters, { cwd: folder.path })

describe("P1 pipelines on the command line", () => {
  it("umbra validate says what is unknown, and where it can come from", async () => {
    const { stdout, code } = await run("validate", "crawl.yaml")
    expect(code).toBe(2)
    expect(stdout).toContain('There is no adapter of type "mine".')
    expect(stdout).toContain("--adapters MODULE")
  })

  it("umbra validate counts routes and adapters, those of a module included", async () => {
    const { stdout, code } = await run("validate", "crawl.yaml", "--adapters", "mine.mjs")
    expect({ stdout, code }).toEqual({
      stdout: "✓ crawl.yaml is valid (crawl, 2 routes, 3 adapters)\n",
      code: 0,
    })
    const json = await run("validate", "crawl.yaml", "--adapters", "mine.mjs", "--json")
    expect(JSON.parse(json.stdout)).toEqual({ valid: true, errors: [] })
  })

  it("a module without adapters is refused", async () => {
    const { stderr, code } = await run("validate", "crawl.yaml", "--adapters", "nothing.mjs")
    expect(code).toBe(2)
    expect(stderr).toContain("E720")
    expect(stderr).toContain("exports no adapter")
  })

  it("umbra graph --format tree draws each queue once, with the route that reads it, and every way back to it", async () => {
    const { stdout, code } = await run("graph", "crawl.yaml", "--adapters", "mine.mjs", "--format", "tree")
    expect(code).toBe(0)
    expect(stdout).toBe(`crawl  2 routes
queue            route  adapters
pages            fetch  transform → mine
├ chunks         store  log
└ link: pages ↑
`)
  })

  it("umbra graph --format tree keeps branches apart, and marks a queue that two routes write to", async () => {
    const route = (name: string, inbound: string, outbound?: unknown, more = {}) => ({
      name,
      inbound,
      adapters: [{ type: "log" }],
      ...(outbound === undefined ? {} : { outbound }),
      ...more,
    })
    const document = {
      name: "fork",
      init: [
        { queue: "in", body: 1 },
        { queue: "late", body: 1 },
      ],
      routes: [
        route("split", "in", { even: "left", odd: "right" }),
        route("l", "left", "joined"),
        route("r", "right", "joined"),
        route("write", "joined", undefined, { run_on: "workers" }),
        route("more", "late", "right"),
      ],
    }
    const { stdout, stderr } = await umbra(["graph", "-", "--format", "tree"], {
      stdin: JSON.stringify(document),
    })
    expect({ stdout, stderr }).toEqual({
      stderr: "",
      stdout: `fork  5 routes
queue           route  adapters
├ in            split  log
│ ├ even: left  l      log
│ │ joined      write  log  (on workers)
│ └ odd: right  r      log
│   joined ↑
└ late          more   log
  right ↑
`,
    })
  })

  it("umbra graph draws queues and routes", async () => {
    const { stdout } = await run("graph", "crawl.yaml", "--adapters", "mine.mjs")
    expect(stdout).toBe(`---
title: "crawl"
---
flowchart LR
  begin((init))
  q0[("pages")]
  r0["fetch<br/><small>transform → mine</small>"]
  q0 --> r0
  q1[("chunks")]
  r1["store<br/><small>log</small>"]
  q1 --> r1
  begin --> q0
  r0 --> q1
  r0 -->|link| q0
`)
    const dot = await run("graph", "crawl.yaml", "--adapters", "mine.mjs", "--format", "dot")
    expect(dot.stdout).toContain('  q0 [label="pages", shape=cylinder, style=""]\n')
    expect(dot.stdout).toContain('  r0 -> q0 [label="link"]\n')
    const json = await run("graph", "crawl.yaml", "--adapters", "mine.mjs", "--format", "json")
    expect(JSON.parse(json.stdout)).toEqual({
      name: "crawl",
      max_hops: 3,
      init: ["pages"],
      routes: [
        {
          name: "fetch",
          inbound: "pages",
          adapters: ["transform", "mine"],
          run_on: "engine",
          outbound: { default: "chunks", link: "pages" },
        },
        { name: "store", inbound: "chunks", adapters: ["log"], run_on: "engine", outbound: {} },
      ],
    })
  })

  it("umbra push stores one, and umbra workflows show counts its routes", async () => {
    const pushed = await run("push", "crawl.yaml", "--adapters", "mine.mjs", "--data-dir", "data")
    expect(pushed.code).toBe(0)
    expect(pushed.stdout).toContain("crawl@1 is stored")
    const shown = await run("workflows", "show", "crawl", "--data-dir", "data")
    expect(shown.stdout).toMatch(/^routes +2$/m)
  })
})
