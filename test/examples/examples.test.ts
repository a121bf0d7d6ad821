import { spawn } from "node:child_process"
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { text } from "node:stream/consumers"
import { describe, expect, it } from "vitest"
import { startUmbra } from "../cli/umbra.ts"
import { freshDatabase } from "../support/services.ts"

const root = resolve(import.meta.dirname, "../..")

interface Start {
  readonly env?: Readonly<Record<string, string>>
  readonly node?: readonly string[]
}

async function run(file: string, parameters: readonly string[] = [], { env = {}, node = [] }: Start = {}) {
  const { UMBRA_DATABASE_URL: _url, ...clean } = process.env
  const child = spawn(process.execPath, [...node, join(root, file), ...parameters], {
    cwd: root,
    env: { ...clean, NO_COLOR: "1", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  })
  const ended = new Promise<number | null>(done => child.on("close", done))
  const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), ended])
  return { code, stdout, stderr }
}

/** With the processor time of it and of its processes: how long it takes depends on what else the machine does. */
async function timed(file: string) {
  const script = '"$0" "$1"; code=$?; times >&2; exit $code'
  const child = spawn("bash", ["-c", script, process.execPath, join(root, file)], {
    cwd: root,
    env: { ...process.env, NO_COLOR: "1" },
    stdio: ["ignore", "pipe", "pipe"],
  })
  const ended = new Promise<number | null>(done => child.on("close", done))
  const [stdout, errorOutput, code] = await Promise.all([text(child.stdout), text(child.stderr), ended])
  // Of the shell, and then of all that it has started: user and system.
  const [, stderr, user, system] = /^([\s\S]*?)\S+s \S+s\n(\S+)s (\S+)s\n$/.exec(errorOutput)!
  return { code, stdout, stderr, seconds: inSeconds(user!) + inSeconds(system!) }
}

const inSeconds = (time: string): number => {
  const [minutes, seconds] = time.split("m")
  return 60 * Number(minutes) + Number(seconds)
}

interface ListedJob {
  readonly job_id: string
  readonly status: string
  readonly workflow: string
  readonly workflow_version: number | null
  readonly parent_id: string | null
  readonly forked_from: string | null
  readonly paused?: object | null
}

