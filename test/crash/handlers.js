/**
 * The handlers of the workload, on the built package. Each writes down when it begins and when it has done its work:
 * `write("start" | "end", "JOB NODE ATTEMPT")`, with an item as `NODE[ITEM]`.
 */
import { defineHandler } from "../../dist/index.js"

export function loggedHandlers(write) {
  const logged = (name, work) =>
    defineHandler({
      name,
      run(config, ctx) {
        const [, , item] = ctx.idempotencyKey.split("/")
        const which = item === undefined ? ctx.nodeId : `${ctx.nodeId}[${item}]`
        const words = `${ctx.jobId} ${which} ${ctx.fence}`
        write("start", words)
        return work(config, ctx, output => {
          write("end", words)
          return output
        })
      },
    })
  const after = (ms, end) => (ms === 0 ? end() : new Promise(resolve => setTimeout(resolve, ms)).then(end))
  const number = ({ number }) => number
  return [
    logged("step", (config, ctx, end) => after(config.ms, () => end(sum(config, ctx)))),
    logged("flaky", (config, ctx, end) => {
      mustNotBeFirst(ctx)
      return end(sum(config, ctx))
    }),
    logged("item", (config, _ctx, end) => after(config.ms, () => end(number(config)))),
    logged("flaky_item", (config, ctx, end) => {
      mustNotBeFirst(ctx)
      return end(number(config))
    }),
    logged("poison", config => after(config.ms, () => process.kill(process.pid, "SIGKILL"))),
    logged("doomed", () => {
      throw Object.assign(new Error("never"), { status: 400 })
    }),
  ]
}

function sum({ number, pad }, { parents }) {
  const values = Object.values(parents).map(output => output.value ?? 0)
  const value = values.reduce((total, next) => total + next, number) % 1_000_003
  return pad === undefined ? { value } : { value, pad }
}

function mustNotBeFirst({ attempt }) {
  if (attempt === 1) throw Object.assign(new Error("not the first time"), { retryable: true })
}
