/** `umbra dev`: what is changed in the files is what runs, and nothing that runs is lost. */
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import { ask } from "../server/stage.ts"
import { folderWith, type Running, startUmbra } from "./umbra.ts"

const handlers = (answer: string, more = "") => `
import { appendFileSync, existsSync } from "node:fs"
import { answer } from "./answer.mjs"
const log = (ctx, what) => appendFileSync(process.env.RUNS, JSON.stringify({ node: ctx.nodeId, fence: ctx.fence, attempt: ctx.attempt, pid: process.pid, what }) + "\\n")
const sleep = (ms, signal) => new Promise((resolve, reject) => {
  const timer = setTimeout(resolve, ms)
  signal.addEventListener("abort", () => { clearTimeout(timer); reject(signal.reason) })
})
export default [
  { name: "answer", run: () => ({ said: ${JSON.stringify(answer)}, imported: answer }) },
  { name: "holds", run: async (config, ctx) => {
    log(ctx, "begun")
    while (!existsSync(process.env.RELEASE)) await sleep(20, ctx.signal)
    log(ctx, "ended")
    return { code: ${JSON.stringify(answer)}, attempt: ctx.attempt }
  } },
  { name: "exits", run: (config, ctx) => { if (ctx.attempt === 1) process.exit(7); return ctx.attempt } },
  ${more}
]
`

const workflow = (name: string, handler: string, more = "") =>
  `name: ${name}\nnodes:\n  - id: n\n    handler: ${handler}\n    retry: { max_attempts: 2, initial_seconds: 0.01 }\n${more}`

interface Dev {
  readonly process: Running
  readonly url: string
  readonly write: (name: string, text: string) => void
  readonly runs: () => { fence: number; attempt: number; pid: number; what: string }[]
  readonly release: () => void
  submit(workflow: string): Promise<string>
  job(id: string, query?: string): Promise<Record<string, unknown>>
}

