import { expect, it } from "vitest"
import { Keys } from "../../src/broker/redis/keys.ts"

it("S6 only keys of other runs of the same fleet are swept, whatever else begins like them", () => {
  const keys = new Keys("umbra", "0123456789abcdef")
  const old = new Keys("umbra", "fedcba9876543210")
  const others = new Keys("umbra:staging", "fedcba9876543210")
  const swept = [old.tasks("a"), old.results(3), old.worker("w"), old.workers, old.epochs, old.marker]
  const kept = [keys.tasks("a"), keys.marker, others.tasks("a"), others.marker, "umbra:cache:1", "umbra:abc"]
  expect([...swept, ...kept].filter(key => keys.isOfAnotherRun(key))).toEqual(swept)
})
