import { expect, it } from "vitest"
import { Keys, storesKey } from "../../src/broker/redis/keys.ts"

it("S6 only keys of other runs of the same fleet are swept, whatever else begins like them", () => {
  const [own, other] = ["3f9a0c12de45", "aaaabbbbcccc"]
  const runs = { now: "0123456789abcdef", before: "fedcba9876543210" }
  const keys = new Keys({ prefix: "umbra", store: own, runId: runs.now })
  const old = new Keys({ prefix: "umbra", store: own, runId: runs.before })
  const neighbour = new Keys({ prefix: "umbra", store: other, runId: runs.now })
  const oldNeighbour = new Keys({ prefix: "umbra", store: other, runId: runs.before })
  const others = new Keys({ prefix: "umbra:staging", store: own, runId: runs.before })
  const swept = [old.tasks("a"), old.results(3), old.worker("w"), old.workers, old.epochs, old.marker]
  swept.push(oldNeighbour.marker, old.oldWorkers, old.oldWorker("w"))
  const kept = [keys.tasks("a"), keys.marker, others.tasks("a"), others.marker, "umbra:cache:1", "umbra:abc"]
  kept.push(neighbour.marker, neighbour.tasks("a"), keys.oldWorkers, storesKey("umbra"))
  expect([...swept, ...kept].filter(key => keys.isOfAnotherRun(key))).toEqual(swept)
})
