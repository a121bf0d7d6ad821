/** Executions of pipelines through the client, against the real server. */
import { expect, it, onTestFinished } from "vitest"
import { connect, type DeadLetter } from "../../src/client/index.ts"
import { adapter, numbers, route } from "../pipeline/scene.ts"
import { openStage } from "../server/stage.ts"

let isMended = false
const picky = adapter("picky", ({ body }) => {
  if (!isMended) throw Object.assign(new Error("not yet"), { retryable: false })
  return body
})

const pipeline = {
  name: "flow",
  init: { body: { count: 5 } },
  routes: [
    route("source", ["numbers"], { outbound: "work" }),
    route("work", ["picky"], { error_handling: { retries: 0, circuit_breaker: false } }),
  ],
}

it("P4 P5 shows routes, lineage and dead letters, and replays them", async () => {
  const stage = await openStage({ withTokens: true, umbra: { adapters: [numbers, picky] } })
  onTestFinished(() => stage.close())
  const umbra = connect({ url: stage.server.url, token: await stage.token("ada", "admin") })
  const job = await umbra.submit(pipeline as never)
  expect((await job.wait()).status).toBe("COMPLETED")
  expect((await job.graph()).routes).toMatchObject([{ done: 1 }, { done: 0, dead_lettered: 5 }])

  const lineage = await job.lineage("work:3", { limit: 10 })
  expect(lineage).toMatchObject({ message: { id: "work:3", status: "failed" }, inputs: [{ id: "source:1" }] })
  expect(new Date(lineage.message!.at).toISOString()).toBe(lineage.message!.at)
  await expect(job.lineage("none:3")).rejects.toMatchObject({ code: "E706", status: 404 })

  const letters: DeadLetter[] = []
  for await (const letter of job.deadLetters({ route: "work", limit: 2 })) letters.push(letter)
  expect(letters.map(({ id }) => id)).toEqual(["work:1", "work:2", "work:3", "work:4", "work:5"])
  expect(await umbra.deadLetterPage(job.id, { limit: 2 })).toMatchObject({ next: "work:2" })

  isMended = true
  const one = await job.replay({ messages: ["work:2"] })
  expect(one).toMatchObject({ replayed: 1, labels: { replay_of: job.id } })
  const rest = await umbra.replay(job.id)
  expect(rest.replayed).toBe(4)
  expect((await umbra.wait(rest.job_id)).status).toBe("COMPLETED")
  await expect(job.replay()).rejects.toMatchObject({ code: "E708", status: 409 })
})
