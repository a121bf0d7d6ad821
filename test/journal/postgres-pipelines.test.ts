import { randomBytes } from "node:crypto"
import { describe, expect, it } from "vitest"
import { JournalUnavailableError } from "../../src/journal/errors.ts"
import type { Statement } from "../../src/journal/postgres/database.ts"
import { sql } from "../../src/journal/postgres/sql.generated.ts"
import { invocation, message, startExecution } from "./pipeline-fixture.ts"
import { postgresStage } from "./postgres-stage.ts"

describe("commits of pipelines on PostgreSQL", () => {
  it("P3 one that waits for a take-over to end writes nothing", async () => {
    const { bystander, open, waitingForLock } = await postgresStage()
    const { held, jobId, pipelines, next } = await startExecution(await open())
    await bystander.query("begin")
    await bystander.query("update umbra.partitions set epoch = epoch + 1 where id = $1", [held.partition])
    const commit = pipelines.commit(next({ messages: [message(0, 1)] }))
    await waitingForLock()
    await bystander.query("commit")
    expect(await commit).toEqual({ isHeld: false })
    expect(await pipelines.readExecution(jobId)).toMatchObject({ commit: 0 })
  })

  it("P3 one that is sent again while its first sending is under way waits for it and writes nothing", async () => {
    const { bystander, open, waitingForLock } = await postgresStage()
    const { execution, pipelines, next } = await startExecution(await open())
    await bystander.query("begin")
    await bystander.query("update umbra.executions set commit = 1 where id = $1", [execution])
    const commit = pipelines.commit(next({ messages: [message(0, 1)], lineage: [invocation(0, 1)] }))
    await waitingForLock()
    await bystander.query("commit")
    expect(await commit).toEqual({ isHeld: true })
    expect(await pipelines.findMessages(execution, [{ route: 0, seq: 1 }])).toEqual([])
  })

  it("P3 one is written when its first sending was given up", async () => {
    const { bystander, open, waitingForLock } = await postgresStage()
    const { execution, pipelines, next } = await startExecution(await open())
    await bystander.query("begin")
    await bystander.query("update umbra.executions set commit = 1 where id = $1", [execution])
    const commit = pipelines.commit(next({ messages: [message(0, 1)] }))
    await waitingForLock()
    await bystander.query("rollback")
    expect(await commit).toEqual({ isHeld: true })
    expect(await pipelines.findMessages(execution, [{ route: 0, seq: 1 }])).toHaveLength(1)
  })

  it("P3 one whose connection breaks is of unknown outcome, is not sent again by itself, and may be", async () => {
    const { bystander, open, waitingForLock } = await postgresStage()
    const { execution, jobId, pipelines, next } = await startExecution(await open())
    await bystander.query("begin")
    await bystander.query("select from umbra.executions where id = $1 for update", [execution])
    const made = next({ messages: [message(0, 1)] })
    const commit = pipelines.commit(made).catch((error: unknown) => error)
    const [pid] = await waitingForLock()
    await bystander.query("select pg_terminate_backend($1)", [pid])
    expect(await commit).toBeInstanceOf(JournalUnavailableError)
    await bystander.query("rollback")
    expect(await pipelines.readExecution(jobId)).toMatchObject({ commit: 0 })
    expect(await pipelines.commit(made)).toEqual({ isHeld: true })
    expect(await pipelines.findMessages(execution, made.messages)).toHaveLength(1)
  })

  it("changes the execution's row in place, so that it does not grow with every commit", async () => {
    const { bystander, open } = await postgresStage()
    const { commit } = await startExecution(await open())
    const tableSize = async () =>
      (await bystander.query("select pg_table_size('umbra.executions')::int as bytes")).rows[0]
        .bytes as number
    const growth = async () => {
      const before = await tableSize()
      for (let number = 0; number < 100; number++)
        await commit({ progress: JSON.stringify(randomBytes(2200).toString("base64")) })
      return (await tableSize()) - before
    }
    // One version per commit would be 300 KB. While autovacuum analyzes a table, PostgreSQL removes no old version: a row
    // that is not changed in place grows every time, one that is grows at most while that lasts.
    await expect.poll(growth, { timeout: 180_000 }).toBeLessThan(100_000)
  })
})

describe("plans of pipelines on PostgreSQL", () => {
  const lookUps: Statement[] = [
    "pipelineCommit",
    "pipelineClaimDeadLetters",
    "pipelineDeadLetters",
    "pipelineFindMessages",
    "pipelineGathered",
    "pipelineLineage",
    "pipelineMessages",
    "pipelineReplayed",
    "pipelineRemoveOrphans",
    "pipelineRetries",
    "pipelineTrim",
  ]

  it("look each key up by an index, though the planner takes every table for empty", async () => {
    const { bystander, open } = await postgresStage()
    await open()
    await bystander.query({ text: sql.session, values: ["0"] })
    for (const name of lookUps) {
      const numbers = [...sql[name].matchAll(/\$(\d+)/g)].map(([, number]) => Number(number))
      const count = Math.max(...numbers)
      const list = (item: string) => Array.from({ length: count }, () => item).join(",")
      await bystander.query(`prepare ${name} (${list("text")}) as ${sql[name]}`)
      const { rows } = await bystander.query(`explain execute ${name} (${list("null")})`)
      const plan = rows.map(row => row["QUERY PLAN"]).join("\n")
      expect(plan, name).toMatch(/Index Cond/)
      expect(plan, name).not.toMatch(/Join Filter|Materialize|Seq Scan on pipeline/)
    }
  })
})
