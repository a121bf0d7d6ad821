/** `umbra report`, `umbra jobs durations` and `umbra jobs show --rendered`, on a folder and through a server. */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { umbra } from "./same-process.ts"
import { folderWith, type Running, root, startUmbra } from "./umbra.ts"

const files = folderWith({
  "flow.yaml": `name: flow
nodes:
  - { id: first, handler: transform, config: { value: "{{ input.n + 1 }}" } }
  - { id: each, handler: transform, for_each: "{{ [1, 2] }}", config: { value: "{{ item }} of {{ nodes.first.output }}" } }
`,
})
const data = join(files.path, "data")
const command = (...parameters: string[]) =>
  umbra(parameters, { env: { UMBRA_DATA_DIR: data, NO_COLOR: "1" }, cwd: files.path })

// The template of the built dashboard, or one of this test's own where it was not built.
const template = join(root, "dist/ui/report.html")
const isOwn = !existsSync(template)
let jobId: string

beforeAll(async () => {
  if (isOwn) {
    mkdirSync(join(root, "dist/ui"), { recursive: true })
    writeFileSync(`${template}.${process.pid}`, "<html><head></head><body><!--umbra-data--></body></html>")
    renameSync(`${template}.${process.pid}`, template)
  }
  const ran = await command("run", "flow.yaml", "--input", '{"n": 4}', "--json")
  expect(ran.code, ran.stderr).toBe(0)
  jobId = JSON.parse(ran.stdout).job_id
})
afterAll(() => {
  files.remove()
  if (isOwn) rmSync(template)
})

const reported = async (...more: string[]) => {
  const report = await command("report", jobId, "-o", "job.html", ...more)
  expect(report, report.stderr).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^Wrote job\.html \(\d+\.\d MB\)/),
  })
  const html = readFileSync(join(files.path, "job.html"), "utf8")
  expect(html).toContain("Content-Security-Policy")
  const received = JSON.parse(/id="umbra-data">([^<]*)</.exec(html)![1]!)
  expect(received.job.job_id).toBe(jobId)
  expect(received.facts[0].type).toBe("job_submitted")
  return received
}

const drawn = async () => {
  const { points, jobs, complete } = JSON.parse((await command("jobs", "durations", "--json")).stdout)
  expect({ points, jobs, complete }).toMatchObject({
    points: [{ job_id: jobId, count: 1 }],
    jobs: 1,
    complete: true,
  })
}

describe("on a folder", () => {
  it("umbra report writes the file, with as much of the data as wanted", async () => {
    expect((await reported()).payloads_kept).toBe("preview")
    expect(JSON.stringify((await reported("--payloads", "none")).facts)).not.toContain('"n":4')
    expect(await command("report", jobId, "-o", "none/job.html")).toMatchObject({ code: 2 })
  })

  it("umbra jobs durations draws a chart", async () => {
    expect((await command("jobs", "durations")).stdout).toMatch(/│ +·\n[\s\S]*1 job\. /)
    expect((await command("jobs", "durations", "--status", "failed")).stdout).toMatch(/^No jobs from /)
    await drawn()
  })

  it("umbra jobs show --rendered prints the config of an attempt", async () => {
    const config = await command("jobs", "show", jobId, "first", "--rendered")
    expect(JSON.parse(config.stdout)).toEqual({ value: 5 })
    const which = ["--item", "1", "--attempt", "1", "--json"]
    const item = await command("jobs", "show", jobId, "each", "--rendered", ...which)
    expect(JSON.parse(item.stdout)).toMatchObject({ item: 1, attempt: 1, config: { value: "2 of 5" } })
    expect((await command("jobs", "show", jobId, "each", "--rendered")).stdout).toContain(
      "each of its 2 items",
    )
    expect(await command("jobs", "show", jobId, "first", "--rendered", "--attempt", "3")).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("E313"),
    })
    expect(await command("jobs", "show", jobId, "--rendered")).toMatchObject({ code: 2 })
  })
})

describe("through a server", () => {
  let server: Running
  beforeAll(async () => {
    server = startUmbra(["serve", "--port", "0"], { env: { UMBRA_DATA_DIR: data }, cwd: files.path })
    await server.wrote(/listens on/)
  })
  afterAll(async () => {
    server.kill("SIGKILL")
    await server.ended
  })

  it("they answer the same", async () => {
    await drawn()
    await reported()
    const config = await command("jobs", "show", jobId, "first", "--rendered")
    expect(JSON.parse(config.stdout)).toEqual({ value: 5 })
  })
})
