/** `umbra replay JOB` and `umbra jobs graph JOB --at`: the life of a job, on a store and through a server. */
import { spawn } from "node:child_process"
import { join } from "node:path"
import { stripVTControlCharacters } from "node:util"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { Replay } from "../../src/cli/live/replay.ts"
import { paintFor, width } from "../../src/cli/output/terminal.ts"
import { compiledGraph } from "../../src/core/compiled-graph.ts"
import type { FactRecord } from "../../src/core/payloads.ts"
import { atOnce } from "../../src/turns.ts"
import { graphOf } from "../core/graphs.ts"
import { openStage, type Stage } from "../server/stage.ts"
import { umbra } from "./same-process.ts"
import { folderWith, root } from "./umbra.ts"

const plain = paintFor({}, { NO_COLOR: "1" })
const graph = atOnce(
  compiledGraph(
    graphOf([
      { id: "fetch-the-prices-of-every-supplier", dependencies: [] },
      { id: "sum", dependencies: ["fetch-the-prices-of-every-supplier"] },
    ]),
  ),
)
const fault = { code: "E401", message: "no answer", retryable: true }
const second = 1000
const hour = 3600 * second

function life(): FactRecord[] {
  const submitted = { owner: "a", workflow: "w", workflow_version: 1, input: null, priority: 0 }
  const facts: object[] = [
    { type: "job_submitted", at: 0, ...submitted, expires_at: null, ttl_seconds: null },
    { type: "node_started", at: 2 * second, node: 0, attempt: 1, worker: "w1" },
    { type: "node_failed", at: 3 * second, node: 0, attempt: 1, code: "E401", fault, retry_at: 2 * hour },
    { type: "node_completed", at: 2 * hour, node: 0, attempt: 2, ran_ms: 5, output: 1 },
    { type: "node_failed", at: 2 * hour + 10, node: 1, attempt: 1, code: "E401", fault },
  ]
  return facts.map((fact, i) => ({ index: i + 1, seq: 10 * (i + 1), ...fact })) as unknown as FactRecord[]
}

const played = () => new Replay({ jobId: "j", title: "w@1  j", graph, facts: life() })
const size = (columns: number) => ({ columns, rows: 24 })

