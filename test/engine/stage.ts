/** Engines for tests: opened on what the test says and closed when it is over. */
import { onTestFinished } from "vitest"
import type { WorkflowDefinition } from "../../src/definition/index.ts"
import type { Journal } from "../../src/journal/port/journal.ts"
import { type MemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { logTo } from "../../src/log.ts"
import { openUmbra, type Umbra, type UmbraOptions } from "../../src/umbra.ts"
import { defineHandler, type Handler, type HandlerContext } from "../../src/worker/handler.ts"

export async function open(options: UmbraOptions & { at?: string | Journal } = {}): Promise<Umbra> {
  const { at = "memory:", ...rest } = options
  const umbra = await openUmbra(at, rest)
  onTestFinished(() => umbra.close())
  return umbra
}

/**
 * An engine of its own on a store that others share, as processes share a database. Beats every 20 ms. Its lease of 2 s
 * does not run out on a busy machine; a test in which an engine dies gives it, and those who see it die, a shorter one.
 */
export function openOn(store: MemoryStore, options: UmbraOptions = {}): Promise<Umbra> {
  const engine = { beatSeconds: 0.02, leaseSeconds: 2, ...options.engine }
  return open({ ...options, engine, at: openMemory(store) })
}

type Run = (config: never, ctx: HandlerContext) => unknown

export function handler(name: string, run: Run): Handler {
  return defineHandler({ name, run: run as (config: unknown, ctx: HandlerContext) => unknown })
}

/** A handler that returns when the test says so. */
export function gate(name = "gate") {
  const entered: HandlerContext[] = []
  const waiters: (() => void)[] = []
  let leave: (output?: unknown) => void = () => {}
  const left = new Promise(resolve => {
    leave = resolve
  })
  return {
    entered,
    left,
    open: (output: unknown = "through") => leave(output),
    /** Resolves when `count` attempts have come. */
    async came(count = 1): Promise<HandlerContext> {
      while (entered.length < count) await new Promise<void>(resolve => waiters.push(resolve))
      return entered[count - 1]!
    },
    handler: handler(name, (_config, ctx) => {
      entered.push(ctx)
      for (const wake of waiters.splice(0)) wake()
      return left
    }),
  }
}

/** Fails at once, for good. */
export const broken = handler("broken", () => {
  throw Object.assign(new Error("it is broken"), { retryable: false })
})

export function flow(nodes: WorkflowDefinition["nodes"], rest: Partial<WorkflowDefinition> = {}) {
  return { name: "flow", nodes, ...rest } satisfies WorkflowDefinition
}

/** Quick retries, for tests that use the real clock. */
export const soon = { max_attempts: 3, initial_seconds: 0.01, max_seconds: 0.02, jitter: 0 }

export function collectLog() {
  const lines: { level: string; message: string; fields: Record<string, unknown> }[] = []
  const log = logTo((level, fields, message) => lines.push({ level, fields, message: message ?? "" }))
  return { log, lines, hasLogged: (text: string) => lines.some(line => line.message.includes(text)) }
}

/** Node states of a job by node id. */
export async function states(umbra: Umbra, jobId: string): Promise<Record<string, string>> {
  const { nodes } = await umbra.graph(jobId)
  return Object.fromEntries(nodes.map(node => [node.id, node.status]))
}

/**
 * Looks until it is so: for what happens in another process, where nothing can be awaited. The time is for a machine
 * that has much else to do; a test that proves how long something takes measures it.
 */
export async function until(what: string, isSo: () => unknown, timeoutMs = 180_000): Promise<void> {
  const deadline = performance.now() + timeoutMs
  // Often at first, then every 25 ms: to look costs as much as what is waited for.
  for (let pause = 5; !(await isSo()); pause = Math.min(pause + 2, 25)) {
    if (performance.now() > deadline) throw new Error(`not within ${timeoutMs} ms: ${what}`)
    await new Promise(resolve => setTimeout(resolve, pause))
  }
}
