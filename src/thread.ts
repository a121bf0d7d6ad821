import { Worker, type WorkerOptions } from "node:worker_threads"

/**
 * Starts one of our own modules in a thread. `entry` is its address without the extension: built, it is plain
 * JavaScript; from source it is TypeScript, and on Node 20 no flag loads a loader for a thread's entry file,
 * so a line of JavaScript registers the loader and imports it.
 */
export function startThread(entry: URL, options: WorkerOptions = {}): Worker {
  if (!import.meta.url.endsWith(".ts")) return new Worker(new URL(`${entry.href}.js`), options)
  const loader = JSON.stringify(import.meta.resolve("tsx/esm/api"))
  const source = JSON.stringify(`${entry.href}.ts`)
  const start = `import(${loader}).then(tsx => { tsx.register(); return import(${source}) })`
  return new Worker(start, { ...options, eval: true, execArgv: [] })
}
