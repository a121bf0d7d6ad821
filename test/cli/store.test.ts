/** Workflows and jobs of a folder or a database that no server has. */
import { afterAll, describe, expect, it, onTestFinished } from "vitest"
import { openUmbra } from "../../src/umbra.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { waitForSignal } from "../../src/worker/waiting.ts"
import { freshDatabase } from "../support/services.ts"
import { umbra } from "./same-process.ts"
import { folderWith, startUmbra } from "./umbra.ts"

const files = folderWith({
  "double.yaml":
    "name: double\nnodes: [{ id: d, handler: double, config: { n: '{{ input.n }}' } }]\noutput: '{{ d }}'\n",
  "next.yaml":
    "name: double\ndescription: twice\nnodes: [{ id: e, handler: double, config: { n: '{{ input.n }}' } }]\noutput: '{{ e }}'\n",
  "list.yaml":
    "name: list\nnodes: [{ id: each, handler: picky, for_each: '{{ input.list }}', fail_fast: false, retry: { max_attempts: 1 }, config: { n: '{{ item }}' } }]\n",
  "handlers.mjs":
    'export const picky = { name: "picky", run: ({ n }) => { if (n === 5) throw new Error("five"); return n } }\n' +
    'export const double = { name: "double", run: ({ n }) => 2 * n }\n',
})
afterAll(() => files.remove())
const handlers = ["--handlers", "./handlers.mjs"]
const approval = defineHandler({ name: "approval", run: () => waitForSignal("approved") })

describe("a folder without a server", () => {
  const command = (...parameters: string[]) => umbra(parameters, { cwd: files.path })

  it("lists the items of a node, a page at a time, now and at a past moment", async () => {
    const ran = await command("run", "list.yaml", "--input", '{"list": [3, 5, 8]}', "--json", ...handlers)
    const { job_id } = JSON.parse(ran.stdout)
    const { stdout } = await command("jobs", "items", job_id, "each", "--limit", "2")
    expect(stdout).toMatch(
      new RegExp(
        `^ +0  COMPLETED  .* 3\\n +1  FAILED +.* 5  E401 five\\nMore: umbra jobs items ${job_id} each --after 1\\n$`,
      ),
    )
    const next = await command("jobs", "items", job_id, "each", "--after", "1", "--json")
    expect(JSON.parse(next.stdout)).toMatchObject({ items: [{ index: 2, item: 8 }], next: null })
    const first = JSON.parse((await command("jobs", "items", job_id, "each", "--at", "#1", "--json")).stdout)
    expect(first).toMatchObject({ moment: { index: 1 } })
    expect((await command("jobs", "items", job_id, "nothing")).stderr).toContain("E310")
  })

  it("takes workflows and jobs, runs them with --wait, and prints which process would run them otherwise", async () => {
    expect((await command("push", "double.yaml")).stderr).toMatch(
      /E103[\s\S]*--handlers MODULE.*for a folder or a database, with this command/,
    )
    expect((await command("push", "double.yaml", ...handlers)).stdout).toBe(
      "double@1 is stored in ./.umbra.\n",
    )
    const run = await command("submit", "double", "--input", '{"n": 21}', "--wait", "--json", ...handlers)
    expect(run.code).toBe(0)
    expect(JSON.parse(run.stdout)).toMatchObject({ status: "COMPLETED", output: 42 })

    const left = await command("submit", "double@1", "--input", '{"n": 1}')
    expect(left.stderr).toContain("If no engine runs on this store, start one: umbra serve, or umbra resume")
    const watched = await command("watch", left.stdout.trim())
    expect(watched.code).toBe(2)
    expect(watched.stderr).toMatch(
      /E604 Job \S+ waits: no engine runs the jobs in \.\/\.umbra\. Start `umbra serve`/,
    )
    expect((await command("resume", ...handlers)).stdout).toContain("1 job completed")
    expect((await command("watch", left.stdout.trim())).stdout).toMatch(/job COMPLETED\n✓ double completed/)
  })
})

describe("a database without a server", () => {
  it("is watched by polling: every job's end is printed", async () => {
    const database = await freshDatabase()
    onTestFinished(database.drop)
    const engine = await openUmbra(database.url, { handlers: [approval] })
    onTestFinished(() => engine.close())
    const flags = ["--database-url", database.url]
    const ask = { name: "ask", nodes: [{ id: "a", handler: "approval" }] }
    const before = await engine.submit(ask)
    await before.cancel()
    const open = await engine.submit(ask)
    const all = startUmbra(["watch", "--json", ...flags])
    const one = startUmbra(["watch", open.id, ...flags])
    await Promise.all([all.wrote(/"status":"PROCESSING"/), one.wrote(/waits for signal approved/)])
    await engine.signal(open.id, "approved")
    const quick = await engine.submit({ name: "quick", nodes: [{ id: "i", handler: "input" }] })
    expect(await one.ended).toMatchObject({ code: 0 })
    await all.wrote(new RegExp(`${open.id}[^\n]*COMPLETED[\\s\\S]*${quick.id}[^\n]*COMPLETED`))
    all.kill("SIGINT")
    const { code, stdout } = await all.ended
    expect(code).toBe(0)
    const received = stdout
      .trim()
      .split("\n")
      .map(line => JSON.parse(line))
    expect(received.filter(({ job_id }) => job_id === before.id)).toEqual([])
    expect(received.at(-1)).toMatchObject({
      job_id: quick.id,
      workflow: "quick",
      finished_at: expect.any(String),
    })
  })

  it("J20 keeps workflows and aliases of the owner that is named", async () => {
    const database = await freshDatabase()
    onTestFinished(database.drop)
    const command = (...parameters: string[]) =>
      umbra([...parameters, "--database-url", database.url, "--owner", "shop"], { cwd: files.path })
    await command("push", "double.yaml", ...handlers)
    expect((await command("alias", "set", "double", "stable", "1")).code).toBe(0)
    expect((await command("alias", "set", "double", "9", "1")).stderr).toContain(
      "An alias begins with a letter",
    )
    const { stdout } = await command("workflows", "show", "double", "--json")
    expect(JSON.parse(stdout)).toMatchObject({
      name: "double",
      aliases: [{ alias: "stable" }],
      pushed_by: "local",
      versions: [{ version: 1, pushed_by: "local" }],
    })
    expect((await command("workflows", "show", "double")).stdout).toMatch(/^stored +\S+Z by local$/m)
    expect((await command("alias", "set", "double", "stable", "1=0")).stderr).toContain(
      "of which at least one is above 0",
    )
    expect((await command("alias", "set", "double", "stable", "1=5,2=0")).stderr).toContain(
      "has no version 2",
    )
    await command("push", "next.yaml", ...handlers)
    expect((await command("workflows", "diff", "double", "1", "2")).stdout).toBe(
      "- node d\n+ node e\n~ description\n~ output\n",
    )
    const others = await umbra(["workflows", "list", "--database-url", database.url])
    expect(others.stdout).toContain("No workflows.")
    expect((await command("workflows", "delete", "double")).code).toBe(0)
    expect((await command("alias", "list", "double")).stderr).toContain("E305")
  })
})
