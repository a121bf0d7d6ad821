import { expect, it } from "vitest"
import { apply } from "../../src/core/apply/apply.ts"
import type { Command } from "../../src/core/commands.ts"
import { decide } from "../../src/core/decide/decide.ts"
import { newJobState } from "../../src/core/state.ts"
import { chain, graphOf } from "./graphs.ts"

const submit: Command = {
  ...{ type: "submit", owner: "ada", workflow: "w", workflowVersion: 1, input: {} },
  ...{ ttlSeconds: null, priority: 0 },
}

/** A job of one node, with its facts numbered from 1 as its owner numbers them. */
function job() {
  const state = newJobState(graphOf(chain("a")))
  let turnSeq = 0
  let seq = 0
  const send = (command: Command) => {
    const decided = decide(state, command, { now: 1000, random: 0, lossLimit: 3, turnSeq })
    if ("refused" in decided) return decided.refused
    for (const fact of decided) {
      const before = [state.finishedAt === null, state.status === "DELETED"]
      apply(state, fact)
      seq++
      const after = [state.finishedAt === null, state.status === "DELETED"]
      if (seq === 1 || before.join() !== after.join()) turnSeq = seq
    }
    return decided
  }
  send(submit)
  return { state, send }
}

const of = (seq: number) => ({ operation: "op", onlyIf: { seq } })

it("a command of a bulk operation is refused if the job began, ended, was retried or deleted after its seq", () => {
  const { send, state } = job()
  expect(send({ type: "cancel", ...of(0) })).toBe("job_changed")
  expect(send({ type: "preview", node: 0, attempt: 1, data: "p" })).toHaveLength(1)
  // The preview is the second fact, and changes nothing that counts.
  expect(send({ type: "cancel", ...of(1) })).toMatchObject([{ type: "job_cancelled", operation: "op" }])
  expect(send({ type: "cancel", ...of(1) })).toBe("job_changed")
  expect(send({ type: "retry", ...of(3) })).toMatchObject([{ type: "job_retried", operation: "op" }])
  expect(send({ type: "retry", ...of(3) })).toBe("job_changed")
  expect(send({ type: "delete", ...of(3) })).toBe("job_changed")
  send({ type: "cancel" })
  expect(send({ type: "delete", ...of(5) })).toMatchObject([{ type: "job_deleted", operation: "op" }])
  expect(send({ type: "delete", ...of(5) })).toBe("job_changed")
  expect(state.status).toBe("DELETED")
})

it("facts of callers name no operation", () => {
  const { send } = job()
  expect(send({ type: "cancel" })).toEqual([{ type: "job_cancelled", at: 1000 }])
  expect(send({ type: "retry" })).toEqual([{ type: "job_retried", at: 1000, expires_at: null }])
})
