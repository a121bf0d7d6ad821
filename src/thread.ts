import { createRequire } from "node:module"
import { Worker, type WorkerOptions } from "node:worker_threads"

/**
 * Starts one of our own modules in a thread. `entry` is its address without the ending: built, it is plain JavaScript;
 * from source it is TypeScript, and on Node 20 no flag brings a loader to a thread's entry file, so a line of
 * JavaScript loads it.
 */
export function startThread(entry: URL, options: WorkerOptions = {}): Worker {
  if (!import.meta.url.endsWith(".ts")) return new Worker(new URL(`${entry.href}.js`), options)
  const jiti = JSON.stringify(createRequire(import.meta.url).resolve("jiti"))
  const source = JSON.stringify(`${entry.href}.ts`)
  return new Worker(`require(${jiti}).createJiti(${source}).import(${source})`, {
    ...options,
    eval: true,
    execArgv: [],
  })
}