describe("the life of a job", () => {
  it("is shown fact by fact, forwards and backwards, and never beyond its ends", () => {
    const replay = played()
    const shown = () => replay.lines(size(100), plain, "").join("\n")
    const pictures = [shown()]
    for (let fact = 2; fact <= 5; fact++) {
      replay.go(fact)
      pictures.push(shown())
    }
    expect(pictures[0]).toContain("○ fetch-the-prices")
    expect(pictures[0]).toContain("#1 of 5 · +0 ms · job_submitted")
    expect(pictures[2]).toContain("↻ fetch-the-prices")
    expect(pictures[2]).toContain("E401 no answer")
    expect(pictures[3]).toContain("✓ fetch-the-prices")
    expect(pictures[3]).toContain("after 1 h 59 min")
    expect(pictures[4]).toContain("✗ sum")
    expect(replay.isAtEnd).toBe(true)
    replay.go(9)
    expect(replay.position).toBe(5)
    for (let fact = 5; fact >= 1; fact--) {
      replay.go(fact)
      expect(shown()).toBe(pictures[fact - 1])
    }
    replay.go(0)
    expect(replay.position).toBe(1)
  })

  it("shows siblings that were cancelled, as text too", () => {
    const siblings = atOnce(
      compiledGraph(
        graphOf([
          { id: "bad", dependencies: [] },
          { id: "ran", dependencies: [] },
          { id: "ready", dependencies: [] },
          { id: "later", dependencies: ["ran"] },
        ]),
      ),
    )
    const running = [{ node: 1, ran_ms: 700, worker: "w1" }]
    const facts = [
      life()[0]!,
      { index: 2, seq: 20, type: "node_failed", at: 900, node: 0, attempt: 1, code: "E401", fault, running },
    ] as unknown as FactRecord[]
    const replay = new Replay({ jobId: "j", title: "w@1  j", graph: siblings, facts })
    replay.go(2)
    const text = replay.text(plain).join("\n")
    expect(text).toMatch(/✗ bad failed: E401 no answer\n/)
    expect(text).toMatch(/#2 \S+ ⊘ ran cancelled after 700 ms\n/)
    expect(text).toMatch(/#2 \S+ ⊘ ready cancelled\n/)
    expect(text).not.toContain("later")
    expect(text).toMatch(/job FAILED$/)
    expect(replay.lines(size(100), plain, "").join("\n")).toMatch(/⊘ ran/)
  })

  it("jumps to failures, and stays where none is left", () => {
    const replay = played()
    const positions = [1, 1, 1, -1, -1].map(direction => {
      replay.goToFailure(direction as 1 | -1)
      return replay.position
    })
    expect(positions).toEqual([3, 5, 5, 3, 3])
  })

  it("collapses idle time, at any speed", () => {
    const replay = played()
    expect(replay.delayMs(10)).toBe(200)
    expect(replay.delayMs(1)).toBe(500)
    expect(replay.delayMs(1e9)).toBe(40)
    replay.go(3)
    expect(replay.delayMs(10)).toBe(500)
    replay.go(5)
    expect(replay.delayMs(10)).toBe(0)
  })

  it.each([40, 100])("fits %i columns", columns => {
    const replay = played()
    for (let fact = 1; fact <= 5; fact++) {
      replay.go(fact)
      const lines = replay.lines(size(columns), plain, "←/→ fact  [/] failure  space play  q quit")
      expect(lines.filter(line => width(line) > columns)).toEqual([])
      expect(lines).toHaveLength(6)
    }
  })
})

const flow = {
  name: "flow",
  nodes: [
    { id: "ok", handler: "transform", config: { value: 1 } },
    { id: "bad", handler: "transform", config: { value: "{{ 1 / 0 }}" }, dependencies: ["ok"] },
  ],
}

describe("on a store and through a server", () => {
  const files = folderWith({ "flow.json": JSON.stringify(flow) })
  let stage: Stage
  const targets: { name: string; env: Record<string, string>; id: string }[] = []
  beforeAll(async () => {
    stage = await openStage()
    await stage.umbra.register(flow as never)
    const { id } = await stage.umbra.submit("flow")
    await stage.umbra.wait(id)
    targets.push({ name: "server", env: { UMBRA_SERVER: stage.server.url }, id })
    const ran = await umbra(["run", "flow.json", "--json"], { cwd: files.path })
    targets.push({ name: "store", env: {}, id: JSON.parse(ran.stdout).job_id })
  })
  afterAll(async () => {
    await stage?.close()
    files.remove()
  })

  it("without a terminal, replay prints the steps", async () => {
    for (const { name, env, id } of targets) {
      const { code, stdout } = await umbra(["replay", id], { env, cwd: files.path })
      expect([name, code]).toEqual([name, 0])
      expect(stdout).toMatch(/^#1 \S+ /)
      expect(stdout).toMatch(/#2 .*✓ ok completed/)
      expect(stdout).toMatch(/#\d .*✗ bad failed: E202/)
    }
  })

  it("graph --at shows a past moment by index, seq and time, and says what is none", async () => {
    for (const { name, env, id } of targets) {
      const at = async (moment: string, ...more: string[]) =>
        umbra(["jobs", "graph", id, "--at", moment, ...more], { env, cwd: files.path })
      const first = await at("#1")
      expect([name, first.code]).toEqual([name, 0])
      expect(first.stdout).toMatch(/^PROCESSING {2}READY_TO_RESUME {2}0 % {2}at \S+, fact #1\n/)
      expect(first.stdout).toMatch(/bad +PENDING/)
      const { moment, nodes, live } = JSON.parse((await at("#2", "--json")).stdout)
      expect([moment.index, nodes[0].status, live]).toEqual([2, "COMPLETED", undefined])
      const bySeq = JSON.parse((await at(String(moment.seq), "--json")).stdout)
      expect(bySeq.moment).toEqual(moment)
      const byTime = JSON.parse((await at("2999-01-01T00:00:00Z", "--json")).stdout)
      expect(byTime.status).toBe("FAILED")
      expect((await at("#2", "--format", "mermaid")).stdout).toContain("COMPLETED")
      expect((await at("yesterday")).code).toBe(2)
      expect((await at("#99")).stderr).toContain("E313")
    }
  })

  it("on a terminal, keys move it, and it leaves the terminal as it was", async () => {
    const { env, id } = targets[0]!
    const main = join(root, "dist/cli/main.js")
    const command = `stty cols 40 rows 20; ${process.execPath} ${main} replay ${id} --step`
    const child = spawn("script", ["--quiet", "--return", "--command", command, "/dev/null"], {
      env: { ...process.env, TERM: "xterm-256color", NO_COLOR: "1", ...env },
      stdio: ["pipe", "pipe", "pipe"],
    })
    onTestFinished(() => void child.kill())
    let output = ""
    const keys = [
      { when: /#1 of \d/, press: "\x1b[C" },
      { when: /#2 of \d/, press: "\x1b[D" },
      { when: /#2 of[\s\S]*#1 of/, press: "]" },
      { when: /node_failed bad/, press: "[" },
      { when: /node_failed bad/, press: "q" },
    ]
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      output += text
      while (keys.length > 0 && keys[0]!.when.test(stripVTControlCharacters(output)))
        child.stdin.write(keys.shift()!.press)
    })
    const code = await new Promise<number | null>(done => child.on("close", done))
    expect(code).toBe(0)
    expect(keys).toEqual([])
    expect(output.lastIndexOf("\x1b[?25l")).toBeLessThan(output.lastIndexOf("\x1b[?25h"))
    const lines = stripVTControlCharacters(output).split(/[\r\n]+/)
    expect(lines.filter(line => width(line) > 40)).toEqual([])
  })
})