async function startDev(files: Record<string, string>): Promise<Dev> {
  const folder = folderWith(files)
  const runs = join(folder.path, "runs.log")
  const release = join(folder.path, "release")
  const names = Object.keys(files).filter(name => name.endsWith(".yaml"))
  const process = startUmbra(["dev", ...names, "--port", "0", "--handlers", "./handlers.mjs"], {
    cwd: folder.path,
    env: { RUNS: runs, RELEASE: release, NO_COLOR: "1" },
  })
  onTestFinished(async () => {
    process.kill("SIGKILL")
    await process.ended
    folder.remove()
  })
  const [, url] = await process.wrote(/Dashboard: (http:\/\/127\.0\.0\.1:\d+)\//)
  const json = async (path: string, body?: object) =>
    (await ask(url!, path, body === undefined ? {} : { method: "POST", body })).body
  return {
    process,
    url: url!,
    write: (name, text) => writeFileSync(join(folder.path, name), text),
    runs: () =>
      existsSync(runs)
        ? readFileSync(runs, "utf8")
            .trim()
            .split("\n")
            .map(line => JSON.parse(line))
        : [],
    release: () => writeFileSync(release, ""),
    submit: async name => {
      const body = await json("/jobs", { workflow: name })
      expect(body).toHaveProperty("job_id")
      return body.job_id
    },
    job: (id, query = "") => json(`/jobs/${id}${query}`),
  }
}

it("serves, pushes changed workflows as new versions, and shows problems with carets", async () => {
  const dev = await startDev({
    "handlers.mjs": handlers("one"),
    "answer.mjs": "export const answer = 1",
    "flow.yaml": workflow("flow", "answer"),
    "held.yaml": workflow("held", "holds"),
  })
  await dev.process.wrote(/flow\.yaml: flow@1 is stored\./)
  await dev.process.wrote(/held@1 is stored/)
  const { output } = await dev.job(await dev.submit("flow"), "?wait=30")
  expect(output).toEqual({ n: { said: "one", imported: 1 } })
  const held = await dev.submit("held")
  await expect.poll(() => dev.runs().length).toBe(1)

  dev.write("held.yaml", workflow("held", "holds", "labels: {}\n").replace("id: n", "id: m"))
  await dev.process.wrote(/held\.yaml:\d+:\d+/)
  dev.write("held.yaml", workflow("held", "holds").replace("id: n", "id: m"))
  await dev.process.wrote(/held@2 is stored\. 1 running job stays on version 1\./)

  dev.write("flow.yaml", workflow("flow", "anwser"))
  await dev.process.wrote(/handler: anwser[\s\S]*\^+[\s\S]*✗ flow\.yaml: 1 problem/)
  expect((await ask(dev.url, "/health", {})).status).toBe(200)
  dev.write("flow.yaml", workflow("flow", "answer", "  - { id: two, handler: answer }\n"))
  await dev.process.wrote(/flow@2 is stored\./)
  dev.release()
  expect(await dev.job(held, "?wait=30")).toMatchObject({ status: "COMPLETED", workflow_version: 1 })
  dev.process.kill("SIGTERM")
  expect((await dev.process.ended).code).toBe(0)
})

it("replaces the process of the handlers on change; attempts in flight are handed over and spend no try", async () => {
  const dev = await startDev({
    "handlers.mjs": handlers("old"),
    "answer.mjs": "export const answer = 1",
    "flow.yaml": workflow("flow", "answer"),
    "held.yaml": workflow("held", "holds"),
  })
  await dev.process.wrote(/held@1 is stored/)
  const held = await dev.submit("held")
  await expect.poll(() => dev.runs().length).toBe(1)
  // Recorded after a second: then the run counts as begun.
  await expect
    .poll(async () => JSON.stringify((await ask(dev.url, `/jobs/${held}/facts`, {})).body))
    .toContain("node_started")

  // A module that cannot be loaded changes nothing.
  dev.write("handlers.mjs", "this is no JavaScript")
  await dev.process.wrote(/✗[\s\S]*stay in use/)
  expect(await dev.job(await dev.submit("flow"), "?wait=30")).toMatchObject({
    output: { n: { said: "old" } },
  })
  expect(dev.runs()).toHaveLength(1)

  dev.write("handlers.mjs", handlers("new"))
  await dev.process.wrote(/Reloaded 3 handlers/)
  await dev.process.wrote(
    /1 attempt in flight: handed over to the new code; this does not count as an attempt\./,
  )
  await expect.poll(() => dev.runs().length).toBe(2)
  expect(await dev.job(await dev.submit("flow"), "?wait=30")).toMatchObject({
    output: { n: { said: "new" } },
  })
  dev.release()
  expect(await dev.job(held, "?wait=30")).toMatchObject({
    status: "COMPLETED",
    output: { n: { code: "new", attempt: 1 } },
  })
  const [first, second, end] = dev.runs()
  expect([first!.attempt, second!.attempt]).toEqual([1, 1])
  expect(second!.fence).toBeGreaterThan(first!.fence)
  expect(second!.pid).not.toBe(first!.pid)
  expect(end).toMatchObject({ what: "ended", pid: second!.pid })
  const { body: node } = await ask(dev.url, `/jobs/${held}/nodes/n`, {})
  expect(node.attempts.map(({ outcome }: { outcome: string }) => outcome)).toEqual([
    "handed_over",
    "completed",
  ])

  // A file that a module imports counts too.
  dev.write("answer.mjs", "export const answer = 2")
  await expect
    .poll(
      async () =>
        ((await dev.job(await dev.submit("flow"), "?wait=30")).output as { n: { imported: number } }).n
          .imported,
    )
    .toBe(2)
})

it("a handler that ends its process fails its attempt; the process is started again", async () => {
  const dev = await startDev({
    "handlers.mjs": handlers("one"),
    "answer.mjs": "export const answer = 1",
    "flow.yaml": workflow("flow", "exits"),
  })
  await dev.process.wrote(/flow@1 is stored/)
  const id = await dev.submit("flow")
  await dev.process.wrote(/The handler process ended: it exited with code 7/)
  expect(await dev.job(id, "?wait=60")).toMatchObject({ status: "COMPLETED", output: { n: 2 } })
  const { body: node } = await ask(dev.url, `/jobs/${id}/nodes/n`, {})
  expect(node.attempts[0]).toMatchObject({ outcome: "failed", error: { code: "E415" } })
})
