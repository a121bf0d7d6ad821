import { describe, expect, it } from "vitest"
import { apply } from "../../src/core/apply/apply.ts"
import type { Command } from "../../src/core/commands.ts"
import { decide } from "../../src/core/decide/decide.ts"
import type { Effect } from "../../src/core/effects.ts"
import { newJobState } from "../../src/core/state.ts"
import { takeDueRetries } from "../../src/core/timers.ts"
import { compileWorkflow, handlerCatalog } from "../../src/definition/index.ts"
import { OperationRows } from "../../src/engine/commit/operation-rows.ts"
import { newLiveJob } from "../../src/engine/owner/live-job.ts"
import { builtinSpecs } from "../../src/worker/handlers/specs.ts"

const fault = { code: "E401", message: "no luck", retryable: true }
const poll = { seconds: [30], jitter: 0, maxErrors: 0 }

/** What one batch holds after these commands, each decided and applied as its owner does. */
function rowsOf(maxAttempts: number, commands: readonly Command[]): OperationRows {
  const retry = { max_attempts: maxAttempts, initial_seconds: 0, jitter: 0 }
  const nodes = [{ id: "film", handler: "external", provider: "acme", retry }]
  const { plan } = compileWorkflow({ name: "make", nodes }, { handlers: handlerCatalog(builtinSpecs) })
  const job = newLiveJob({
    ...{ id: "job", partition: 0, plan: plan!, state: newJobState(plan!), projected: null },
    ...{ seq: 0, turnSeq: 0, at: 0, size: 0 },
  })
  const rows = new OperationRows(1000)
  const submit = { type: "submit", owner: "ada", workflow: "make", workflowVersion: 1, input: {} } as const
  for (const command of [{ ...submit, ttlSeconds: null, priority: 0 }, ...commands]) {
    takeDueRetries(job.state, 1000)
    const decided = decide(job.state, command, { now: 1000, random: 0, lossLimit: 3 })
    if ("refused" in decided) throw new Error(`${command.type}: ${decided.refused}`)
    for (const fact of decided) {
      const effects: Effect[] = []
      apply(job.state, fact, effects)
      for (const effect of effects)
        if (effect.type === "abandon" || effect.type === "operation_failed") rows.addEffect(job, effect, 1000)
      rows.addFact(job, fact)
    }
  }
  return rows
}

const submitted = (externalId: string, attempt = 1): Command => ({
  ...{ type: "submitted", node: 0, attempt, provider: "acme", externalId, poll, ttlSeconds: null },
})
const news = (externalId: string, type: "error" | "failed"): Command => ({
  ...{ type: "external", node: 0, externalId, source: "poll", poll, result: { type, fault } },
})

describe("operations that begin and end in one commit", () => {
  it("J16 are cancelled if they could not be polled any more and are not retried", () => {
    const rows = rowsOf(1, [submitted("op-1"), news("op-1", "error")])
    expect(rows.begun).toMatchObject([{ externalId: "op-1", endedAt: 1000, cancelAt: 1000 }])
    expect(rows.left).toMatchObject([{ node: 0, operation: "cancel" }, { node: null }])
  })

  it("X4 have ended if their provider reports that they failed", () => {
    const rows = rowsOf(1, [submitted("op-1"), news("op-1", "failed")])
    expect(rows.begun).toMatchObject([{ externalId: "op-1", endedAt: 1000, cancelAt: null }])
  })

  it("J16 are cancelled with their job, also when they are not the node's first", () => {
    const again = [submitted("op-1"), news("op-1", "failed"), submitted("op-2", 2)]
    expect(rowsOf(2, again).begun).toMatchObject([{ externalId: "op-2", endedAt: null, cancelAt: null }])
    const rows = rowsOf(2, [...again, { type: "cancel" }])
    expect(rows.begun).toMatchObject([{ externalId: "op-2", endedAt: 1000, cancelAt: 1000 }])
  })
})
