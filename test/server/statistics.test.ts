/** `GET /workflows/{name}/stats` and `GET /failures`: with the client, on the command line's store, and between owners. */
import { expect, it, onTestFinished } from "vitest"
import { connect } from "../../src/client/index.ts"
import { type Clock, systemClock } from "../../src/engine/clock.ts"
import { fail } from "../../src/worker/fail.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { openStage } from "./stage.ts"

/** Rolled up every few milliseconds. */
const clock: Clock = {
  ...systemClock,
  after: (ms, fire) => systemClock.after(ms === 15_000 ? 5 : ms, fire),
}
const pay = defineHandler({
  name: "pay",
  run: (_config, { input, usage }) => {
    const { message } = input as { message?: string }
    usage({ tokens: 10 })
    if (message !== undefined) fail(message, { code: "REJECTED", retryable: false })
    return 1
  },
})
const order = { name: "order", nodes: [{ id: "pay", handler: "pay" }] }

it("answers with percentiles, failures and usage, to the owner of the jobs alone", async () => {
  const stage = await openStage({ withTokens: true, umbra: { handlers: [pay], clock } })
  onTestFinished(() => stage.close())
  const [mine, theirs] = [await stage.token("ada", "read"), await stage.token("bob", "read")]
  const run = async (input: object, owner = "ada") => {
    const { jobId } = await stage.umbra.accept(order, input, { owner })
    await stage.umbra.wait(jobId)
    return jobId
  }
  await run({})
  await run({ message: 'Payment 17 of "Ada" was rejected' })
  const last = await run({ message: 'Payment 18 of "Bob" was rejected' })
  await run({ message: "Bank is closed" })
  await run({ message: "Bank is closed" }, "bob")
  const ask = (path: string, token = mine) => stage.ask(path, { token })
  await expect.poll(async () => (await ask("/workflows/order/stats")).body.jobs.count).toBe(4)
  const { body } = await ask("/workflows/order/stats?version=1")
  const tokens = { total: 40, mean: 10, p50: 10, p90: 10, p95: 10, p99: 10 }
  expect(body).toMatchObject({
    ...{ workflow: "order", version: 1 },
    jobs: {
      count: 4,
      failed: 3,
      failure_rate: 0.75,
      errors: [{ code: "REJECTED", count: 3 }],
      usage: { tokens },
    },
    nodes: [{ node: "pay", count: 4, failed: 3, attempts: 4, usage: { tokens } }],
    critical_path: [{ node: "pay" }],
  })
  expect(Date.parse(body.to) - Date.parse(body.from)).toBeGreaterThanOrEqual(24 * 3_600_000)
  const old = "from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z"
  expect((await ask(`/workflows/order/stats?${old}`)).body).toMatchObject({
    jobs: { count: 0, failure_rate: null, duration_ms: null, queued_ms: null, usage: null },
    ...{ nodes: [], critical_path: [] },
  })
  const failed = { total: 10, mean: 10, p50: null, p90: null, p95: null, p99: null }
  expect((await ask("/workflows/order/stats", theirs)).body.jobs).toMatchObject({
    ...{ count: 1, failed: 1, duration_ms: null, usage: { tokens: failed } },
  })
  expect((await ask("/workflows/absent/stats")).body).toMatchObject({ status: 404, code: "E305" })
  expect((await ask("/workflows/order/stats?version=9")).body).toMatchObject({ status: 404, code: "E305" })

  const { body: failures } = await ask("/failures?group_by=fingerprint")
  expect(failures).toMatchObject({ jobs: 3, complete: true, next: null, scanned_to: null })
  expect(failures.groups).toMatchObject([
    { workflow: "order", code: "REJECTED", node: "pay", count: 2, example_job_id: last },
    { message: "Bank is closed", count: 1 },
  ])
  expect(failures.groups[0].message).toBe("Payment ? of ? was rejected")
  expect((await ask("/failures", theirs)).body.groups).toMatchObject([{ count: 1 }])
  expect((await ask("/failures?workflow=other")).body.groups).toEqual([])
  expect((await ask("/failures?workflow=order@1")).body).toMatchObject({ jobs: 3 })
  expect((await ask("/failures?workflow=order@9")).body).toMatchObject({ jobs: 0 })
  expect((await ask("/failures?workflow=order@latest")).body).toMatchObject({ code: "E309" })
  expect((await ask(`/failures?${old}`)).body.groups).toEqual([])
  for (const wrong of [
    "/workflows/order/stats?from=yesterday",
    "/workflows/order/stats?version=x",
    "/workflows/order/stats?from=2026-11-16T00:00:00Z&to=2026-11-15T00:00:00Z",
    "/workflows/order/stats?unknown=1",
    "/failures?group_by=node",
    "/failures?after=x",
    "/failures?from=2999-01-01T00:00:00Z",
    "/workflows/order/stats?to=9999-12-31T23:59:59Z",
    "/workflows/order/stats?from=0000-01-01T00:00:00%2B01:00",
    "/failures?to=9999-12-31T23:59:59-10:00",
    "/jobs/durations?created_before=9999-12-31T23:59:59-10:00",
  ])
    expect((await ask(wrong)).body, wrong).toMatchObject({ status: 400, code: "E633" })

  const client = connect({ url: stage.server.url, token: mine })
  const from = Date.now() - 7_200_000
  expect(await client.workflows.statistics("order", { version: 1, from })).toMatchObject({
    jobs: { count: 4 },
  })
  expect(await client.failures({ workflow: "order", from })).toMatchObject({ jobs: 3 })
  expect(await stage.umbra.statistics("order", { owner: "bob" })).toMatchObject({ jobs: { count: 1 } })
  expect(await stage.umbra.failures({ owner: "bob" })).toMatchObject({ jobs: 1 })
  for (const to of [Number.NaN, -1, Date.UTC(9999, 0)]) {
    await expect(stage.umbra.statistics("order", { to })).rejects.toMatchObject({ code: "E309" })
    await expect(stage.umbra.failures({ to })).rejects.toMatchObject({ code: "E309" })
  }
})
