/** `umbra schedule` on a folder. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import { umbra } from "./same-process.ts"

it("creates, lists, shows, pauses, resumes, runs and deletes schedules", async () => {
  const cwd = mkdtempSync(join(tmpdir(), "umbra-schedule-"))
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }))
  writeFileSync(
    join(cwd, "report.yaml"),
    "name: report\nnodes:\n  - id: a\n    handler: transform\n    config: { value: 1 }\n",
  )
  const run = (...parameters: string[]) => umbra(["schedule", ...parameters], { cwd })
  expect((await umbra(["push", "report.yaml"], { cwd })).code).toBe(0)
  const create = ["create", "nightly", "--workflow", "report", "--cron"]
  const wrong = await run(...create, "0 25 * * *")
  expect(wrong.code).toBe(2)
  expect(wrong.stderr).toContain("not a valid hour")
  const flags = ["--zone", "Europe/Berlin", "--input", '{"at": "{{ schedule.time }}"}', "--label", "team=ops"]
  const created = await run(...create, "0 2 * * *", ...flags, "--overlap", "queue_one", "--jitter", "60")
  expect(created).toMatchObject({ code: 0, stderr: "" })
  expect(created.stdout).toMatch(/^Schedule nightly is stored; next at \d{4}-/)
  expect((await run("list")).stdout).toMatch(/^nightly +0 2 \* \* \* Europe\/Berlin +next at/)
  const shown = JSON.parse((await run("show", "nightly", "--json")).stdout)
  expect(shown).toMatchObject({
    ...{ workflow: "report", overlap: "queue_one", jitter_seconds: 60, labels: { team: "ops" }, fires: [] },
    input: { at: "{{ schedule.time }}" },
  })
  expect(shown.next_ticks).toHaveLength(20)
  const lines = (await run("show", "nightly")).stdout.split("\n").map(line => line.trim())
  expect(lines.filter(line => shown.next_ticks.includes(line))).toEqual(shown.next_ticks)
  expect((await run("pause", "nightly")).stdout).toBe("Schedule nightly is paused.\n")
  expect((await run("list")).stdout).toContain("paused")
  expect((await run("resume", "nightly")).stdout).toContain("next at")
  const started = await run("run", "nightly")
  expect(started.stdout).toMatch(/^[0-9a-f-]{36}\n$/)
  expect((await run("show", "nightly")).stdout).toContain(`started (run)  ${started.stdout.trim()}`)
  expect((await run("list")).stdout).toMatch(/; last started at \d{4}-\S+\n$/)
  const range = ["--from", "2026-03-28T00:00:00Z", "--to", "2026-03-31T00:00:00Z"]
  expect((await run("backfill", "nightly", ...range, "--dry-run")).stdout).toBe(
    "Would start 3 jobs of report@1: the first is 2026-03-28T01:00:00.000Z, the last 2026-03-30T00:00:00.000Z.\n",
  )
  const filled = await run("backfill", "nightly", ...range)
  expect(filled).toMatchObject({ code: 0, stderr: "" })
  expect(filled.stdout).toContain("3 jobs started.")
  expect((await run("show", "nightly")).stdout).toContain("2026-03-30T00:00:00.000Z  started (backfill)")
  expect((await umbra(["bulk", "list"], { cwd })).stdout).toMatch(/COMPLETED +backfill/)
  const dry = await run("create", "nightly", "--workflow", "report", "--every", "6h", "--dry-run")
  expect(dry.stdout).toMatch(/^Would be stored\. Next ticks\n( {2}\S+T(00|06|12|18):00:00\.000Z\n){20}$/)
  expect(JSON.parse((await run("show", "nightly", "--json")).stdout)).toMatchObject({ cron: "0 2 * * *" })
  const refused = await run("create", "other", "--workflow", "report", "--cron", "0 25 * * *", "--dry-run")
  expect(refused).toMatchObject({ code: 2, stdout: "" })
  const past = await run("ticks", "nightly", ...range)
  expect(past.stdout.split("\n").filter(line => line.includes("started (backfill)"))).toHaveLength(3)
  const ahead = ["--from", "2100-07-01T00:00:00Z", "--to", "2100-07-03T00:00:00Z"]
  expect((await run("ticks", "nightly", ...ahead)).stdout).toBe(
    "  2100-07-01T00:00:00.000Z  planned\n  2100-07-02T00:00:00.000Z  planned\n",
  )
  expect((await run("delete", "nightly")).stdout).toContain("is deleted")
  const gone = await run("show", "nightly")
  expect(gone.code).toBe(1)
  expect(gone.stderr).toContain('There is no schedule "nightly"')
})

it.each([
  ["600", 600],
  ["never", null],
])(
  "--ttl %s is the time to live of jobs that run, are submitted, and start by a schedule",
  async (ttl, seconds) => {
    const cwd = mkdtempSync(join(tmpdir(), "umbra-ttl-"))
    onTestFinished(() => rmSync(cwd, { recursive: true, force: true }))
    writeFileSync(
      join(cwd, "report.yaml"),
      "name: report\nnodes:\n  - id: a\n    handler: transform\n    config: { value: 1 }\n",
    )
    const json = async (...parameters: string[]) => {
      const { code, stdout, stderr } = await umbra([...parameters, "--json"], { cwd })
      expect(code, stderr).toBe(0)
      return JSON.parse(stdout)
    }
    /** The time to live in the first event of the job. */
    const lifetime = async (jobId: string) => {
      const { stdout } = await umbra(["jobs", "events", jobId, "--json"], { cwd })
      const { at, payload } = JSON.parse(stdout.split("\n")[0]!)
      return payload.expires_at === null ? null : (Date.parse(payload.expires_at) - Date.parse(at)) / 1000
    }
    expect(await lifetime((await json("run", "report.yaml", "--ttl", ttl)).job_id)).toBe(seconds)
    expect((await umbra(["push", "report.yaml"], { cwd })).code).toBe(0)
    expect(await lifetime((await json("submit", "report", "--ttl", ttl)).job_id)).toBe(seconds)
    const create = ["schedule", "create", "nightly", "--workflow", "report", "--every", "1d"]
    expect(await json(...create, "--ttl", ttl)).toMatchObject({ ttl_seconds: seconds })
    expect(await lifetime((await umbra(["schedule", "run", "nightly"], { cwd })).stdout.trim())).toBe(seconds)
    expect(await json(...create)).not.toHaveProperty("ttl_seconds")
  },
  120_000,
)
