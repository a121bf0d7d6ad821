/** Claims of artifacts: what arrives while one is in flight is sent together. */
import { expect, it } from "vitest"
import { JobArtifacts } from "../../src/engine/owner/job-artifacts.ts"

const hashOf = (digit: string) => `sha256:${digit.repeat(64)}`

function withClaims() {
  const claims: {
    owner: string
    hashes: readonly string[]
    answer: (found: string[]) => void
    fail(): void
  }[] = []
  const claim = ({ owner, hashes }: { owner: string; hashes: readonly string[] }) =>
    new Promise<string[]>((answer, reject) => {
      claims.push({ owner, hashes, answer, fail: () => reject(new Error("the store is away")) })
    })
  const artifacts = new JobArtifacts({ artifacts: { claim } } as never, () => 1000)
  return { artifacts, claims }
}

const turn = () => new Promise(resolve => setImmediate(resolve))

it("sends the claims of an owner together, and answers each", async () => {
  const { artifacts, claims } = withClaims()
  const [a, b, c] = ["a", "b", "c"].map(hashOf) as [string, string, string]
  const first = artifacts.fault("ada", [a])
  await turn()
  const later = [artifacts.fault("ada", [a, b]), artifacts.fault("ada", [c])]
  const other = artifacts.fault("bob", [a])
  await turn()
  expect(claims.map(({ owner, hashes }) => [owner, hashes])).toEqual([
    ["ada", [a]],
    ["bob", [a]],
  ])
  claims[0]!.answer([a])
  claims[1]!.answer([])
  await turn()
  expect(await first).toBeNull()
  expect(await other).toMatchObject({ code: "E807" })
  expect(claims[2]!.hashes).toEqual([a, b, c])
  claims[2]!.answer([a, b])
  expect(await later[0]).toBeNull()
  expect(await later[1]).toMatchObject({ code: "E807", message: expect.stringContaining(c) })
})

it("continues after a claim that failed", async () => {
  const { artifacts, claims } = withClaims()
  const a = hashOf("a")
  const failed = artifacts.fault("ada", [a])
  await turn()
  const waiting = artifacts.fault("ada", [a])
  claims[0]!.fail()
  await expect(failed).rejects.toThrow("the store is away")
  await turn()
  claims[1]!.answer([a])
  expect(await waiting).toBeNull()
  void artifacts.fault("ada", [a])
  await turn()
  expect(claims).toHaveLength(3)
})
