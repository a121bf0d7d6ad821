import { spawn } from "node:child_process"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { stripVTControlCharacters } from "node:util"
import { afterAll, describe, expect, it, onTestFinished } from "vitest"
import { Board } from "../../src/cli/live/board.ts"
import { frame } from "../../src/cli/live/frame.ts"
import { formatEvent } from "../../src/cli/live/lines.ts"
import { buildTree } from "../../src/cli/live/tree.ts"
import { Screen } from "../../src/cli/live/view.ts"
import { duration, paintFor, shorten, width } from "../../src/cli/output/terminal.ts"
import type { JobEvent } from "../../src/core/view/events.ts"
import { compileWorkflow } from "../../src/definition/index.ts"
import { isoEvent } from "../../src/jobs/iso-times.ts"
import { freshDatabase } from "../support/services.ts"
import { folderWith, root, umbra } from "./umbra.ts"

const anyHandler = { get: (name: string) => ({ name }), names: () => [] }

/** `{ d: ["b", "c"] }`: d depends on b and c. */
function planOf(dependencies: Readonly<Record<string, readonly string[]>>) {
  const nodes = Object.entries(dependencies).map(([id, on]) => ({ id, handler: "h", dependencies: [...on] }))
  const { plan } = compileWorkflow({ name: "test", nodes }, { handlers: anyHandler })
  return plan!
}

function drawn(dependencies: Readonly<Record<string, readonly string[]>>): string[] {
  const plan = planOf(dependencies)
  return buildTree(plan).map(({ node, branch }) => branch + plan.nodes[node]!.id)
}

describe("the tree", () => {
  it("does not indent a chain", () => {
    expect(drawn({ a: [], b: ["a"], c: ["b"] })).toEqual(["a", "b", "c"])
  })

  it("indents the branches of a fork, and puts the join behind them", () => {
    const graph = { a: [], b: ["a"], b2: ["b"], c: ["a"], d: ["b2", "c"], e: ["d"] }
    expect(drawn(graph)).toEqual(["a", "├ b", "│ b2", "├ c", "└ d", "  e"])
  })

  it("starts several branches when there are several entries", () => {
    expect(drawn({ a: [], b: [], c: ["a", "b"] })).toEqual(["├ a", "├ b", "└ c"])
  })

  it("shows every node once, whatever the graph", () => {
    const ids = Array.from({ length: 60 }, (_, i) => `n${i}`)
    const graph = Object.fromEntries(
      ids.map((id, i) => [id, ids.filter((_, j) => j < i && (i * 7 + j * 3) % 5 === 0)]),
    )
    expect(
      buildTree(planOf(graph))
        .map(({ node }) => node)
        .sort((a, b) => a - b),
    ).toEqual(ids.map((_, i) => i))
  })
})

const plain = paintFor({}, { NO_COLOR: "1" })
const event = (type: string, more: Partial<JobEvent> = {}) =>
  isoEvent({ type, at: 1000, payload: {}, to: type.split(".")[1]!.toUpperCase(), ...more } as JobEvent)

function picture(
  board: Board,
  graph: ReturnType<typeof planOf>,
  size: { columns?: number; rows?: number } = {},
) {
  const { columns = 80, rows = 24 } = size
  return frame({
    title: "test",
    board,
    tree: buildTree(graph),
    columns,
    rows,
    now: 3000,
    tick: 0,
    paint: plain,
  })
}