describe("the examples run as they are", () => {
  it("memory.js", async () => {
    expect(await run("examples/memory.js")).toEqual({ code: 0, stdout: "COMPLETED HELLO ADA!\n", stderr: "" })
  })

  it("folder.js: J5 a job continues when its folder is opened again", async () => {
    const { code, stdout, stderr } = await run("examples/folder.js")
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" })
    expect(stdout).toMatch(/^submitted .*\nCOMPLETED \{ remind: 'Water the ferns' \}\n$/)
  })

  it("postgres.js, and says what it needs where it has none", async () => {
    expect((await run("examples/postgres.js")).stdout).toMatch(/^skipped: set UMBRA_DATABASE_URL/)
    const database = await freshDatabase()
    try {
      const { code, stdout, stderr } = await run("examples/postgres.js", [], {
        env: { UMBRA_DATABASE_URL: database.url },
      })
      expect({ code, stderr }).toEqual({ code: 0, stderr: "" })
      expect(stdout).toMatch(/^one job\n25\nCOMPLETED \d+ events\n$/)
    } finally {
      await database.drop()
    }
  })

  it("nightly/main.js: a tick in the hour that clocks leave out, an outage and a backfill", async () => {
    const { code, stdout, stderr } = await run("examples/nightly/main.js")
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" })
    expect(stdout).toBe(
      [
        "next: 2026-03-27T01:00:00.000Z 2026-03-28T01:00:00.000Z 2026-03-29T01:00:00.000Z 2026-03-30T00:00:00.000Z",
        "2026-03-27T01:00:00.000Z started: Report of the night to 2026-03-27",
        "2026-03-28T01:00:00.000Z started: Report of the night to 2026-03-28",
        "2026-03-29T01:00:00.000Z started: Report of the night to 2026-03-29",
        "2026-03-30T00:00:00.000Z missed: no engine ran within the time for catching up",
        "2026-03-31T00:00:00.000Z started",
        "backfill of 1: 2026-03-30T00:00:00.000Z Report of the night to 2026-03-30\n",
      ].join("\n"),
    )
  })

  it("watch.js", async () => {
    const { code, stdout } = await run("examples/watch.js")
    expect(code).toBe(0)
    expect(stdout).toMatch(/\d+ % {2}five \d of 5, ten \d of 10/)
    expect(stdout).toMatch(/node\.completed total \{"output":15,"duration_ms":\d+.*\}\njob\.completed/)
  })

  it("provider.js: X4 a webhook that is lost is made up for by a poll", async () => {
    const { code, stdout, stderr } = await run("examples/provider.js")
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" })
    expect(stdout).toContain("kiss waits for a slot\n")
    expect(stdout).toContain("opening.mp4 + chase.mp4 + kiss.mp4\n")
    expect(stdout).toMatch(/at most 2 at once; found by a poll: .*chase/)
  })

  it("cancel-and-retry.js: J10 only what is not done runs again", async () => {
    const { code, stdout } = await run("examples/cancel-and-retry.js")
    expect(code).toBe(0)
    expect(stdout).toBe(
      [
        "the handler was told to stop",
        "CANCELLED",
        "FAILED { code: 'BANK_CLOSED', message: 'The bank is closed', node: 'pay' }",
        "COMPLETED { pay: { paid: 12 } } { prepare: 1, pay: 2 }\n",
      ].join("\n"),
    )
  })

  it("approval.js: a signal, or silence", async () => {
    expect(await run("examples/approval.js")).toEqual({
      code: 0,
      stdout: "{ approved_by: 'Ada', paid: 12 }\n{ approved_by: 'nobody', paid: 0 }\n",
      stderr: "",
    })
  })

  it("for-each.js: J21 only the item that failed runs again", async () => {
    const { code, stdout } = await run("examples/for-each.js")
    expect(code).toBe(0)
    expect(stdout).toBe(
      [
        "FAILED { code: 'E401', message: 'no route to it', node: 'sizes', item: 2 }",
        "home COMPLETED, about COMPLETED, news FAILED, contact COMPLETED",
        "COMPLETED { first: 'home', total: 2000 } { home: 1, about: 1, news: 2, contact: 1 }\n",
      ].join("\n"),
    )
  })

  it("typed-builder.ts", async () => {
    const { code, stdout } = await run("examples/typed-builder.ts", [], { node: ["--import", "tsx"] })
    expect(code).toBe(0)
    expect(stdout).toBe(
      "Rome: 12 degrees, wind 0, warning: none\n" +
        "Reykjavik: 27 degrees, wind 0, warning: Reykjavik has 27 degrees\n",
    )
  })

  it("client.js: a server, and a client that submits, waits and lists", async () => {
    const { code, stdout, stderr } = await run("examples/client.js")
    expect({ code, stderr }).toEqual({ code: 0, stderr: "umbra: SIGTERM, stopping\n" })
    expect(stdout).toBe(
      "COMPLETED { gross: 119 }\none job\nstream: job_ended\ninvoice@1 { customer: 'Ada' }\nE304 422\n",
    )
  })

  it("nested.ts: J14 a child job, and a retry that goes down into it", async () => {
    const { code, stdout } = await run("examples/nested.ts", [], { node: ["--import", "tsx"] })
    expect(code).toBe(0)
    expect(stdout).toBe(
      'FAILED Child job … (letter@1) failed at node "printed": the printer is jammed\n' +
        "letter FAILED\n" +
        "COMPLETED { pages: 2 }\n",
    )
  })

  it("greeting/: the command at its head", async () => {
    const file = "examples/greeting/greeting.yaml"
    const command = /Run it: npx umbra (.*)/.exec(readFileSync(join(root, file), "utf8"))![1]!
    const parameters = command
      .split(" ")
      .filter(Boolean)
      .join(" ")
      .replace(/'(.*)'/, (_, json) => json.replace(/ /g, ""))
    const data = mkdtempSync(join(tmpdir(), "umbra-example-"))
    try {
      const { code, stdout } = await run("dist/cli/main.js", [
        ...parameters.split(" "),
        "--json",
        "--data-dir",
        data,
      ])
      expect(code).toBe(0)
      expect(JSON.parse(stdout).output).toEqual({ letter: "Hi Ada, the harbour is calm today." })
    } finally {
      rmSync(data, { recursive: true })
    }
  })

  it("film/: J15, X4 scenes are made at a provider that misbehaves, and shown while they are", async () => {
    const { code, stdout, stderr } = await run("examples/film/main.js")
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" })
    expect(stdout).toMatch(/scene \d waits for a slot of the studio/)
    for (const scene of ["harbour", "storm", "chase", "kiss"])
      expect(stdout).toMatch(new RegExp(`scene \\d shows ${scene}-\\d.png \\(\\d+ %\\)`))
    expect(stdout).toContain("scene 4 again: The provider says: the lights went out")
    expect(stdout).toContain("clips: [ 'harbour.mp4', 'storm.mp4', 'chase.mp4', 'kiss.mp4' ]")
    expect(stdout).toContain("5 operations, at most 2 at once\n")
  })

  it("media/: S9 pictures of a provider are stored before their URLs expire, made small in threads, and shown", async () => {
    const { code, stdout, stderr } = await run("examples/media/main.js")
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" })
    expect(stdout).toMatch(/^COMPLETED\n/)
    for (const motif of ["sunrise", "dunes", "waves"])
      expect(stdout).toMatch(
        new RegExp(
          `\\n${motif}: ${motif}\\.png image/png, \\d+ bytes, made small: \\d+ bytes\\n(.{32}\\n){16}`,
        ),
      )
    expect(stdout).toContain("6 artifacts belong to the job; the painter has answered 3 downloads\n")
  })

  it("crawl/: P2 to P4 a site is crawled, embedded and stored, whatever fails; a dead letter is replayed", async () => {
    const left = () => readdirSync(tmpdir()).filter(name => name.startsWith("umbra-crawl-"))
    const before = left()
    const { code, stdout, stderr } = await run("examples/crawl/main.js")
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" })
    expect(stdout).toMatch(/^COMPLETED\nfetch: 8 done, 7 failed tries, 1 dead\nchunk: 8 done/)
    expect(stdout).toMatch(
      /store: \d done, 1 failed tries, 0 dead\nstored 10 chunks of 8 pages, each with 26 numbers/,
    )
    expect(stdout).toContain("/prices was asked for 3 times, / once: true\n")
    expect(stdout).toContain("dead: fetch /broken, 4 tries, E410\n")
    expect(stdout).toContain("replayed 1: COMPLETED, now 11 chunks of 9 of 9 pages\n")
    expect(stdout).toContain('nearest to "goats": The ferry to the goats is late. The goats do not mind.\n')
    expect(left()).toEqual(before)
  })

  it("demo: every claim holds, nothing is left behind, in less than 20 s of processor time", async () => {
    const left = () => readdirSync(tmpdir()).filter(name => name.startsWith("umbra-demo-"))
    const before = left()
    const { code, stdout, stderr, seconds } = await timed("examples/demo/main.js")
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" })
    expect(seconds).toBeLessThan(20)
    expect(stdout).toMatch(/the process is gone \(SIGKILL\)[\s\S]*pack +run 2 {2}by process 2/)
    expect(stdout.match(/^ {3}✓ .* (killed|kill|again|attempt|second|on|template)$/gm)).toHaveLength(7)
    expect(stdout.match(/^ {3}✓ .* (order|count|lost|more|refused|free)$/gm)).toHaveLength(6)
    expect(stdout).not.toContain("✗")
    expect(left()).toEqual(before)
  })

  it("demo --ui: serves jobs of every kind until it is stopped, and leaves nothing behind", async () => {
    const left = () => readdirSync(tmpdir()).filter(name => name.startsWith("umbra-demo-"))
    const before = left()
    const demo = startUmbra(["--ui"], { main: join(root, "examples/demo/main.js") })
    try {
      const [, url] = await demo.wrote(/Open (http:\/\/127\.0\.0\.1:\d+)\//)
      const get = async (path: string) =>
        (await (await fetch(`${url}${path}`)).json()) as { readonly [field: string]: readonly never[] }
      const { jobs } = (await get("/jobs?limit=100")) as unknown as { jobs: ListedJob[] }
      const statuses = (workflow: string) =>
        [...new Set(jobs.filter(job => job.workflow === workflow).map(({ status }) => status))].sort()
      expect(
        Object.fromEntries(
          ["film", "order", "checkout", "article", "pages", "watch"].map(name => [name, statuses(name)]),
        ),
      ).toEqual({
        ...{ film: ["COMPLETED"], order: ["COMPLETED"], checkout: ["COMPLETED", "FAILED"] },
        // One waits for a person, the other for its start.
        ...{ article: ["PENDING", "PROCESSING"], pages: ["FAILED"] },
        watch: ["CANCELLED", "EXPIRED", "PROCESSING"],
      })
      expect(jobs.filter(job => job.paused != null)).toHaveLength(1)
      expect(jobs.filter(job => job.forked_from !== null)).toHaveLength(1)
      expect(jobs.filter(job => job.parent_id !== null)).toHaveLength(1)
      expect(jobs.filter(job => job.workflow === "umbra.bulk")).toHaveLength(1)
      const versions = jobs
        .filter(job => job.workflow === "checkout")
        .map(({ workflow_version }) => workflow_version)
      // A fork with another config runs a definition of its own.
      expect(new Set(versions)).toEqual(new Set([1, 2, null]))
      const readings = jobs.find(job => job.workflow === "readings")!
      expect((await get(`/jobs/${readings.job_id}/dead-letters`)).dead_letters!.length).toBeGreaterThan(0)
      expect((await get("/schedules")).schedules!.map(({ name }: { name: string }) => name)).toEqual([
        ...["heartbeat", "nightly-pages"],
      ])
    } finally {
      demo.kill("SIGINT")
    }
    expect((await demo.ended).code).toBe(0)
    expect(left()).toEqual(before)
  })

  it("every file of examples/ is one that is run here", () => {
    const page = readFileSync(join(root, "examples/README.md"), "utf8")
    const tested = readFileSync(import.meta.filename, "utf8")
    for (const name of readdirSync(join(root, "examples")).filter(name => name !== "README.md")) {
      expect(page).toContain(`(${name}`)
      expect(tested).toContain(`examples/${name}`)
    }
  })
})
