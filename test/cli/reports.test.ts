/** `umbra report`, `umbra jobs durations` and `umbra jobs show --rendered`, on a folder and through a server. */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { folderWith, type Running, root, startUmbra, umbra } from "./umbra.ts"

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
}, 120_000)
afterAll(() => {
  files.remove()
  if (isOwn) rmSync(template)
})

const check = async () => {
  const drawn = await command("jobs", "durations")
  expect(drawn.stdout).toMatch(/│ +·\n[\s\S]*1 job\. /)
  const { points, jobs, complete } = JSON.parse((await command("jobs", "durations", "--json")).stdout)
  expect({ points, jobs, complete }).toMatchObject({
    points: [{ job_id: jobId, count: 1 }],
    jobs: 1,
    complete: true,
  })
  expect((await command("jobs", "durations", "--status", "failed")).stdout).toMatch(/^No jobs from /)

  const config = await command("jobs", "show", jobId, "first", "--rendered")
  expect(JSON.parse(config.stdout)).toEqual({ value: 5 })
  const item = await command(
    "jobs",
    "show",
    jobId,
    "each",
    "--rendered",
    "--item",
    "1",
    "--attempt",
    "1",
    "--json",
  )
  expect(JSON.parse(item.stdout)).toMatchObject({ item: 1, attempt: 1, config: { value: "2 of 5" } })
  expect((await command("jobs", "show", jobId, "each", "--rendered")).stdout).toContain("each of its 2 items")
  expect(await command("jobs", "show", jobId, "first", "--rendered", "--attempt", "3")).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("E313"),
  })
  expect(await command("jobs", "show", jobId, "--rendered")).toMatchObject({ code: 2 })

  const report = await command("report", jobId, "-o", "job.html")
  expect(report.stdout).toMatch(/^Wrote job\.html \(\d+\.\d MB\)/)
  const html = readFileSync(join(files.path, "job.html"), "utf8")
  expect(html).toContain("Content-Security-Policy")
  const { job, facts } = JSON.parse(/id="umbra-data">([^<]*)</.exec(html)![1]!)
  expect(job.job_id).toBe(jobId)
  expect(facts[0].type).toBe("job_submitted")
  const quiet = await command("report", jobId, "--payloads", "none", "--json")
  expect(JSON.parse(quiet.stdout)).toMatchObject({ file: `umbra-${jobId}.html`, payloads: "none" })
  expect(await command("report", jobId, "-o", "none/job.html")).toMatchObject({ code: 2 })
}

it("on a folder", check)

describe("through a server", () => {
  let server: Running
  beforeAll(async () => {
    server = startUmbra(["serve", "--port", "0"], { env: { UMBRA_DATA_DIR: data }, cwd: files.path })
    await server.wrote(/listens on/)
  }, 60_000)
  afterAll(async () => {
    server.kill("SIGKILL")
    await server.ended
  })

  it("does the same", check)
})
