// Events and progress while a job runs. Every event is durable before it is shown, and has a key of its own.
// Run it: node examples/watch.js
import { setTimeout as sleep } from "node:timers/promises"
import { defineHandler, openUmbra, withLive } from "umbra"

const count = defineHandler({
  name: "count",
  async run({ to }, ctx) {
    for (let n = 1; n <= to; n++) {
      await sleep(20, undefined, { signal: ctx.signal })
      ctx.progress((100 * n) / to, `${n} of ${to}`)
    }
    ctx.usage({ steps: to })
    return to
  },
})

const counting = {
  name: "counting",
  nodes: [
    { id: "five", handler: "count", config: { to: 5 } },
    { id: "ten", handler: "count", config: { to: 10 } },
    { id: "total", handler: "transform", config: { value: "{{ five + ten }}" } },
  ],
}

const umbra = await openUmbra("memory:", { handlers: [count] })
const job = await umbra.submit(counting)

// Progress is not stored: it is asked for while it matters.
const ticker = setInterval(async () => {
  const { progress_pct, nodes } = withLive(await job.graph())
  const running = nodes.filter(node => node.progress).map(node => `${node.id} ${node.progress.message}`)
  console.log(`${progress_pct} %  ${running.join(", ")}`)
}, 50)

for await (const { type, node, payload } of job.watch())
  if (type === "node.completed" || type.startsWith("job."))
    console.log(type, node ?? "", JSON.stringify(payload))
clearInterval(ticker)
await umbra.close()
