/** A worker that stops in order is gone at once; one that dies is shown as dead. */
import { expect, it } from "vitest"
import type { Umbra } from "../../src/umbra.ts"
import { flow, gate, handler, until } from "../engine/stage.ts"
import { FleetStage } from "./stage.ts"

const work = handler("work", () => "done")

it("S5 a worker that was stopped in order is gone in every process, and never shown as dead", async () => {
  const stage = new FleetStage(undefined, {
    rosterSeconds: 0.05,
    workerBeatSeconds: 0.1,
    workerDeadSeconds: 15,
  })
  const processes = [await stage.engine(), await stage.engine(), await stage.engine({ roles: ["api"] })]
  const worker = stage.worker({ handlers: [work] })
  const states = new Set<string>()
  const note = (umbra: Umbra) => {
    for (const { state } of umbra.workers()) states.add(state)
    return umbra.workerCounts
  }
  for (const umbra of processes) await stage.served(umbra, "work")
  await worker.close()
  for (const umbra of processes) {
    await until("it is gone", () => note(umbra).live === 0)
    expect(note(umbra)).toEqual({ live: 0, dead: 0 })
    expect(umbra.workers()).toEqual([])
  }
  expect([...states]).toEqual(["live"])
})

it("S5 a process that looks at the roster rarely hears at once that a worker left", async () => {
  const stage = new FleetStage()
  const rare = await stage.engine({ redis: { ...stage.redis, rosterSeconds: 3600 } })
  const worker = stage.worker({ handlers: [work] })
  await until("it beats", () => worker.isReady)
  // Its first look came before the worker; the next one comes with news alone.
  const other = stage.worker({ handlers: [work] })
  await until("it beats", () => other.isReady)
  await other.close()
  await until("the one that stays is known", () => rare.workerCounts.live === 1)
  expect(rare.workers().map(({ id, state }) => [id, state])).toEqual([[worker.id, "live"]])
  await worker.close()
  await until("it is gone", () => rare.workerCounts.live === 0)
  expect(rare.workerCounts).toEqual({ live: 0, dead: 0 })
})

it("S5 a worker that falls silent is dead, and shown as such", async () => {
  const stage = new FleetStage()
  const umbra = await stage.engine()
  const held = gate()
  const redis = { workerBeatSeconds: 3600, workerDeadSeconds: 2 }
  const silent = stage.worker({ handlers: [held.handler], redis })
  await stage.served(umbra, "gate")
  await umbra.submit(flow([{ id: "a", handler: "gate" }]))
  await until("it is dead", () => umbra.workers().some(({ state }) => state === "dead"))
  expect(umbra.workers().map(({ id, state }) => [id, state])).toEqual([[silent.id, "dead"]])
  expect(umbra.workerCounts).toEqual({ live: 0, dead: 1 })
  held.open()
})
