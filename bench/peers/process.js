/**
 * One peer with one workload, in a separate process: `node process.js TASK`, where TASK is JSON. Reports over the IPC
 * channel: `ready` with versions and configuration, one `repetition` after another, `failed` with a message.
 *
 * A peer is a module with `open({ postgresUrl, redisUrl, folder, width })`, which resolves to
 *   configuration  what it was set to, for people
 *   run(shape, x)  runs one job and resolves with its result
 *   runAll(xs)     submits one-node jobs by the fastest documented way; `accepted` resolves when all are stored,
 *                  `results` with their results
 *   recorded()     { steps } recorded as completed in the store since the start, or { left } where the store keeps
 *                  no completed steps: what is still queued there
 *   close()
 */
import { createRequire } from "node:module"
import { setTimeout as delay } from "node:timers/promises"
import { callsSoFar, expected, stepsOf } from "./steps.js"

const task = JSON.parse(process.argv[2])
const { peer: name, shape, inFlight, seconds, warmUpSeconds, repetitions, jobs, width } = task
const RECORDED_MS = 20_000

let submitted = 0
let steps = 0

const send = message => new Promise(resolve => process.send(message, resolve))

for (const event of ["uncaughtException", "unhandledRejection"]) process.on(event, fail)

try {
  const { open, packages } = await import(`./${task.module}.js`)
  const peer = await open(task)
  await send({ type: "ready", versions: versionsOf(packages), configuration: peer.configuration })
  await repeat(peer, { seconds: warmUpSeconds, jobs: Math.ceil(jobs / 10) })
  for (let i = 0; i < repetitions; i++) {
    const measured = await repeat(peer, { seconds, jobs })
    await send({ type: "repetition", ...measured })
  }
  await peer.close()
  process.exit(0)
} catch (error) {
  await fail(error)
}

async function fail(error) {
  await send({ type: "failed", message: messageOf(error) })
  process.exit(1)
}

/** Measures once, and verifies: results, calls of step functions, steps in the store. */
async function repeat(peer, size) {
  globalThis.gc?.()
  const measured = inFlight === null ? await bulk(peer, size.jobs) : await closedLoop(peer, size.seconds)
  steps += measured.jobs * stepsOf(shape, width)
  if (callsSoFar() !== steps) throw new Error(`${callsSoFar()} calls of step functions for ${steps} steps`)
  await verifyRecorded(peer)
  return measured
}

/** `inFlight` jobs at a time, for about `seconds`; at least one job. */
async function closedLoop(peer, forSeconds) {
  const times = []
  const begin = performance.now()
  const end = begin + forSeconds * 1000
  const lane = async () => {
    do {
      const x = submitted++
      const at = performance.now()
      check(await peer.run(shape, x), x)
      times.push(performance.now() - at)
    } while (performance.now() < end)
  }
  await Promise.all(Array.from({ length: inFlight }, lane))
  const took = (performance.now() - begin) / 1000
  times.sort((a, b) => a - b)
  return {
    jobs: times.length,
    stepsPerSecond: (times.length * stepsOf(shape, width)) / took,
    p50: times[Math.floor(times.length * 0.5)],
    p99: times[Math.floor(times.length * 0.99)],
  }
}

async function bulk(peer, count) {
  const xs = Array.from({ length: count }, () => submitted++)
  const begin = performance.now()
  const { accepted, results } = peer.runAll(xs)
  await accepted
  const acceptedAfter = (performance.now() - begin) / 1000
  const values = await results
  const took = (performance.now() - begin) / 1000
  if (values.length !== count) throw new Error(`${values.length} results of ${count} jobs`)
  for (const [i, x] of xs.entries()) check(values[i], x)
  return { jobs: count, stepsPerSecond: count / took, acceptedPerSecond: count / acceptedAfter }
}

function check(value, x) {
  if (Number(value) === expected(shape, x, width)) return
  throw new Error(`a job ended with ${value} instead of ${expected(shape, x, width)}`)
}

/** A store may record the last completions a moment after their functions ended; it may never record more. */
async function verifyRecorded(peer) {
  const until = performance.now() + RECORDED_MS
  for (;;) {
    const recorded = await peer.recorded()
    if (recorded.left === 0 || recorded.steps === steps) return
    if (recorded.steps > steps || performance.now() > until)
      throw new Error(`${JSON.stringify(recorded)} in the store, for ${steps} steps`)
    await delay(100)
  }
}

function versionsOf(packages) {
  const require = createRequire(import.meta.url)
  return Object.fromEntries(packages.map(path => [path, readVersion(require, path)]))
}

/** Packages that do not export their package.json are found beside their entry. */
function readVersion(require, path) {
  if (path.startsWith(".")) return require(`${path}/package.json`).version
  for (const folder of require.resolve.paths(path))
    try {
      return require(`${folder}/${path}/package.json`).version
    } catch {}
  throw new Error(`${path} is not installed`)
}

function messageOf(error) {
  const cause = error?.cause === undefined ? "" : `: ${messageOf(error.cause)}`
  return `${error instanceof Error ? error.message : String(error)}${cause}` || `${name} failed`
}
