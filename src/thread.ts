import { type ChildProcess, type ForkOptions, fork } from "node:child_process"
import { fileURLToPath } from "node:url"
import { Worker, type WorkerOptions } from "node:worker_threads"

/** Our modules that run in threads or processes of their own, by path from this folder and without the extension. */
export const threadModules = [
  "definition/input/thread",
  "engine/partitions/heartbeat-thread",
  "journal/sqlite/thread/thread",
  "worker/child/entry",
  "worker/thread/entry",
] as const

/**
 * Starts one of our own modules in a thread. Built, it is plain JavaScript; from source it is TypeScript, and on Node 20
 * no flag loads a loader for a thread's entry file, so a line of JavaScript registers the loader and imports it.
 */
export function startThread(module: (typeof threadModules)[number], options: WorkerOptions = {}): Worker {
  const entry = new URL(module, import.meta.url).href
  if (!import.meta.url.endsWith(".ts")) return new Worker(new URL(`${entry}.js`), options)
  const loader = JSON.stringify(import.meta.resolve("tsx/esm/api"))
  const source = JSON.stringify(`${entry}.ts`)
  const start = `import(${loader}).then(tsx => { tsx.register(); return import(${source}) })`
  return new Worker(start, { ...options, eval: true, execArgv: [] })
}

/** Starts one of our own modules in a process, which ends with this one. */
export function startProcess(
  module: (typeof threadModules)[number],
  options: ForkOptions = {},
): ChildProcess {
  const entry = fileURLToPath(new URL(module, import.meta.url))
  if (!import.meta.url.endsWith(".ts")) return fork(`${entry}.js`, [], { ...options, execArgv: [] })
  return fork(`${entry}.ts`, [], { ...options, execArgv: ["--import", import.meta.resolve("tsx")] })
}