describe("a picture of the job", () => {
  const graph = planOf({ a: [], b: ["a"], c: ["a"], d: ["b", "c"] })

  it("shows states, durations, attempts, progress and errors", () => {
    const board = new Board(graph)
    board.apply(event("job.pending", { at: 500 }))
    board.apply(event("node.queued", { node: "a" }))
    board.apply(event("node.running", { node: "a", at: 1000, payload: { worker: "w" } }))
    board.apply(event("node.completed", { node: "a", at: 1250, attempt: 1 }))
    const fault = { code: "E408", message: "no answer" }
    board.apply(
      event("node.queued", { node: "b", attempt: 2, payload: { reason: "retry", fault, retry_at: 5000 } }),
    )
    board.apply(event("node.queued", { node: "c", attempt: 1 }))
    board.observe(
      { isHere: true, unserved: [], running: [{ node: "c", progress: { percent: 40, message: "half" } }] },
      1000,
    )
    expect(picture(board, graph)).toEqual([
      "test",
      "✓ a      250 ms",
      "├ ↻ b            attempt 2  in 2.0 s  E408 no answer",
      "├ ⠋ c     2.0 s  40 % half",
      "└ · d",
      "1 of 4 done · 1 running · 1 to be retried · 2.5 s",
    ])
  })

  it("shows the time of a node that waited from its start to its end, not that of its handler", () => {
    const board = new Board(graph)
    board.apply(event("node.queued", { node: "a" }))
    board.apply(event("node.running", { node: "a", at: 1000, payload: { worker: "w" } }))
    board.apply(event("node.waiting", { node: "a", at: 1006, payload: { duration_ms: 6 } }))
    const ended = event("node.completed", { node: "a", at: 2000, attempt: 1, payload: { duration_ms: 6 } })
    board.apply(ended)
    expect(formatEvent(ended, board, plain)).toContain("✓ a completed in 1.0 s")
    expect(picture(board, graph)[1]).toBe("✓ a       1.0 s")
  })

  it("does not let a node go back from running while its event is under way", () => {
    const board = new Board(graph)
    board.apply(event("node.queued", { node: "a" }))
    board.observe({ isHere: true, unserved: [], running: [{ node: "a", progress: null }] }, 1000)
    board.observe({ isHere: true, unserved: [], running: [] }, 1000)
    expect(board.counts).toMatchObject({ RUNNING: 1, QUEUED: 0, PENDING: 3 })
  })

  it("fits the terminal: never wider, never higher, trouble and work first", () => {
    const wide = Array.from({ length: 10_000 }, (_, i) => `n${i}`)
    const big = planOf({ a: [], ...Object.fromEntries(wide.map(id => [id, ["a"]])) })
    const board = new Board(big)
    board.apply(event("node.queued", { node: "n7000" }))
    board.apply(
      event("node.failed", { node: "n9000", payload: { fault: { code: "E401", message: "x".repeat(500) } } }),
    )
    const lines = picture(board, big, { columns: 40, rows: 12 })
    expect(lines).toHaveLength(11)
    expect(lines.every(line => width(line) <= 40)).toBe(true)
    expect(lines.join("\n")).toMatch(/○ n7000[\s\S]*✗ n9000 +E401 x+…/)
    expect(lines.at(-2)).toBe("… 9,993 more nodes, counted below")
    expect(lines.at(-1)).toBe("0 of 10,001 done · 1 ready · 1 failed")
  })

  it("shortens names on a narrow terminal before it leaves out times, with colours too", () => {
    const long = planOf({ [`fetch_${"x".repeat(60)}`]: [] })
    const board = new Board(long)
    const node = long.nodes[0]!.id
    board.apply(event("node.queued", { node, at: 900 }))
    board.apply(event("node.running", { node, at: 1000, payload: { worker: "w" } }))
    board.apply(event("node.completed", { node, at: 3000, attempt: 1 }))
    const tree = buildTree(long)
    const paint = paintFor({ isTTY: true }, {})
    const lines = frame({ title: "test", board, tree, columns: 40, rows: 24, now: 3000, tick: 0, paint })
    const drawn = stripVTControlCharacters(lines[1]!)
    expect(drawn).toMatch(/^✓ fetch_x+… +2\.0 s$/)
    expect(width(drawn)).toBe(40)
  })

  it("lets no text of a job move the cursor", () => {
    const board = new Board(graph)
    board.apply(
      event("node.failed", { node: "a", payload: { fault: { code: "X", message: "\x1b[2J\r\nboo" } } }),
    )
    const shown = picture(board, graph).join("")
    expect(["\x1b", "\r", "\n"].filter(character => shown.includes(character))).toEqual([])
  })
})

describe("the screen", () => {
  it("draws over the last picture, keeps printed lines, and gives the cursor back", () => {
    const written: string[] = []
    const terminal = { columns: 10, rows: 5, write: (piece: string) => written.push(piece) }
    const screen = new Screen(terminal)
    screen.draw(["one", "two"])
    screen.draw(["three"])
    screen.print("note")
    terminal.columns = 2
    screen.draw(["four"])
    screen.close()
    screen.close()
    expect(written).toEqual([
      "\x1b[?25l",
      "\rone\x1b[K\ntwo\x1b[K\n\x1b[J",
      "\r\x1b[2Athree\x1b[K\n\x1b[J",
      "\r\x1b[1Anote\x1b[K\nthree\x1b[K\n\x1b[J",
      // "three" has become three lines on a terminal of two columns.
      "\r\x1b[3Afour\x1b[K\n\x1b[J",
      "\x1b[?25h",
    ])
  })
})

