/** `umbra jobs cancel|retry|delete` with filters, `umbra bulk` and `umbra jobs diff`: on a folder, and through its server. */
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { openUmbra } from "../../src/umbra.ts"
import { handlers, kinds } from "../bulk/stage.ts"
import { umbra } from "./same-process.ts"
import { type Ended, folderWith, type Running, startUmbra } from "./umbra.ts"

const files = folderWith({})
const data = join(files.path, "data")
afterAll(() => files.remove())

const command = (...parameters: string[]): Promise<Ended> =>
  umbra(parameters, { env: { UMBRA_DATA_DIR: data }, cwd: files.path })

const ids: string[] = []

beforeAll(async () => {
  const store = await openUmbra(data, { handlers })
  for (let i = 0; i < 3; i++) {
    const job = await store.submit(kinds.fails, { i })
    await job.wait()
    ids.push(job.id)
  }
  await store.close()
})

describe("on a folder", () => {
  it("counts, retries what matches, and says who would run it", async () => {
    const dry = await command("jobs", "retry", "--status", "failed", "--since", "2h", "--dry-run")
    expect(dry).toMatchObject({ code: 0, stdout: "Would retry 3 jobs: 3 FAILED.\n" })
    const none = await command("jobs", "retry", "--workflow", "other", "--dry-run", "--json")
    expect(JSON.parse(none.stdout)).toMatchObject({ count: 0, complete: true })
    const retried = await command("jobs", "retry", "--status", "failed", "--rate", "1000")
    expect(retried.code, retried.stderr).toBe(0)
    expect(retried.stdout).toMatch(
      /^3 jobs retried\.\nNo engine runs them yet; start one with `umbra resume`\.\n$/,
    )
  })

  it("lists and shows operations, with what they refused", async () => {
    const cancelled = await command(
      "jobs",
      "cancel",
      "--workflow",
      "fails",
      "--reason",
      "enough",
      "--rate",
      "1000",
    )
    expect(cancelled).toMatchObject({ code: 0, stdout: "3 jobs cancelled.\n" })
    const refused = await command("jobs", "cancel", "--status", "cancelled", "--rate", "1000")
    expect(refused.stdout).toMatch(
      /^0 jobs cancelled\. 3 jobs refused:\n( {2}E302 {2}Job .* has already ended\.\n){3}$/,
    )
    const listed = await command("bulk", "list")
    expect(listed.stdout.trim().split("\n")).toHaveLength(3)
    const [newest] = JSON.parse((await command("bulk", "list", "--json")).stdout).operations
    const shown = await command("bulk", "show", newest.bulk_id)
    expect(shown.stdout).toContain("COMPLETED")
    expect(shown.stdout).toContain("3 refused")
    expect((await command("bulk", "abort", newest.bulk_id)).stderr).toContain("E302")
    expect((await command("bulk", "show", ids[0]!)).stderr).toContain("E315")
  })

  it("forks what matches, once the effects are confirmed", async () => {
    const filter = ["jobs", "fork", "--status", "cancelled", "--workflow", "fails", "--since", "2h"]
    const dry = await command(...filter, "--dry-run")
    expect(dry.code, dry.stderr).toBe(0)
    expect(dry.stdout).toMatch(
      /^Would fork 3 jobs: 3 CANCELLED\.\nOf the newest 3 jobs 3 would be refused:\n/,
    )
    expect(dry.stdout).toMatch(/add:\n {2}--confirm-unknown\n$/)
    const refused = await command(...filter, "--rate", "1000")
    expect(refused.stdout).toMatch(/^0 jobs forked\. 3 jobs refused:\n( {2}E314 {2}.*\n){3}$/)
    const confirmed = [...filter, "--confirm-unknown", "--confirm", "elsewhere", "--rate", "1000"]
    const forked = await command(...confirmed, "--to", "fails", "--output", 'a={"set": 1}')
    expect(forked.code, forked.stderr).toBe(0)
    expect(forked.stdout).toMatch(/^3 jobs forked\.\n/)
    const [newest] = JSON.parse((await command("bulk", "list", "--json")).stdout).operations
    const shown = await command("bulk", "show", newest.bulk_id)
    expect(shown.stdout).toContain('"workflow":"fails@1"')
    const listed = await command("jobs", "list", "--forked-from", ids[0]!, "--json")
    expect(JSON.parse(listed.stdout).jobs).toMatchObject([{ forked_from: ids[0], status: "COMPLETED" }])
    for (const wrong of [
      ["--confirm-unknown"],
      ["--dry-run"],
      ["--workflow", "a", "--to", "a@1", "--definition", "x"],
    ])
      expect(await command("jobs", "fork", ...wrong), wrong.join(" ")).toMatchObject({ code: 2, stdout: "" })
  })

  it("compares jobs and moments", async () => {
    const diff = await command("jobs", "diff", ids[0]!, ids[1]!, "--node", "input")
    expect(diff.code, diff.stderr).toBe(0)
    expect(diff.stdout).toContain("The inputs of the jobs differ.")
    expect(diff.stdout).toContain("$.i")
    const moments = await command("jobs", "diff", ids[0]!, ids[0]!, "--at-a", "#1", "--json")
    expect(JSON.parse(moments.stdout)).toMatchObject({ divergence: { kind: "status", node: "a" } })
  })

  it("refuses a command with a job and a filter, or with neither", async () => {
    for (const wrong of [
      ["retry"],
      ["delete", "--dry-run"],
      ["retry", ids[0]!, "--status", "failed"],
      ["cancel", ids[0]!, "--dry-run"],
      ["retry", "--status", "failed", "--wait"],
    ])
      expect(await command("jobs", ...wrong), wrong.join(" ")).toMatchObject({ code: 2, stdout: "" })
    expect((await command("jobs", "delete", "--since", "soon")).stderr).toContain("30m, 2h or 7d")
  })
})

describe("through a server", () => {
  let server: Running
  beforeAll(async () => {
    server = startUmbra(["serve", "--port", "0"], { env: { UMBRA_DATA_DIR: data }, cwd: files.path })
    await server.wrote(/listens on/)
  })
  afterAll(() => server.kill("SIGKILL"))

  it("starts, aborts and waits for operations", async () => {
    const slow = await command("jobs", "delete", "--workflow", "fails", "--rate", "0.01", "--detach")
    const id = slow.stdout.trim()
    expect(id).toMatch(/^[0-9a-f-]{36}$/)
    const aborted = await command("bulk", "abort", id)
    expect(aborted.code, aborted.stderr).toBe(0)
    expect(aborted.stdout).toContain("CANCELLED")
    const deleted = await command("jobs", "delete", "--workflow", "fails", "--rate", "1000")
    expect(deleted.stdout).toMatch(/^\d jobs? deleted\.\n$/)
    expect((await command("jobs", "list", "--workflow", "fails")).stdout).toBe("No jobs.\n")
    const diff = await command("jobs", "diff", ids[0]!, ids[1]!)
    expect(diff.stdout).toContain("The inputs of the jobs differ.")
  })
})
