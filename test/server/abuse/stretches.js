/**
 * Loaded into a server (`--import`): writes down how much processor time its event loop's thread used between two looks, a
 * millisecond apart. Nothing else runs in between while one piece of code holds the loop, so a long one is seen whole.
 * Processor time, not wall time: what other processes take does not count. Collections of garbage are written down, too: they
 * are not a stretch of our code. V8 tells only their wall time (`tooLong` in probed.ts). UMBRA_TEST_STRETCHES is the file.
 */
import { appendFileSync, openSync, readSync } from "node:fs"
import { PerformanceObserver } from "node:perf_hooks"
import { isMainThread } from "node:worker_threads"

const file = process.env.UMBRA_TEST_STRETCHES

/** Milliseconds of this thread. Node has it from 23.9 on, Linux always; elsewhere all threads are counted. */
function clock() {
  if (typeof process.threadCpuUsage === "function") {
    return () => {
      const { user, system } = process.threadCpuUsage()
      return (user + system) / 1000
    }
  }
  try {
    const opened = openSync(`/proc/self/task/${process.pid}/schedstat`, "r")
    const bytes = Buffer.alloc(64)
    return () => Number.parseInt(bytes.toString("latin1", 0, readSync(opened, bytes, 0, 64, 0)), 10) / 1e6
  } catch {
    return () => {
      const { user, system } = process.cpuUsage()
      return (user + system) / 1000
    }
  }
}

const text = JSON.stringify(Array.from({ length: 20_000 }, (_, i) => ({ id: `n${i}`, list: [i, i + 1] })))

/** The same work as everywhere: how fast is this machine, right now? */
function calibrate(now, runs) {
  let best = Number.POSITIVE_INFINITY
  for (let run = 0; run < runs; run++) {
    const begun = now()
    JSON.parse(text)
    best = Math.min(best, now() - begun)
  }
  return best
}

/** No shorter stretch is judged (MOST_MS in probed.ts). Calibrations after all above 20 ms took a sixth of the server's time. */
const LONG_MS = 50

if (file !== undefined && isMainThread) {
  const now = clock()
  // Loads and compiles what the next calibrations use.
  calibrate(now, 8)
  const { pid } = process
  let last = now()
  let from = performance.now()
  setInterval(() => {
    const used = now() - last
    const to = performance.now()
    if (used > LONG_MS) {
      const line = { pid, used, calibration: calibrate(now, 3), from, to }
      appendFileSync(file, `${JSON.stringify(line)}\n`)
    }
    last = now()
    from = performance.now()
  }, 1).unref()
  const collections = new PerformanceObserver(list => {
    for (const { startTime: from, duration: collected } of list.getEntries())
      if (collected > 2) appendFileSync(file, `${JSON.stringify({ pid, collected, from })}\n`)
  })
  collections.observe({ entryTypes: ["gc"] })
}
