import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import { FleetStage } from "../broker/stage.ts"
import { Life } from "./life.ts"
import { otherNode, poisonNode } from "./poison.ts"

const program = new URL("./worker-program.js", import.meta.url)

/** Two workers, each started again when it has died, until the test is over. Answers how many died. */
async function workers(stage: FleetStage): Promise<() => number> {
  const folder = await mkdtemp(join(tmpdir(), "umbra-poison-"))
  const task = join(folder, "task.json")
  await writeFile(task, JSON.stringify({ url: stage.url, redis: stage.redis }))
  let deaths = 0
  let isOver = false
  const current = new Set<Life>()
  const live = async () => {
    while (!isOver) {
      const life = new Life({ program, task, from: 0, to: 0, step: 1 })
      current.add(life)
      await life.ended()
      current.delete(life)
      if (!isOver) deaths += 1
    }
  }
  const over = Promise.all([live(), live()])
  onTestFinished(async () => {
    isOver = true
    for (const life of current) life.signal("SIGKILL")
    await over
    await rm(folder, { recursive: true, force: true })
  })
  return () => deaths
}

it("in a fleet a node that kills its worker is failed (E417), innocent ones of the same workers complete", async () => {
  const stage = new FleetStage()
  const umbra = await stage.engine({ engine: { lossLimit: 2 } })
  const deaths = await workers(stage)
  await stage.served(umbra, "poison")
  const submit = (name: string, node: typeof poisonNode) => umbra.submit({ name, nodes: [node] })
  const innocent = [50, 150, 400, 900].flatMap(ms => [ms, ms, ms])
  const jobs = await Promise.all(innocent.map(ms => submit(`innocent-${ms}`, otherNode(ms))))
  const poison = await submit("poison", poisonNode)
  expect(await poison.wait()).toMatchObject({ status: "FAILED", error: { code: "E417" } })
  expect(new Set(await Promise.all(jobs.map(async job => (await job.wait()).status)))).toEqual(
    new Set(["COMPLETED"]),
  )
  // Once or twice beside others, then twice alone.
  expect([3, 4]).toContain(deaths())
}, 900_000)
