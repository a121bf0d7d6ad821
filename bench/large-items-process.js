/**
 * 10,000 items of `for_each` with 10 KB each, in a separate process (see items.ts). Prints seconds, peak
 * memory and the longest time for which the event loop was blocked.
 *
 * `given`: the items are the job's input. `made`: each item produces 10 KB, and the list is the job's output.
 * `between`: a second list iterates over the output of the first.
 */
import { monitorEventLoopDelay } from "node:perf_hooks"
import { defineHandler, openUmbra } from "umbra"

const ITEMS = 10_000
const BYTES = 10_000

const text = "0123456789".repeat(BYTES / 10)
const make = defineHandler({ name: "make", run: ({ n }) => ({ n, text: `${n}${text}` }) })
const measure = defineHandler({ name: "measure", run: ({ text }) => text.length })

const made = { id: "made", handler: "make", config: { n: "{{ item }}" }, for_each: `{{ range(${ITEMS}) }}` }
const measured = list => ({
  id: "measured",
  handler: "measure",
  config: { text: "{{ item.text }}" },
  for_each: list,
})

const cases = {
  given: () => ({
    nodes: [measured("{{ input.items }}")],
    input: { items: Array.from({ length: ITEMS }, (_, n) => ({ n, text: `${n}${text}` })) },
  }),
  made: () => ({ nodes: [made], input: {} }),
  between: () => ({ nodes: [made, measured("{{ made }}")], input: {} }),
}

const [location, name] = process.argv.slice(2)
const { nodes, input } = cases[name]()
const umbra = await openUmbra(location, { handlers: [make, measure] })
await (await umbra.submit({ name: "warm-up", nodes: [{ ...made, for_each: "{{ range(10) }}" }] }, {})).wait()

const before = process.memoryUsage().rss
const delay = monitorEventLoopDelay({ resolution: 5 })
delay.enable()
await new Promise(resolve => setTimeout(resolve, 100))
const begun = performance.now()
const job = await umbra.submit({ name, nodes }, input)
const { status, error } = await job.wait({ timeoutMs: 300_000 })
const seconds = (performance.now() - begun) / 1000
await new Promise(resolve => setTimeout(resolve, 100))
delay.disable()
if (status !== "COMPLETED") throw new Error(`the job is ${status}: ${error?.message}`)
const megabytes = bytes => Math.round(bytes / 2 ** 20)
console.log(
  JSON.stringify({
    seconds,
    stallMs: Math.round(delay.max / 1e6),
    megabytes: megabytes(process.resourceUsage().maxRSS * 1024),
    before: megabytes(before),
  }),
)
await umbra.close()