it.each([
  [0, "0 ms"],
  [999.4, "999 ms"],
  [999.6, "1.0 s"],
  [59_949, "59.9 s"],
  [59_960, "1 min 0 s"],
  [119_600, "2 min 0 s"],
  [3_725_000, "1 h 2 min"],
  [200_000_000, "2 d 7 h"],
])("%d ms is printed as %s", (ms, expected) => {
  expect(duration(ms)).toBe(expected)
})

it("shortens an output of megabytes without looking at all of it", () => {
  const begun = process.cpuUsage()
  expect(shorten("x".repeat(16 * 1024 * 1024), 2000)).toHaveLength(2000)
  expect(process.cpuUsage(begun).user / 1000).toBeLessThan(1000)
})

it("shortens by columns, not by characters", () => {
  expect(shorten("日本語テキスト", 7)).toBe("日本語…")
  expect(shorten("short", 5)).toBe("short")
  expect(shorten("short", 0)).toBe("")
  expect(shorten("日本語", 6)).toBe("日本語")
  expect(shorten("日本語", 5)).toBe("日本…")
})

describe("on a real terminal", () => {
  const folder = folderWith({})
  afterAll(() => folder.remove())

  /** util-linux's `script` gives the program a terminal of its own. `see`: whenever there is more to be seen. */
  async function onTerminal(
    command: string,
    env: Readonly<Record<string, string>>,
    see: (output: string) => void,
  ) {
    const child = spawn(
      "script",
      ["--quiet", "--return", "--command", `stty cols 60 rows 20; ${command}`, "/dev/null"],
      {
        env: { ...process.env, TERM: "xterm-256color", ...env },
        stdio: ["ignore", "pipe", "pipe"],
      },
    )
    let output = ""
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      output += text
      see(output)
    })
    const code = await new Promise<number | null>(done => child.on("close", done))
    return { output, code }
  }

  it("J3 draws a tree in place, within its width, and shows the cursor again", async () => {
    const file = join(folder.path, "flow.json")
    const nodes = [
      { id: "start", handler: "input" },
      { id: "nap", handler: "wait_for_signal", config: { signal: "wake" }, dependencies: ["start"] },
      { id: "end", handler: "transform", config: { value: "{{ nap }}" } },
    ]
    writeFileSync(file, JSON.stringify({ name: "flow", nodes }))
    const main = join(root, "dist/cli/main.js")
    const { url, drop } = await freshDatabase()
    onTestFinished(drop)
    const command = `${process.execPath} ${main} run ${file} --database-url ${url}`
    let woken: Promise<unknown> | null = null
    const { output, code } = await onTerminal(command, { NO_COLOR: "1" }, shown => {
      const jobId = / job ([0-9a-f-]{36})/.exec(shown)?.[1]
      // Drawn, and drawn over.
      if (shown.split("\x1b[5A").filter(picture => picture.includes("◔ nap")).length > 1)
        woken ??= umbra(["jobs", "signal", jobId!, "wake", "--database-url", url])
    })
    expect(await woken).toMatchObject({ code: 0 })
    expect(code).toBe(0)
    // Hidden once, drawn over from the top (five lines), and shown again at the end.
    expect(output.indexOf("\x1b[?25l")).toBeLessThan(output.indexOf("\x1b[5A"))
    expect(output.indexOf("\x1b[5A")).toBeLessThan(output.indexOf("\x1b[?25h"))
    expect(output).not.toContain("\x1b[3")
    // The tree, without what is logged before it is drawn.
    const shown = stripVTControlCharacters(output.slice(output.indexOf("\x1b[?25l"))).split(/[\r\n]+/)
    expect(shown).toContainEqual(expect.stringMatching(/^3 of 3 done · [\d.]+ m?s$/))
    expect(shown.filter(line => !line.includes("umbra") && width(line) > 60)).toEqual([])
    expect(output).toMatch(/✓ flow completed/)
  })
})
