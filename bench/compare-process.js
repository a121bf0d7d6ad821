/**
 * One build of Umbra in a process of its own, see compare.ts. `compare-process.js DIST library STORE` runs jobs with the
 * library, `compare-process.js DIST engine STORE REDIS PREFIX` with workers elsewhere, `compare-process.js DIST worker
 * REDIS PREFIX` is such a worker, `compare-process.js DIST serve ...` is `umbra serve`. `{ used }` in an answer is the
 * processor time of this process so far, in milliseconds.
 */
import { join, resolve } from "node:path"
import { pathToFileURL } from "node:url"
import { z } from "zod"

const [dist, role, ...rest] = process.argv.slice(2)
const load = path => import(pathToFileURL(join(resolve(dist), path)).href)
const used = () => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

if (role === "serve") {
  process.on("message", () => process.send({ used: used() }))
  process.channel.unref()
  process.argv = [process.argv[0], join(resolve(dist), "cli/main.js"), "serve", ...rest]
  await load("cli/main.js")
} else {
  const { openUmbra, openWorker, defineHandler, defineAdapter } = await load("index.js")
  const noop = defineHandler({ name: "noop", run: () => ({ ok: true, i: 1 }) })
  const opened = await {
    library: () =>
      openUmbra(rest[0], {
        ...{ handlers: [noop], adapters: makeAdapters(defineAdapter), worker: { concurrency: 1000 } },
      }),
    async engine() {
      const [store, redisUrl, prefix] = rest
      const umbra = await openUmbra(store, { roles: ["engine"], redisUrl, redis: { prefix } })
      while (umbra.workers().length === 0) await new Promise(resolve => setTimeout(resolve, 50))
      return umbra
    },
    worker() {
      const [redisUrl, prefix] = rest
      const redis = { prefix, prefetch: 500 }
      return openWorker(redisUrl, { handlers: [noop], queues: ["noop"], worker: { concurrency: 500 }, redis })
    },
  }[role]()
  process.on("message", async ({ workload }) => {
    if (workload === undefined) return process.send({ used: used() })
    const { definition, input, inFlight, seconds, bulk } = workload
    if (bulk !== undefined) {
      const results = await opened.submitMany(definition, Array(bulk).fill(input))
      const ended = await Promise.all(results.map(({ job }) => job.wait()))
      if (ended.some(({ status }) => status !== "COMPLETED")) throw new Error("a job of the bulk failed")
      return process.send({ jobs: bulk })
    }
    const until = performance.now() + seconds * 1000
    let jobs = 0
    const lane = async () => {
      do {
        const { status } = await (await opened.submit(definition, input)).wait()
        if (status !== "COMPLETED") throw new Error(`a job is ${status}`)
        jobs++
      } while (performance.now() < until)
    }
    await Promise.all(Array.from({ length: inFlight }, lane))
    process.send({ jobs })
  })
  process.once("disconnect", () => void opened.close())
  process.send({ ready: true })
}

/** The adapters of pipeline-load.ts, made by the build that is measured. */
function makeAdapters(defineAdapter) {
  const config = z.strictObject({}).optional()
  const source = ({ body: { count, from = 1 } }, { emit, continueWith }) => {
    const to = Math.min(count, from + 999)
    for (let n = from; n <= to; n++) emit({ n, text: "some words of a message" })
    if (to < count) continueWith({ count, from: to + 1 })
  }
  return [
    defineAdapter({ type: "bench_source", config, process: source }),
    defineAdapter({ type: "bench_step", config, process: ({ body }) => ({ ...body, isDone: true }) }),
    defineAdapter({ type: "bench_last", config, process: () => {} }),
  ]
}
