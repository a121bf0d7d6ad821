/**
 * The handlers of the workload, on the built package. Each writes down when it begins and when it has done its work:
 * `write("start" | "end", "JOB NODE ATTEMPT")`, with an item as `NODE[ITEM]`.
 *
 * With `keep` they log lines and store artifacts too, and write down both: `keep("line", "JOB NODE ATTEMPT NUMBER")` before a line is
 * logged, with the name of its file as a field, `keep("put", "JOB NODE ATTEMPT HASH")` after content is stored. Every third step returns a reference to content, stores
 * content that nothing refers to, and whoever depends on it reads what was returned.
 */
import { closeSync, mkdirSync, openSync, writeSync } from "node:fs"
import { join } from "node:path"
import { defineHandler } from "../../dist/index.js"

/** Each process writes to a file of its own, `kept-PID-START.log` in the folder: "line|put WORDS TIME". */
export function keptIn(folder) {
  mkdirSync(folder, { recursive: true })
  const name = `kept-${process.pid}-${Date.now()}.log`
  const file = openSync(join(folder, name), "a")
  process.once("exit", () => closeSync(file))
  return Object.assign((what, words) => writeSync(file, `${what} ${words} ${Date.now()}\n`), { file: name })
}

export function loggedHandlers(write, keep = null) {
  const logged = (name, work) =>
    defineHandler({
      name,
      run(config, ctx) {
        const [, , item] = ctx.idempotencyKey.split("/")
        const which = item === undefined ? ctx.nodeId : `${ctx.nodeId}[${item}]`
        const words = `${ctx.jobId} ${which} ${ctx.fence}`
        let lines = 0
        const say = () => {
          if (keep === null) return
          keep("line", `${words} ${++lines}`)
          ctx.log.info({ file: keep.file }, `${words} ${lines}`)
        }
        write("start", words)
        say()
        say()
        return work(config, ctx, output => {
          say()
          const stored = storesFile(config, ctx, keep)
            ? withFile(output, ctx, what => keep("put", `${words} ${what}`))
            : output
          if (!(stored instanceof Promise)) {
            write("end", words)
            return stored
          }
          return stored.then(whole => {
            say()
            write("end", words)
            return whole
          })
        })
      },
    })
  const after = (ms, end) => (ms === 0 ? end() : new Promise(resolve => setTimeout(resolve, ms)).then(end))
  const number = ({ number }) => number
  return [
    logged("step", (config, ctx, end) => {
      const files = Object.values(ctx.parents).flatMap(output => output?.file ?? [])
      if (files.length === 0) return after(config.ms, () => end(sum(config, ctx)))
      return readFiles(files, ctx).then(() => after(config.ms, () => end(sum(config, ctx))))
    }),
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

function storesFile({ number }, { nodeId }, keep) {
  return keep !== null && number % 3 === 0 && nodeId !== "total"
}

const contentOf = (jobId, nodeId) => `content of ${jobId}/${nodeId}`

async function withFile(output, { artifacts, jobId, nodeId, fence }, put) {
  if (typeof output !== "object") return output
  const unused = await artifacts.put("unused", `content of ${jobId}/${nodeId}/${fence}`)
  put(unused.artifact)
  const file = await artifacts.put(nodeId, contentOf(jobId, nodeId))
  put(file.artifact)
  return { ...output, file }
}

async function readFiles(files, { artifacts, jobId }) {
  for (const file of files) {
    const text = await (await artifacts.get(file)).text()
    if (text !== contentOf(jobId, file.name))
      throw Object.assign(new Error(`the content of ${file.name} is "${text}"`), { retryable: false })
  }
}

function mustNotBeFirst({ attempt }) {
  if (attempt === 1) throw Object.assign(new Error("not the first time"), { retryable: true })
}
