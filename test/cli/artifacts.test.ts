/** `umbra artifacts`, on a folder: what it prints, and what `umbra jobs verify` says of content that is missing. */
import { createHash } from "node:crypto"
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import { umbra } from "./same-process.ts"

const sha = (text: string) => `sha256:${createHash("sha256").update(text).digest("hex")}`

it("puts, lists, gets and removes artifacts, and finds content that is missing", async () => {
  const folder = mkdtempSync(join(tmpdir(), "umbra-cli-artifacts-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const data = join(folder, "data")
  const at = ["--data-dir", data]
  const file = join(folder, "a.txt")
  writeFileSync(file, "some text")
  const run = async (...given: string[]) => {
    const { code, stdout, stderr } = await umbra([...given, ...at])
    return { code, stdout, stderr }
  }
  const put = await run("artifacts", "put", file, "--type", "text/plain")
  expect(put.stderr).not.toContain("Error")
  const hash = sha("some text")
  expect(JSON.parse(put.stdout)).toEqual({ artifact: hash, name: "a.txt", type: "text/plain", bytes: 9 })
  expect((await run("artifacts", "ls")).stdout).toContain(`${hash}  9  text/plain  a.txt`)
  await run("artifacts", "get", hash, "--output", join(folder, "copy"))
  expect(readFileSync(join(folder, "copy"), "utf8")).toBe("some text")
  expect((await run("artifacts", "gc", "--dry-run")).stdout).toContain("0 artifacts, 0 bytes")

  const workflow = join(folder, "w.json")
  const node = { id: "a", handler: "transform", config: { value: "{{ input }}" } }
  writeFileSync(workflow, JSON.stringify({ name: "w", nodes: [node] }))
  const input = JSON.stringify({ file: { artifact: hash } })
  expect((await run("run", workflow, "--input", input)).code).toBe(0)
  expect(await run("artifacts", "rm", hash)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("E806"),
  })
  expect((await run("jobs", "verify", "--all")).code).toBe(0)
  for (const each of readdirSync(join(data, "artifacts/local")))
    rmSync(join(data, "artifacts/local", each), { recursive: true })
  expect(await run("jobs", "verify", "--all")).toMatchObject({
    ...{ code: 1, stdout: expect.stringContaining(`artifact ${hash} has no content`) },
  })
  expect((await run("artifacts", "rm", hash, "--force")).code).toBe(0)
  expect((await run("artifacts", "ls")).stdout).toContain("(removed)")
  expect(await run("artifacts", "get", hash)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("E803"),
  })
})
