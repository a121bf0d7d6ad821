/** `umbra push` of a file with schedules. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import { umbra } from "./same-process.ts"

const workflow = "name: report\nnodes:\n  - id: a\n    handler: transform\n    config: { value: 1 }\n"

it("stores what is new or changed, deletes what is null, and leaves the rest", async () => {
  const cwd = mkdtempSync(join(tmpdir(), "umbra-push-schedules-"))
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }))
  const push = (text: string, ...flags: string[]) => {
    writeFileSync(join(cwd, "file.yaml"), text)
    return umbra(["push", "file.yaml", ...flags], { cwd })
  }
  const names = async () =>
    JSON.parse((await umbra(["schedule", "list", "--json"], { cwd })).stdout).schedules.map(
      ({ name }: { name: string }) => name,
    )
  expect((await push(workflow)).code).toBe(0)
  const nightly = "  nightly: { workflow: report, cron: 0 2 * * *, zone: Europe/Berlin }\n"
  const hourly = "  hourly: { workflow: report, every: 1h }\n"
  const invalid = await push(`schedules:\n${nightly}  bad: { workflow: report, cron: 0 25 * * * }\n`)
  expect(invalid.code).toBe(2)
  expect(invalid.stderr).toMatch(/file\.yaml:3.*\n.*not a valid hour/)
  const validate = (...flags: string[]) => umbra(["validate", "file.yaml", ...flags], { cwd })
  const problem = /file\.yaml:3.*\n.*not a valid hour.*/.exec(invalid.stderr)![0]
  expect(await validate()).toMatchObject({ code: 2, stdout: expect.stringContaining(problem) })
  expect(JSON.parse((await validate("--json")).stdout)).toMatchObject({
    valid: false,
    errors: [{ code: "E330", path: "schedules.bad", line: 3 }],
  })
  expect(await names()).toEqual([])
  const first = await push(`schedules:\n${nightly}${hourly}`)
  expect(first).toMatchObject({ code: 0, stderr: "" })
  expect(await validate()).toMatchObject({
    code: 0,
    stdout: expect.stringContaining("is valid (2 schedules)"),
  })
  expect(first.stdout).toMatch(/^Schedule nightly is stored, in .*\nSchedule hourly is stored/)
  expect((await push(`schedules:\n${nightly}${hourly}`)).stdout).toMatch(
    /nightly already has.*\n.*hourly already has/,
  )
  const changed = `schedules:\n${nightly.replace("0 2", "0 3").replace(" }", ", priority: 1 }")}`
  expect((await push(changed)).stdout).toMatch(/^Schedule nightly is changed \(cron, priority\), in .*\n$/)
  expect(await names()).toEqual(["hourly", "nightly"])
  const removed = await push("schedules:\n  hourly: null\n  other: null\n", "--json")
  expect(JSON.parse(removed.stdout)).toEqual({
    schedules: [
      { name: "hourly", action: "deleted", fields: [] },
      { name: "other", action: "absent", fields: [] },
    ],
  })
  expect(await names()).toEqual(["nightly"])
  const unknown = `schedules:\n  w: { workflow: report, every: 1h }\n  x: { workflow: nothing, every: 1h }\n  y: { workflow: report@gone, every: 1h }\n`
  const refused = await push(unknown)
  expect(refused).toMatchObject({ code: 2, stdout: "" })
  expect(refused.stderr).toMatch(
    /file\.yaml:3:18 error E305.*"nothing".*file\.yaml:4:18 error E305.*"report@gone"/s,
  )
  expect(await names()).toEqual(["nightly"])
  expect((await push("schedules: 3\nother: 1\n")).code).toBe(2)
  // As large as no store accepts: the one before it is not stored either.
  const large = `schedules:\n  a: { workflow: report, every: 1h }\n  b: { workflow: report, every: 1h, input: ${"x".repeat(70_000)} }\n`
  expect([(await push(large)).code, (await validate()).code]).toEqual([2, 2])
  expect(await names()).toEqual(["nightly"])
})
