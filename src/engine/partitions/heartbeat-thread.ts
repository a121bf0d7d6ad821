import { parentPort, workerData } from "node:worker_threads"
import { openJournal } from "../../journal/open.ts"
import type { Journal } from "../../journal/port/journal.ts"
import {
  FOLLOWS,
  type HeartbeatCommand,
  type HeartbeatMessage,
  type HeartbeatThreadData,
  monotonicMs,
  nextBeat,
} from "./heartbeat.ts"

const { location, engine, beatMs, leaseMs, shared, place: atFirst } = workerData as HeartbeatThreadData
let place = atFirst
let isHurried = false
let wake = () => {}
parentPort!.on("message", (command: HeartbeatCommand) => {
  place = command.place ?? place
  if (command.beatNow === true) {
    isHurried = true
    wake()
  }
})
const counter = new Int32Array(shared)
let journal: Journal | null = null

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
    // Opened here and not at the start: a database that is unavailable when the engine starts must not end the heartbeat for good.
    journal ??= await openJournal(location, { poolSize: 1 })
    beat = nextBeat(beat, Date.now())
    const follows = Atomics.load(counter, FOLLOWS) === 1
    const sentAt = monotonicMs()
    const heartbeat = await journal.beat({ engine, place, beat, follows })
    parentPort!.postMessage({ heartbeat, sentAt } satisfies HeartbeatMessage)
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    parentPort!.postMessage({ error: message } satisfies HeartbeatMessage)
  }
}

for (;;) {
  isHurried = false
  await send()
  if (!isHurried)
    await new Promise<void>(resolve => {
      const timer = setTimeout(resolve, beatMs)
      wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
}
