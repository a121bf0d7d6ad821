/** A pipeline that lost messages does not look like one that did not: ⚠, the first error, exit 1. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import { umbra } from "./same-process.ts"
import { folderWith, root } from "./umbra.ts"

async function folderOf(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = folderWith(files)
  onTestFinished(folder.remove)
  return folder.path
}

const readme = readFileSync(join(root, "README.md"), "utf8")
const titles = /^```yaml\n(# titles\.yaml\nname: titles\n.*?)^```$/ms.exec(readme)![1]!
const articles = `${JSON.stringify({ text: "one" })}\n`
const input = ["--input", '{"path": "articles.jsonl"}']

it("the README's pipeline without UMBRA_ALLOW_FILES ends with ⚠, the cure and exit 1; with it, with ✓ and 0", async () => {
  const cwd = await folderOf({ "titles.yaml": titles, "articles.jsonl": articles })
  const lost = await umbra(["run", "titles.yaml", ...input], { cwd })
  expect(lost.code).toBe(1)
  expect(lost.stdout).toMatch(/⚠ titles completed with dead letters/)
  expect(lost.stdout + lost.stderr).not.toContain("✓")
  expect(lost.stdout).toMatch(
    /⚠ 1 message failed permanently\. Show the errors: umbra dead-letters \S+\n {2}read:1: E721 /,
  )
  expect(lost.stdout).toContain("UMBRA_ALLOW_FILES")
  expect(lost.stdout).not.toContain("✓ titles")
  const well = await umbra(["run", "titles.yaml", ...input], { cwd, env: { UMBRA_ALLOW_FILES: "." } })
  expect(well).toMatchObject({ code: 0, stdout: expect.stringContaining("✓ titles completed") })
})

it("--json has the count and the first error, --allow-dead-letters exits 0, jobs show and watch say the same", async () => {
  const cwd = await folderOf({ "titles.yaml": titles, "articles.jsonl": articles })
  const ran = await umbra(["run", "titles.yaml", ...input, "--json"], { cwd })
  const { job_id, ...job } = JSON.parse(ran.stdout)
  expect(ran.code).toBe(1)
  expect(job).toMatchObject({
    status: "COMPLETED",
    dead_letters: { count: 1, first: { message: "read:1", error: { code: "E721" } } },
  })
  const allowed = await umbra(["run", "titles.yaml", ...input, "--allow-dead-letters"], { cwd })
  expect(allowed).toMatchObject({
    code: 0,
    stdout: expect.stringContaining("⚠ 1 message failed permanently"),
  })
  expect(allowed.stdout).not.toContain("Exit code 1")
  const shown = await umbra(["jobs", "show", job_id], { cwd })
  expect(shown.stdout).toMatch(/dead +⚠ 1 message failed permanently, the first: read:1: E721 /)
  const shownJson = JSON.parse((await umbra(["jobs", "show", job_id, "--json"], { cwd })).stdout)
  expect(shownJson.dead_letters.count).toBe(1)
  const watched = await umbra(["watch", job_id, "--json"], { cwd })
  expect(watched.code).toBe(1)
  expect((await umbra(["watch", job_id, "--json", "--allow-dead-letters"], { cwd })).code).toBe(0)
})

it("a job whose node runs a pipeline warns of the messages that were lost there", async () => {
  const parent = `name: parent
nodes:
  - { id: run, handler: pipeline, config: { pipeline: titles, input: { path: articles.jsonl } } }
`
  const cwd = await folderOf({ "titles.yaml": titles, "articles.jsonl": articles, "parent.yaml": parent })
  const { stdout, code } = await umbra(["run", "parent.yaml", "--with", "titles.yaml"], { cwd })
  expect(code).toBe(1)
  expect(stdout).toMatch(/⚠ parent completed with dead letters/)
  expect(stdout).toContain("read:1: E721")
})
