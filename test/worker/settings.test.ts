import { describe, expect, it } from "vitest"
import { workerSettings } from "../../src/worker/settings.ts"

describe("S10 worker settings", () => {
  it("what is given counts before the environment, the environment before the default", () => {
    const environment = { UMBRA_CONCURRENCY: "7", UMBRA_GRACE_SECONDS: "0.5", UMBRA_THREADS: "" }
    const settings = workerSettings({ concurrency: 3 }, environment)
    expect(settings).toEqual({ ...workerSettings({}, {}), concurrency: 3, graceSeconds: 0.5 })
  })

  it.each([
    ["1", true],
    ["TRUE", true],
    ["0", false],
    ["", false],
    ["127.0.0.1, 10.2.0.0/16", ["127.0.0.1", "10.2.0.0/16"]],
  ])("UMBRA_ALLOW_PRIVATE_ADDRESSES=%s", (text, expected) => {
    const { allowPrivateAddresses } = workerSettings({}, { UMBRA_ALLOW_PRIVATE_ADDRESSES: text })
    expect(allowPrivateAddresses).toEqual(expected)
  })

  it.each([
    [{ UMBRA_CONCURRENCY: "many" }, /UMBRA_CONCURRENCY\) must be a whole number/],
    [{ UMBRA_THREADS: "0" }, /UMBRA_THREADS/],
    [{ UMBRA_GRACE_SECONDS: "-1" }, /UMBRA_GRACE_SECONDS\) must be a number of at least 0/],
  ])("%j is refused (E620)", (environment, message) => {
    expect(() => workerSettings({}, environment)).toThrow(message)
  })
})
