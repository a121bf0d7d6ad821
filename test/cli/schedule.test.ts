/** `umbra schedule` on a folder. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import { umbra } from "./umbra.ts"

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
  expect(wrong.stderr).toContain("no valid hour")
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
  expect((await run("pause", "nightly")).stdout).toBe("Schedule nightly is paused.\n")
  expect((await run("list")).stdout).toContain("paused")
  expect((await run("resume", "nightly")).stdout).toContain("next at")
  const started = await run("run", "nightly")
  expect(started.stdout).toMatch(/^[0-9a-f-]{36}\n$/)
  expect((await run("show", "nightly")).stdout).toContain(`started (run)  ${started.stdout.trim()}`)
  expect((await run("delete", "nightly")).stdout).toContain("is deleted")
  const gone = await run("show", "nightly")
  expect(gone.code).toBe(1)
  expect(gone.stderr).toContain('There is no schedule "nightly"')
}, 120_000)
