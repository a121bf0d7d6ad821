/**
 * Stands for src/thread.ts in `npm test` (see vitest.config.ts): a thread runs the module that was built from the same sources.
 * From source each thread would load a compiler first, which takes longer than what most tests do with it.
 */
import { Worker, type WorkerOptions } from "node:worker_threads"

export function startThread(module: string, options: WorkerOptions = {}): Worker {
  return new Worker(new URL(`../../dist/${module}.js`, import.meta.url), options)
}
