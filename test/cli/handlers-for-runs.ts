/** A module of handlers for tests that run the command line program: what users do, and what they do wrong. */
export const handlersModule = `
import { writeFileSync, appendFileSync } from "node:fs"
const ran = (config, ctx) => config.log && appendFileSync(config.log, ctx.nodeId + " " + ctx.fence + "\\n")
const sleep = (ms, signal) => new Promise((resolve, reject) => {
  const timer = setTimeout(resolve, ms)
  signal.addEventListener("abort", () => { clearTimeout(timer); reject(signal.reason) })
})
export default [
  { name: "echo", run: (config, ctx) => { ran(config, ctx); return config } },
  { name: "long", run: async (config, ctx) => { ran(config, ctx); await sleep(60_000, ctx.signal); return 1 } },
  { name: "long_once", run: async (config, ctx) => { ran(config, ctx); if (ctx.fence === 1) await sleep(60_000, ctx.signal); return 1 } },
  { name: "hasty", run: (config, ctx) => { process.kill(process.pid, config.signal); return sleep(60_000, ctx.signal) } },
  { name: "deaf", run: () => new Promise(() => setInterval(() => {}, 1000)) },
  { name: "throws_text", run: () => { throw "no luck" } },
  { name: "not_json", run: () => ({ size: 10n }) },
  { name: "huge", run: () => "x".repeat(50 * 1024 * 1024) },
  { name: "fails_once", run: (config, ctx) => { ran(config, ctx); if (ctx.attempt === 1) throw Object.assign(new Error("first"), { retryable: false }); return "second" } },
]
`

/** One node that runs `handler`, without retries. */
export function oneNode(handler: string, config: Readonly<Record<string, unknown>> = {}): string {
  return JSON.stringify({
    name: handler,
    nodes: [{ id: "only", handler, config, retry: { max_attempts: 1 } }],
  })
}
