import { existsSync, mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { storeLabel } from "../../src/journal/location.ts"
import { type FreshDatabase, freshDatabase } from "../support/services.ts"
import { handlersModule, oneNode } from "./handlers-for-runs.ts"
import { umbra } from "./same-process.ts"
import { folderWith, startUmbra } from "./umbra.ts"

const greeting = `
name: greeting
input: { type: object, required: [name], properties: { name: { type: string } } }
nodes:
  - { id: who, handler: input }
  - { id: gift, handler: transform, when: "{{ who.name == 'Eve' }}", config: { value: 1 } }
  - { id: text, handler: transform, dependencies: [gift], config: { value: "Hello {{ who.name }}" } }
output: { text: "{{ text }}" }
`

const folder = folderWith({ "greeting.yaml": greeting, "handlers.mjs": handlersModule })
const path = (name: string) => join(folder.path, name)
let database: FreshDatabase
beforeAll(async () => {
  database = await freshDatabase()
})
afterAll(async () => {
  await database.drop()
  folder.remove()
})

const onPostgres = () => ["--database-url", database.url]
const run = (file: string, ...rest: string[]) => umbra(["run", path(file), ...rest])
const runNode = (handler: string, ...rest: string[]) => {
  writeFileSync(path(`${handler}.json`), oneNode(handler))
  return run(`${handler}.json`, "--handlers", path("handlers.mjs"), ...rest)
}
const jobIds = async (store: string[]) => {
  const { jobs } = JSON.parse((await umbra(["jobs", "list", "--json", ...store])).stdout)
  return (jobs as { job_id: string }[]).map(job => job.job_id)
}

describe("umbra run", () => {
  it("J3 prints one line per event that matters, then the output, and exits 0", async () => {
    const { code, stdout, stderr } = await run("greeting.yaml", "--input", '{"name":"Ada"}', ...onPostgres())
    expect(code).toBe(0)
    expect(stderr).toMatch(/^( {2}creating tables in PostgreSQL at \S+\n)?$/)
    const lines = stdout.split("\n").map(line => line.replace(/^\S+Z /, ""))
    expect(lines[0]).toMatch(/^job [0-9a-f-]{36} of greeting version 1 submitted$/)
    expect(lines).toContain("– gift skipped")
    expect(lines).toContainEqual(expect.stringMatching(/^✓ text completed in \d+ ms$/))
    expect(stdout).toContain("completed in")
    expect(stdout).toMatch(/\{\n {2}"text": "Hello Ada"\n\}\n$/)
  })

  it("C1 and bidirectional controls and U+2028 never reach the terminal, and JSON keeps their value", async () => {
    const hostile = "a\u009b2Jb\u009d0;x\u202ec\u2066d\u2028e"
    const isHostile = /[\u0080-\u009f\p{Bidi_Control}\u2028\u2029]/u
    const node = { id: "a", handler: "transform", config: { value: hostile } }
    const flow = { name: "hostile", description: hostile, nodes: [node], output: "{{ a }}" }
    writeFileSync(path("hostile.json"), JSON.stringify(flow))
    const shown = await run("hostile.json", ...onPostgres())
    const json = await run("hostile.json", "--json", ...onPostgres())
    await umbra(["push", path("hostile.json"), ...onPostgres()])
    const stored = await umbra(["workflows", "show", "hostile", ...onPostgres()])
    for (const { code, stdout, stderr } of [shown, json, stored]) {
      expect(code, stderr).toBe(0)
      expect(stdout + stderr).not.toMatch(isHostile)
    }
    expect(shown.stdout).toContain("a\\u009b2Jb\\u009d0;x\\u202ec")
    expect(JSON.parse(json.stdout).output).toBe(hostile)
  })

  it("J14 runs a workflow that runs another, given with --with", async () => {
    const child = {
      name: "child",
      nodes: [{ id: "a", handler: "transform", config: { value: 21 } }],
      output: "{{ a }}",
    }
    const parent = {
      name: "parent",
      nodes: [{ id: "c", handler: "workflow", config: { workflow: "child" } }],
      output: "{{ c * 2 }}",
    }
    writeFileSync(path("child.json"), JSON.stringify(child))
    writeFileSync(path("parent.json"), JSON.stringify(parent))
    const missing = await run("parent.json", "--json", ...onPostgres())
    expect(JSON.parse(missing.stdout)).toMatchObject({ status: "FAILED", error: { code: "E305", node: "c" } })
    const { code, stdout } = await run("parent.json", "--with", path("child.json"), "--json", ...onPostgres())
    const job = JSON.parse(stdout)
    expect({ code, output: job.output }).toEqual({ code: 0, output: 42 })
    const list = async (...flags: string[]) =>
      JSON.parse((await umbra(["jobs", "list", "--json", ...flags, ...onPostgres()])).stdout).jobs
    expect(await list("--parent", job.job_id)).toMatchObject([{ workflow: "child", parent_id: job.job_id }])
    const top = (await list("--top")).map(({ workflow }: { workflow: string }) => workflow)
    expect(top).toContain("parent")
    expect(top).not.toContain("child")
  })

  it("prints only the job with --json, and the rest on standard error", async () => {
    const { code, stdout, stderr } = await run(
      "greeting.yaml",
      "--input",
      '{"name":"Ada"}',
      "--json",
      ...onPostgres(),
    )
    expect(code).toBe(0)
    expect(stderr).toContain("✓ text completed")
    const job = JSON.parse(stdout)
    expect(Object.keys(job)).toEqual(["job_id", "status", "output", "error", "reason", "usage", "nodes"])
    expect(job).toMatchObject({ status: "COMPLETED", output: { text: "Hello Ada" }, error: null })
    expect(job.nodes.map((node: { id: string; status: string }) => [node.id, node.status])).toEqual([
      ["who", "COMPLETED"],
      ["gift", "SKIPPED"],
      ["text", "COMPLETED"],
    ])
    expect(job.nodes[0]).toMatchObject({ handler: "input", attempt: 1, duration_ms: expect.any(Number) })
  })

  it("reads the input from a file or standard input", async () => {
    writeFileSync(path("input.json"), '{"name":"file"}')
    const fromFile = await run(
      "greeting.yaml",
      "--input",
      `@${path("input.json")}`,
      "--json",
      ...onPostgres(),
    )
    const fromStdin = await umbra(
      ["run", path("greeting.yaml"), "--input", "@-", "--json", ...onPostgres()],
      {
        stdin: '{"name":"stdin"}',
      },
    )
    expect([fromFile, fromStdin].map(({ stdout }) => JSON.parse(stdout).output.text)).toEqual([
      "Hello file",
      "Hello stdin",
    ])
  })

  it("gives the same job for the same idempotency key, and keeps labels", async () => {
    const parameters = ["--input", '{"name":"Ada"}', "--idempotency-key", "k1", "--label", "team=a", "--json"]
    const first = JSON.parse((await run("greeting.yaml", ...parameters, ...onPostgres())).stdout)
    const second = JSON.parse((await run("greeting.yaml", ...parameters, ...onPostgres())).stdout)
    expect(second).toEqual(first)
    const shown = await umbra(["jobs", "show", first.job_id, "--json", ...onPostgres()])
    expect(JSON.parse(shown.stdout)).toMatchObject({ labels: { team: "a" }, workflow: "greeting" })
  })

  it("finds the database in UMBRA_DATABASE_URL or a settings file", async () => {
    writeFileSync(path("umbra.yaml"), `database_url: ${database.url}\nconcurrency: 5\n`)
    const parameters = ["run", path("greeting.yaml"), "--input", '{"name":"Ada"}', "--json"]
    const starts = [
      umbra(parameters, { env: { UMBRA_DATABASE_URL: database.url } }),
      umbra([...parameters, "--config", path("umbra.yaml")]),
    ]
    const known = (await Promise.all(starts)).map(({ stdout }) => JSON.parse(stdout).job_id)
    expect(await jobIds(onPostgres())).toEqual(expect.arrayContaining(known))
    expect(await jobIds(["--config", path("umbra.yaml")])).toEqual(expect.arrayContaining(known))
  })
})

it("says that it creates a database, the first time", async () => {
  const run = () =>
    umbra(["run", path("greeting.yaml"), "--input", '{"name":"Ada"}', "--data-dir", path("first-time")])
  const [first, second] = [await run(), await run()]
  expect(first.stderr).toMatch(/^Creating a database in \S+first-time\.\n$/)
  expect(first.stdout).not.toContain("Creating")
  expect([first.code, second.code, second.stderr]).toEqual([0, 0, ""])
})

it("says so with --json too, and of tables in a PostgreSQL database", async () => {
  const parameters = ["run", path("greeting.yaml"), "--input", '{"name":"Ada"}', "--json"]
  const inFolder = await umbra([...parameters, "--data-dir", path("first-json")])
  expect(inFolder.stderr).toMatch(/^Creating a database in \S+first-json\.\n/)
  expect(JSON.parse(inFolder.stdout)).toMatchObject({ status: "COMPLETED" })
  const empty = await freshDatabase()
  onTestFinished(() => empty.drop())
  const run = () => umbra([...parameters, "--database-url", empty.url])
  const [first, second] = [await run(), await run()]
  expect(first.stderr).toContain(`creating tables in ${storeLabel(empty.url)}`)
  expect(JSON.parse(first.stdout)).toMatchObject({ status: "COMPLETED" })
  expect(second.stderr).not.toContain("creating")
  expect(second.code).toBe(0)
})

it("ignores DATABASE_URL, and says so in one line on standard error", async () => {
  const cwd = path("beside-an-application")
  mkdirSync(cwd)
  const parameters = ["run", path("greeting.yaml"), "--input", '{"name":"Ada"}', "--json"]
  // It says so once in a process.
  const { stdout, stderr } = await startUmbra(parameters, { cwd, env: { DATABASE_URL: database.url } }).ended
  const { job_id: id } = JSON.parse(stdout)
  expect(stderr.split("\n").filter(line => line.includes("DATABASE_URL"))).toEqual([
    expect.stringMatching(/^umbra: DATABASE_URL is ignored; jobs are in \.\/\.umbra\./),
  ])
  expect(existsSync(join(cwd, ".umbra", "umbra.db"))).toBe(true)
  expect(stderr).toContain("Creating a database in ./.umbra.")
  expect(await jobIds(onPostgres())).not.toContain(id)
})

describe("umbra run refuses what cannot be used, with exit 2 and without a trace", () => {
  const dataDir = path("never-made")
  it.each([
    ["a file that is not there", ["nowhere.yaml"], /E601 \S*nowhere\.yaml does not exist/],
    ["invalid YAML", ["broken.yaml"], /broken\.yaml:\d+:\d+ error E101/],
    ["an unknown handler", ["unknown.yaml"], /error E103[\s\S]*--handlers MODULE/],
    [
      "an input that does not fit",
      ["greeting.yaml", "--input", "{}"],
      /E304 the input fails the schema of workflow "greeting"[\s\S]*name/,
    ],
    [
      "an input that is not JSON",
      ["greeting.yaml", "--input", "{name: Ada}"],
      /E603 --input is not JSON[\s\S]*Quote it/,
    ],
    [
      "an input file that is not there",
      ["greeting.yaml", "--input", "@no.json"],
      /E601 no\.json does not exist/,
    ],
    [
      "a handlers module that is not there",
      ["greeting.yaml", "--handlers", "./no.mjs"],
      /E602 \.\/no\.mjs does not exist/,
    ],
    [
      "an unknown setting",
      ["greeting.yaml", "--set", "colour=red"],
      /E620 --set: there is no setting "colour"/,
    ],
    [
      "a wrong setting",
      ["greeting.yaml", "--input", '{"name":"A"}', "--set", "concurrency=many"],
      /E620 The setting concurrency/,
    ],
  ])("%s", async (_, [file, ...rest], message) => {
    writeFileSync(path("broken.yaml"), "name: x\nnodes: [\n")
    writeFileSync(path("unknown.yaml"), "name: x\nnodes:\n  - { id: a, handler: nothing }\n")
    const { code, stdout, stderr } = await run(file!, ...rest, "--data-dir", dataDir)
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" })
    expect(stderr).toMatch(message)
    expect(existsSync(dataDir)).toBe(false)
  })

  it("a database URL that is none", async () => {
    const { code, stderr } = await run(
      "greeting.yaml",
      "--input",
      '{"name":"A"}',
      "--database-url",
      "mysql://x",
    )
    expect(code).toBe(2)
    expect(stderr).toMatch(/E504 a database URL must begin with postgres:\/\//)
  })
})

describe("umbra run on a folder: a handler that misbehaves fails its node with a code, and nothing is lost", () => {
  const store = ["--data-dir", path("data")]
  const failures: string[] = []
  it.each([
    ["throws_text", "E401", /no luck/],
    ["not_json", "E404", /BigInt|bigint/i],
    ["huge", "E405", /16 MB|16777216|16\.\d|bytes/],
  ])("%s: %s", async (handler, code, message) => {
    const ended = await runNode(handler, "--json", ...store)
    expect(ended.code).toBe(1)
    const job = JSON.parse(ended.stdout)
    failures.push(job.job_id)
    expect(job).toMatchObject({ status: "FAILED", output: null, error: { code, node: "only" } })
    expect(job.error.message).toMatch(message)
    expect(job.nodes[0]).toMatchObject({ id: "only", status: "FAILED", error: { code } })
  })

  it("prints what failed and how to continue", async () => {
    const { stdout, code } = await runNode("throws_text", ...store)
    expect(code).toBe(1)
    expect(stdout).toMatch(/✗ only failed: E401 no luck/)
    expect(stdout).toMatch(/throws_text is FAILED[\s\S]*node only: E401 no luck/)
    // The command that is suggested is one that can be given as it stands.
    expect(stdout).toMatch(
      /umbra jobs retry [0-9a-f-]{36} --wait --data-dir \S+ --handlers \S+handlers\.mjs\n/,
    )
  })

  it("keeps every one of these jobs, and its journal and projection agree", async () => {
    expect(await jobIds(store)).toEqual(expect.arrayContaining(failures))
    const { code, stdout } = await umbra(["jobs", "verify", "--all", ...store])
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining("✓ 4 jobs") })
  })

  it("names the process that holds the folder", async () => {
    writeFileSync(path("long.json"), oneNode("long"))
    const holder = startUmbra(["run", path("long.json"), "--handlers", path("handlers.mjs"), ...store])
    await holder.wrote(/only is running/)
    const { code, stderr } = await umbra(["jobs", "list", ...store])
    expect(code).toBe(1)
    expect(stderr).toMatch(/E503 .* is in use by process \d+ since/)
    holder.kill("SIGINT")
    expect((await holder.ended).code).toBe(1)
  })
})
