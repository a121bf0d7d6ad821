/**
 * A process of its own: runs a job whose last node fails, prints its id, then forks it again and again, with a changed
 * definition, and prints the ids of accepted forks, until it kills itself at the given failpoint.
 */
import { armFailpoint, type Failpoint } from "../../src/failpoints.ts"
import { openUmbra } from "../../src/umbra.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { forkedFlow } from "./fork-flow.ts"

const [location = "", failpoint = "", count = "1"] = process.argv.slice(2)
const work = defineHandler({
  name: "work",
  effects: false,
  run: config => (config as { value: unknown }).value,
})
const last = defineHandler({
  name: "last",
  effects: false,
  run: (config, { input }) => {
    if (input === "first") throw Object.assign(new Error("fails"), { retryable: false })
    return config
  },
})
const umbra = await openUmbra(location, { handlers: [work, last], worker: { concurrency: 2 } })
const origin = await umbra.submit(forkedFlow, "first")
await origin.wait()
process.stdout.write(`origin ${origin.id}\n`, () => {
  armFailpoint(failpoint as Failpoint, Number(count), () => process.kill(process.pid, "SIGKILL"))
})
for (let n = 0; ; n++) {
  const config = { n, of: "{{ each | join('-') }}" }
  const fork = await umbra.fork(origin.id, {
    overrides: { last: { config } },
    input: "again",
    reuse: ["each", "list"],
  })
  console.log(`fork ${fork.id} ${n}`)
}
