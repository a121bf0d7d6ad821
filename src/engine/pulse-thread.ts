import { parentPort, workerData } from "node:worker_threads"
import { openJournal } from "../journal/open.ts"
import type { PulseThreadData } from "./pulse.ts"

const { location, engine, place, beatMs, leaseMs, progress } = workerData as PulseThreadData
const counter = new Int32Array(progress)
const journal = await openJournal(location, { poolSize: 1 })

let beat = 0
let seen = -1
let seenAt = performance.now()

async function send(): Promise<void> {
  const count = Atomics.load(counter, 0)
  if (count !== seen) {
    seen = count
    seenAt = performance.now()
  }
  if (performance.now() - seenAt > leaseMs) return
  try {
    beat++
    parentPort!.postMessage({ pulse: await journal.beat({ engine, place, beat }) })
  } catch (error) {
    parentPort!.postMessage({ error: error instanceof Error ? error.message : String(error) })
  }
}

for (;;) {
  await send()
  await new Promise(resolve => setTimeout(resolve, beatMs))
}
