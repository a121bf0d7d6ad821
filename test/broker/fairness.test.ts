import { expect, it } from "vitest"
import { defineHandler } from "../../src/worker/handler.ts"
import { flow, open } from "../engine/stage.ts"
import { FleetStage } from "./stage.ts"

let begun = 0
const nap = defineHandler({
  name: "nap",
  run() {
    begun++
    return new Promise(resolve => setTimeout(() => resolve(null), 10))
  },
})
const wide = { id: "w", handler: "nap" }
const backlog = flow(Array.from({ length: 10_000 }, (_, n) => ({ ...wide, id: `w${n}` })))
const slots = { worker: { concurrency: 100 } }

for (const place of ["this process", "another process"])
  it(`S5 one job is done before a tenth of 100,000 nodes of another owner with a higher priority, with workers in ${place}`, async () => {
    // All of it is one process here, and a plan of 10,000 nodes keeps it busy: nobody is dead for that.
    const stage = new FleetStage(undefined, {})
    const isHere = place === "this process"
    const umbra = isHere ? await open({ handlers: [nap], ...slots }) : await stage.engine()
    if (!isHere) {
      stage.worker({ handlers: [nap], ...slots })
      await stage.served(umbra, "nap")
    }
    await umbra.register(backlog, "many")
    for (let n = 0; n < 10; n++)
      await umbra.submit("flow", null, { owner: "many", priority: n % 2 ? 1000 : 0 })
    const before = begun
    const job = await umbra.submit(flow([wide]), null, { owner: "few" })
    expect(await job.wait({ timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED" })
    // So many take a second of an idle machine.
    expect(begun - before).toBeLessThan(10_000)
  })
