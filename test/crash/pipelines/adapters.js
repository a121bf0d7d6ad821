/**
 * The adapters of the pipelines under test, on the built package. What each does follows from the body alone, so that
 * workload.ts foretells it. Each writes down what it begins, the messages of one call together:
 * `write(["JOB MESSAGE ADAPTER ATTEMPT"])` returns true for a call that must not return.
 */
import { z } from "zod"
import { defineAdapter } from "../../../dist/index.js"

const pause = ms => new Promise(resolve => setTimeout(resolve, ms))

export function loggedAdapters(write) {
  const logged = (type, process, gather) =>
    defineAdapter({
      type,
      config: z.record(z.string(), z.unknown()).optional().default({}),
      process(message, context) {
        const messages = context.gathered.length === 0 ? [message.id] : context.gathered
        const isHeld = write(messages.map(id => `${context.jobId} ${id} ${type} ${context.attempt}`))
        for (const { job } of [message.body].flat())
          if (job !== context.input.index)
            write([`${context.jobId} ${message.id} stranger-of-${job} ${context.attempt}`])
        return isHeld ? new Promise(() => {}) : process(message.body, context)
      },
      ...(gather === undefined ? {} : { gather }),
    })
  return [
    /** A source that reads on in steps. */
    logged("numbers", ({ from, job, step, to }, context) => {
      for (let n = from; n < Math.min(to, from + step); n++) context.emit({ job, n })
      if (from + step < to) context.continueWith({ from: from + step, job, step, to })
    }),
    logged("slow", async (body, { config }) => {
      if (body.n % 3 === 0) await pause((body.n % 5) * config.ms)
      return body
    }),
    logged("flaky", async ({ job, n }, { attempt }) => {
      if (n % 4 === 0) await pause(1)
      if (n % 13 === 0) throw new Error("never")
      if (attempt <= (n % 5 === 0 ? 1 : n % 11 === 0 ? 2 : 0)) throw new Error("not yet")
      return { job, n }
    }),
    logged("fan", ({ job, n }, context) => {
      if (n % 2 === 0) for (const copy of [1, 2]) context.emit({ job, n, copy }, { kind: "copy" })
      if (n % 10 === 3) context.emit({ job, n, turns: n % 7 }, { kind: "round" })
      return { job, n }
    }),
    logged("turn", ({ job, n, turns }) => (turns === 0 ? undefined : { job, n, turns: turns - 1 })),
    /** Fails with the claim in hand, at times: others may have it then. */
    logged("once", async ({ job, n }, { attempt, config, storage }) => {
      const isFirst = await storage.claim(`key/${n % config.keys}`)
      if (n % 3 === 0) await pause(1)
      if (n % 6 === 0 && attempt === 1) throw new Error("not the first time")
      return isFirst ? { job, key: n % config.keys } : undefined
    }),
    logged(
      "group",
      async bodies => {
        await pause(1)
        return { job: bodies[0].job, of: bodies.map(({ n, copy }) => `${n}/${copy}`) }
      },
      ({ count, seconds }) => ({ count, seconds }),
    ),
    logged("sink", () => undefined),
    /** Ends its process, for some. */
    logged("deadly", async (body, { config }) => {
      await pause(config.ms)
      if (config.at.includes(body.n)) process.kill(process.pid, "SIGKILL")
      return body
    }),
  ]
}
