/** Commands against a server: the real one in this process, the command as a process of its own. */
import { spawn } from "node:child_process"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { json as answer, problem, scripted } from "../client/scripted.ts"
import { openStage, type Stage } from "../server/stage.ts"
import { umbra } from "./same-process.ts"
import { type Ended, folderWith, root, startUmbra } from "./umbra.ts"

const hello = `name: hello
nodes:
  - id: greet
    handler: transform
    config: { value: "Hello {{ input.name }}" }
`
const files = folderWith({
  "hello.yaml": hello,
  "hello2.yaml": hello.replace("Hello", "Hi"),
  "approval.json": JSON.stringify({ name: "approval", nodes: [{ id: "ask", handler: "approval" }] }),
  "wrong.yaml": hello.replace("transform", "transfrom"),
})
const path = (name: string) => join(files.path, name)
afterAll(() => files.remove())

describe("commands on a server", () => {
  let stage: Stage
  let env: Record<string, string>
  beforeAll(async () => {
    stage = await openStage({ withTokens: true })
    env = { UMBRA_SERVER: stage.server.url, UMBRA_TOKEN: await stage.token("ada", "admin") }
  })
  afterAll(() => stage?.close())

  const run = (...parameters: string[]): Promise<Ended> => umbra(parameters, { env, cwd: files.path })
  const json = async (...parameters: string[]) => {
    const ended = await run(...parameters, "--json")
    expect(ended).toMatchObject({ code: 0, stderr: "" })
    return JSON.parse(ended.stdout)
  }

  it("push stores a workflow and shows every problem of one that is wrong", async () => {
    expect((await run("push", "hello.yaml")).stdout).toBe(`hello@1 is stored in ${stage.server.url}.\n`)
    expect((await run("push", "hello.yaml")).stdout).toContain("hello@1 already has this content")
    expect(await json("push", "hello2.yaml")).toMatchObject({ name: "hello", version: 2, unchanged: false })
    expect(await json("push", "approval.json")).toMatchObject({ version: 1 })
    const wrong = await run("push", "wrong.yaml")
    expect(wrong).toMatchObject({ code: 2, stdout: "" })
    expect(wrong.stderr).toMatch(
      /wrong\.yaml:4:14 error E103[\s\S]*"transfrom"[\s\S]*--handlers MODULE.*for a server, with umbra serve/,
    )
  })

  it("submit prints the id alone; the job commands show, signal, cancel, retry and delete it", async () => {
    const { code, stdout, stderr } = await run("submit", "approval", "--label", "team=shop")
    expect(code).toBe(0)
    const id = stdout.trim()
    expect(id).toMatch(/^[0-9a-f-]{36}$/)
    expect(stderr).toContain(`approval@1 submitted. Follow the job: umbra watch ${id}`)
    expect(
      (await json("jobs", "list", "--label", "team=shop")).jobs.map((j: { job_id: string }) => j.job_id),
    ).toEqual([id])
    expect((await run("jobs", "show", id)).stdout).toMatch(/owner +ada[\s\S]*waits for signal approved/)
    expect((await run("jobs", "graph", id)).stdout).toMatch(/ask +WAITING/)
    expect(await json("jobs", "cancel", id, "--reason", "enough")).toEqual({
      job_id: id,
      status: "CANCELLED",
    })
    expect((await run("jobs", "cancel", id)).stderr).toMatch(/^umbra: E302 /)
    expect((await run("jobs", "retry", id)).stdout).toContain("is retried: an engine of the server runs")
    const stale = await run("jobs", "signal", id, "approved", "--resume-token", "r7")
    expect(stale).toMatchObject({ code: 1, stderr: expect.stringContaining("E312") })
    expect((await run("jobs", "signal", id, "approved", "--data", '{"by":"Ada"}')).stdout).toBe(
      `Job ${id} received signal approved.\n`,
    )
    await stage.umbra.wait(id)
    const events = (await run("jobs", "events", id, "--json")).stdout.trim().split("\n")
    expect(JSON.parse(events.at(-1)!)).toMatchObject({ type: "job.completed" })
    expect((await run("jobs", "delete", id)).stdout).toContain("is deleted")
    expect((await json("jobs", "list", "--label", "team=shop")).jobs).toEqual([])
  })

  it("jobs signal says what is wrong with data that fails the schema of the signal", async () => {
    const config = { signal: "ok", schema: { required: ["by"], properties: { by: { type: "string" } } } }
    const flow = { name: "checked", nodes: [{ id: "ask", handler: "wait_for_signal", config }] }
    await stage.umbra.register(flow as never, "ada")
    const id = (await run("submit", "checked")).stdout.trim()
    const wrong = await run("jobs", "signal", id, "ok", "--data", '{"by": 1}')
    expect(wrong).toMatchObject({ code: 2, stdout: "" })
    expect(wrong.stderr).toMatch(/^umbra: E317 .*data\.by: Expected string, found number\./)
    expect((await run("jobs", "signal", id, "ok", "--data", '{"by": "Ada"}')).code).toBe(0)
    const events = (await run("jobs", "events", id, "--json")).stdout.trim().split("\n")
    expect(events.map(line => JSON.parse(line)).find(({ type }) => type === "signal.received")).toMatchObject(
      {
        payload: { by: expect.stringMatching(/^token /) },
      },
    )
    expect((await run("workflows", "delete", "checked")).code).toBe(0)
  })

  it("submit with the same key gives the same job", async () => {
    const submit = () => run("submit", "hello@1", "--input", '{"name":"Ada"}', "--idempotency-key", "k-1")
    const [first, second] = [await submit(), await submit()]
    expect(second.stdout).toBe(first.stdout)
    expect(second.stderr).toContain("was already submitted with this key")
    expect((await run("submit", "hello", "--idempotency-key", "k-1")).stderr).toContain("E306")
  })

  it("list goes through pages with the flags that were given", async () => {
    for (let i = 0; i < 3; i++) await run("submit", "hello", "--input", `{"name":"${i}"}`, "--label", "run=p")
    const flags = ["--server", stage.server.url]
    const { stdout } = await run("jobs", "list", "--limit", "2", "--label", "run=p", ...flags)
    const [, after, server] =
      /More, with the same options: umbra jobs list --after (\S+)( --server \S+)\n$/.exec(stdout)!
    expect(server).toBe(` --server ${stage.server.url}`)
    const next = await json("jobs", "list", "--limit", "2", "--label", "run=p", "--after", after!)
    expect(next.jobs).toHaveLength(1)
  })

  it("J20 alias set, list and history; workflows list, show, diff and delete", async () => {
    expect((await run("alias", "set", "hello", "stable", "1")).stdout).toContain(
      "hello@stable now points at version 1",
    )
    expect((await run("alias", "set", "hello", "stable", "1=90,2=10")).stdout).toContain(
      "versions 1 (90 %), 2 (10 %)",
    )
    expect((await run("alias", "list", "hello")).stdout).toMatch(
      /^latest {2}version 2 {2}follows every push\nstable {2}versions 1 \(90 %\), 2 \(10 %\) {2}since \S+ by token /,
    )
    expect((await json("alias", "history", "hello", "stable")).moves).toHaveLength(2)
    expect((await run("alias", "set", "hello", "stable", "7")).stderr).toContain("has no version 7")
    expect((await run("alias", "set", "hello", "stable", "1:2")).stderr).toContain("2=90,3=10")
    expect((await run("alias", "delete", "hello", "stable")).stdout).toContain("hello@stable is removed")
    expect((await run("alias", "delete", "hello", "stable")).stderr).toContain("E305")
    expect((await run("workflows", "list")).stdout).toMatch(/^approval {2}version 1 .*\nhello {5}version 2 /)
    expect((await run("workflows", "show", "hello@1")).stdout).toMatch(
      /version +1 of 2 versions, the newest is 2[\s\S]*Hello \{\{/,
    )
    expect((await run("workflows", "diff", "hello", "1", "2")).stdout).toBe("~ node greet  config\n")
    expect((await run("workflows", "diff", "hello", "2", "2")).stdout).toBe(
      "The versions have the same content.\n",
    )
    expect(await json("workflows", "diff", "hello", "1", "2")).toMatchObject({
      ...{ name: "hello", from: 1, to: 2, nodes_added: [], nodes_removed: [] },
      nodes_changed: [{ id: "greet", keys: ["config"] }],
    })
    expect((await run("workflows", "diff", "hello", "1", "7")).stderr).toContain("E305")
    expect(await run("workflows", "diff", "hello", "1", "stable")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('"stable" is not a version'),
    })
    expect((await run("workflows", "delete", "approval")).code).toBe(0)
    expect((await run("workflows", "show", "approval")).stderr).toMatch(
      /E305 There is no workflow "approval"/,
    )
  })

  it("says what was probably meant by a name that is not there", async () => {
    expect((await run("submit", "helo")).stderr).toContain(
      'There is no workflow "helo". Did you mean "hello"?',
    )
    expect((await run("submit", "hello@9")).stderr).toContain("The newest version of hello is 2.")
    expect((await run("submit", "hello@canary", "--wait")).stderr).toContain(
      "The aliases of hello are: latest; its newest version is 2.",
    )
    expect((await run("alias", "set", "hello", "stable", "7")).stderr).toContain("Its newest is 2.")
    expect((await run("alias", "set", "hello", "we ird", "1")).stderr).toContain("must begin with a letter")
    expect((await run("alias", "set", "hello", "stable", "1=0")).stderr).toContain(
      "of which at least one is above 0",
    )
    expect((await run("alias", "set", "hello", "stable", "1=1,1=2")).stderr).toContain(
      "names a version twice",
    )
    expect((await run("lineage", "x", "fetch")).stderr).toContain('"fetch" is not the name of a message')
  })

  it("S3 token create, list and revoke, of the token's own owner", async () => {
    const made = await run("token", "create", "--owner", "ada", "--scope", "read")
    expect(made.stdout).toMatch(/^umbra_\S{43}\n$/)
    const { tokens } = await json("token", "list")
    expect(new Set(tokens.map(({ owner }: { owner: string }) => owner))).toEqual(new Set(["ada"]))
    expect((await run("token", "revoke", tokens.at(-1).id)).stdout).toContain("is revoked")
    expect((await run("token", "create", "--owner", "eve", "--scope", "read")).stderr).toContain("E631")
  })

  it("S3 token create takes limits, and list shows them", async () => {
    const create = (...flags: string[]) =>
      run("token", "create", "--owner", "ada", "--scope", "submit", ...flags)
    const flags = ["--rate-limit", "2.5", "--max-unfinished-jobs", "7", "--max-body-bytes", "9000"]
    const made = await create(...flags)
    expect(made.stderr).toContain("(submit, rate_limit 2.5, max_unfinished_jobs 7, max_body_bytes 9000)")
    expect((await run("token", "list")).stdout).toMatch(
      /submit {2}\S+ {2}rate_limit 2\.5 {2}max_unfinished_jobs 7 {2}max_body_bytes 9000\n/,
    )
    for (const [flag, wrong] of [
      ["--rate-limit", "0"],
      ["--rate-limit", "fast"],
      ["--max-unfinished-jobs", "1.5"],
      ["--max-body-bytes", "0"],
    ] as const) {
      const refused = await create(flag, wrong)
      expect(refused.code).not.toBe(0)
      expect(refused.stderr).toContain(flag)
    }
    expect((await create("--max-body-bytes", "4194305")).stderr).toContain("E631")
  })

  it("takes the token from a file", async () => {
    writeFileSync(path("token"), `${env.UMBRA_TOKEN}\n`)
    const flags = ["--server", stage.server.url, "--token-file", path("token")]
    expect(await umbra(["workflows", "list", ...flags])).toMatchObject({ code: 0 })
  })

  it.each<
    [why: string, env: () => Record<string, string>, parameters: string[], code: number, message: RegExp]
  >([
    [
      "no token",
      () => ({ UMBRA_TOKEN: "" }),
      [],
      1,
      /E630 the server requires an API token: set UMBRA_TOKEN/,
    ],
    [
      "a wrong token",
      () => ({ UMBRA_TOKEN: "umbra_wrong" }),
      [],
      1,
      /E630 the token from UMBRA_TOKEN is unknown to the server/,
    ],
    [
      "a text that is no token",
      () => ({ UMBRA_TOKEN: "ümbra" }),
      [],
      2,
      /E604 UMBRA_TOKEN has no valid token/,
    ],
    ["no such file", () => ({}), ["--token-file", "nothing"], 2, /E601 nothing does not exist/],
    [
      "nobody there",
      () => ({ UMBRA_SERVER: "http://127.0.0.1:9" }),
      [],
      1,
      /E650 http:\/\/127\.0\.0\.1:9 cannot be reached: .*Is the server running/,
    ],
    [
      "no URL",
      () => ({ UMBRA_SERVER: "localhost:7070" }),
      [],
      2,
      /E651 "localhost:7070" is not a valid server URL. Use a URL such as http:\/\/localhost:7070\./,
    ],
    [
      "a server without TLS",
      () => ({ UMBRA_SERVER: env.UMBRA_SERVER!.replace("http:", "https:") }),
      [],
      1,
      /E650 https\S+ cannot be reached: the server there does not use TLS; its URL may begin with http:/,
    ],
    [
      "a path that is not the API's",
      () => ({ UMBRA_SERVER: `${env.UMBRA_SERVER}/elsewhere` }),
      [],
      2,
      /E651 There is no route GET \/elsewhere\/workflows.*Check the URL/,
    ],
    [
      "an owner beside a server",
      () => ({}),
      ["--owner", "x"],
      2,
      /E604 --owner is for a folder or a database/,
    ],
    ["two places", () => ({}), ["--server", "http://x", "--data-dir", "y"], 2, /cannot be used with option/],
  ])("tells %s and what to do", async (_, more, parameters, code, message) => {
    const ended = await umbra(["workflows", "list", ...parameters], { env: { ...env, ...more() } })
    expect(ended).toMatchObject({ code, stdout: "" })
    expect(ended.stderr).toMatch(message)
    expect(ended.stderr).not.toContain(env.UMBRA_TOKEN)
  })

  it("reports a page that is not Umbra's, and a server of another release", async () => {
    const page = await scripted(response => response.setHeader("content-type", "text/html").end("<html>"))
    const html = await umbra(["jobs", "list", "--server", page.url])
    expect(html).toMatchObject({ code: 2, stdout: "" })
    expect(html.stderr).toMatch(/E651 .*Check the URL: http\S+\/jobs answered with text\/html/)
    const old = await scripted(problem(404, "E634"), answer({ info: { version: "0.0.1" } }))
    expect((await umbra(["jobs", "list", "--server", old.url])).stderr).toMatch(
      /E652 the server has release 0\.0\.1, this command \d/,
    )
  })

  it.each([
    [["puhs", "x"], /unknown command 'puhs'[\s\S]*Did you mean push\?/],
    [["alias", "sets"], /unknown command 'sets'[\s\S]*Did you mean set\?/],
    [["submit"], /missing required argument 'workflow'/],
    [["completion", "tcsh"], /bash, zsh, fish/],
  ])("suggests what was meant by %j", async (parameters, message) => {
    const { code, stderr } = await umbra(parameters)
    expect(code).toBe(2)
    expect(stderr).toMatch(message)
  })
})

describe("umbra watch", () => {
  const stream = (...parts: string[]) => `retry: 10\n\n${parts.join("")}`
  const streamEvent = (event: string, data: unknown, id = "") =>
    `event: ${event}\n${id && `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`
  const job = (status: string, more = {}) => ({
    ...{
      job_id: "0198c0de-7a11-7012-9abc-0123456789ab",
      workflow: "w",
      workflow_version: 3,
      status,
      error: null,
    },
    ...{ created_at: "2026-11-15T12:00:00.000Z", finished_at: null, labels: {}, ...more },
  })

  it("ends when its reader has seen enough", async () => {
    const server = await scripted(response => {
      response.writeHead(200, { "content-type": "text/event-stream" })
      response.write(stream(streamEvent("snapshot", { jobs: [job("QUEUED")] }, "1")))
      // Each is a change: it ends when it writes a line that has no reader.
      let id = 1
      const more = setInterval(() => {
        const status = ++id % 2 === 0 ? "PROCESSING" : "QUEUED"
        response.write(stream(streamEvent("job", job(status), String(id))))
      }, 50)
      response.on("close", () => clearInterval(more))
    })
    const watch = `${process.execPath} ${join(root, "dist/cli/main.js")} watch --server ${server.url}`
    const shell = spawn("bash", ["-c", `${watch} | head -1; echo "\${PIPESTATUS[*]}"`])
    expect(await text(shell.stdout)).toMatch(/QUEUED .*\n0 0\n$/)
  })

  it("prints a line per change of a job's state, also across a lost connection, until Ctrl-C", async () => {
    let streams = 0
    const server = await scripted(response => {
      response.writeHead(200, { "content-type": "text/event-stream" })
      streams++
      if (streams === 1) {
        response.write(
          stream(
            streamEvent("snapshot", { jobs: [job("QUEUED")] }, "1"),
            streamEvent("job", job("PROCESSING"), "2"),
          ),
        )
        setTimeout(() => response.destroy(), 30)
      } else {
        const over = job("FAILED", {
          finished_at: "2026-11-15T12:00:02.000Z",
          error: { code: "E401", message: "no", node: "n" },
        })
        const delayed = {
          ...job("COMPLETED", { finished_at: over.finished_at, start_at: "2026-11-15T12:00:00.900Z" }),
          job_id: "0198c0de-7a11-7012-9abc-0123456789ac",
        }
        response.write(
          stream(
            streamEvent("reset", { reason: "too_far_behind" }),
            streamEvent("snapshot", { jobs: [job("PROCESSING")] }, "3"),
            streamEvent("job", delayed, "4"),
            streamEvent("job", over, "5"),
          ),
        )
      }
    })
    const watching = startUmbra(["watch", "--server", server.url])
    await watching.wrote(/FAILED/)
    watching.kill("SIGINT")
    const { code, stdout, stderr } = await watching.ended
    expect(code).toBe(0)
    expect(
      stdout
        .trim()
        .split("\n")
        .map(line => line.replace(/^\S+ {2}\S+ {2}/, "")),
    ).toEqual([
      "QUEUED       w@3",
      "PROCESSING   w@3",
      "COMPLETED    w@3  1.1 s",
      "FAILED       w@3  2.0 s  node n: E401 no",
    ])
    expect(stderr).toMatch(/lost.* Retrying/)
    expect(server.requests[1]?.headers["last-event-id"]).toBe("2")
  })

  it("shows a job of a server to its end, as umbra run does, and has its exit code", async () => {
    const stage = await openStage()
    try {
      const { id } = await stage.umbra.submit({
        name: "two",
        nodes: [
          { id: "ask", handler: "approval" },
          { id: "after", handler: "transform", config: { value: "{{ ask }}" } },
        ],
      })
      const watching = startUmbra(["watch", id, "--server", await withStream(stage, id)])
      await watching.wrote(/ask waits for signal approved/)
      await stage.umbra.signal(id, "approved", "yes")
      const { code, stdout } = await watching.ended
      expect(stdout).toMatch(/✓ ask completed[\s\S]*✓ after completed[\s\S]*job COMPLETED\n✓ two completed/)
      expect(code).toBe(0)
      const left = await stage.umbra.submit({ name: "ask", nodes: [{ id: "ask", handler: "approval" }] })
      const leaving = startUmbra(["watch", left.id, "--server", await withStream(stage, left.id)])
      await leaving.wrote(/ask waits/)
      leaving.kill("SIGINT")
      const ended = await leaving.ended
      expect(ended.code).toBe(1)
      expect(ended.stdout).toMatch(/is PROCESSING[\s\S]*The job continues\. Follow it: umbra watch /)
      expect((await stage.umbra.job(left.id)).status).toBe("PROCESSING")
      const lines = (await umbra(["watch", id, "--json", "--server", await withStream(stage, id)])).stdout
      expect(
        lines
          .trim()
          .split("\n")
          .map(line => JSON.parse(line).type),
      ).toContain("node.completed")
    } finally {
      await stage.close()
    }
  })

  /** The real server, with the stream of one job told from what the engine says. */
  async function withStream(stage: Stage, id: string): Promise<string> {
    const server = await scripted(async (response, request) => {
      if (!request.path.endsWith("/stream")) {
        const { status, headers, body } = await passed(stage.server.url, request)
        return void response.writeHead(status, headers).end(body)
      }
      response.writeHead(200, { "content-type": "text/event-stream" })
      response.write(stream(streamEvent("snapshot", { job: job("PROCESSING") }, "0")))
      const gone = new AbortController()
      response.on("close", () => gone.abort())
      let n = 0
      try {
        for await (const { type } of stage.umbra.watch(id, { signal: gone.signal }))
          response.write(streamEvent("node", { type }, String(++n)))
      } catch (error) {
        // Nobody listens any more, and the stage may be closed.
        if (!gone.signal.aborted) throw error
      }
      response.end(streamEvent("end", { reason: "job_ended" }))
    })
    return server.url
  }
})

async function passed(
  url: string,
  { method, path: target, body }: { method: string; path: string; body: string },
) {
  const response = await fetch(`${url}${target}`, { method, ...(body === "" ? {} : { body }) })
  const type = response.headers.get("content-type") ?? "application/json"
  return { status: response.status, headers: { "content-type": type }, body: await response.text() }
}
