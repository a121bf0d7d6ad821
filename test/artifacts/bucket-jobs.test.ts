/** Jobs whose artifacts are in a bucket: handlers, threads, workers of a fleet, and the sweep. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest"
import { ArtifactSweep } from "../../src/artifacts/sweep.ts"
import { openJournal } from "../../src/journal/open.ts"
import { openUmbra } from "../../src/umbra.ts"
import { FleetStage } from "../broker/stage.ts"
import { flow, handler } from "../engine/stage.ts"
import { type Bucket, freshBucket } from "./bucket.ts"
import { inChunks, pattern, sha256 } from "./content.ts"
import { makeInThread, readInThread } from "./fixtures/threads.ts"

let bucket: Bucket
beforeAll(async () => {
  bucket = await freshBucket()
})
afterAll(() => bucket.remove())
beforeEach(() => {
  for (const [name, value] of Object.entries(bucket.environment)) vi.stubEnv(name, value)
  onTestFinished(() => void vi.unstubAllEnvs())
})

const bytes = pattern(9_000_000)
const make = handler("make", (_config, ctx) => ctx.artifacts.put("made", inChunks(bytes)))
const readBack = handler("read_back", async (config: { file: { artifact: string } }, { artifacts }) => {
  const all = await (await artifacts.get(config.file)).buffer()
  const end = await (await artifacts.get(config.file, { range: { first: bytes.length - 9 } })).buffer()
  return [sha256(all), sha256(end)]
})
const makeAndRead = flow([
  { id: "make", handler: "make" },
  { id: "read", handler: "read_back", dependencies: ["make"], config: { file: "{{ make }}" } },
])
const readings = [sha256(bytes), sha256(bytes.subarray(-9))]

describe("artifacts in a bucket", () => {
  it("S9 are stored once, and read by other nodes, in handlers and in threads", async () => {
    const handlers = [make, readBack, makeInThread, readInThread]
    const umbra = await openUmbra("memory:", { handlers, artifacts: { location: bucket.location } })
    onTestFinished(() => umbra.close())
    const first = await umbra.submit(makeAndRead)
    expect(await first.wait()).toMatchObject({ status: "COMPLETED" })
    expect((await umbra.node(first.id, "read")).output).toEqual(readings)
    const again = await umbra.submit(makeAndRead)
    await again.wait()
    expect(await bucket.keys()).toHaveLength(1)
    const inThread = await umbra.submit(
      flow([
        { id: "make", handler: "make_in_thread" },
        { ...{ id: "read", handler: "read_in_thread" }, config: { file: "{{ make.file }}" } },
      ]),
    )
    expect(await inThread.wait()).toMatchObject({ status: "COMPLETED" })
    expect((await umbra.node(inThread.id, "read")).output).toMatchObject({ text: "made in a thread" })
    expect(await bucket.keys()).toHaveLength(2)
  })

  it("are written and read by workers of a fleet themselves", async () => {
    const stage = new FleetStage()
    const artifacts = { location: bucket.location }
    const umbra = await stage.engine({ artifacts })
    stage.worker({ handlers: [make, readBack], artifacts })
    await stage.served(umbra, "make")
    const job = await umbra.submit(makeAndRead)
    expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
    expect((await umbra.node(job.id, "read")).output).toEqual(readings)
  })

  it("that no row knows are removed by the sweep, and no others", async () => {
    const journal = await openJournal("memory:")
    const content = bucket.store()
    onTestFinished(async () => {
      await content.close()
      await journal.close()
    })
    const { key } = await content.write("local", inChunks(pattern(10)), { maxBytes: 100 })
    const at = Date.now()
    const known = await content.write("local", inChunks(pattern(20)), { maxBytes: 100 })
    await journal.artifacts.put({ owner: "local", ...known, name: "x", type: "text/plain", at })
    const settings = { orphanHours: 24, sweepSeconds: 3600 }
    const swept = async (hours: number) => {
      const sweep = new ArtifactSweep({
        rows: journal.artifacts,
        content,
        settings,
        now: () => at + hours * 3600_000,
      })
      while (await sweep.step());
    }
    await swept(23)
    expect(await content.size(key)).toBe(10)
    // The row was put again meanwhile: its content is not old.
    await journal.artifacts.put({
      owner: "local",
      ...known,
      name: "x",
      type: "text/plain",
      at: at + 20 * 3600_000,
    })
    await swept(25)
    expect(await content.size(key)).toBeNull()
    expect(await content.size(known.key)).toBe(20)
    expect((await content.list({ limit: 1_000 })).map(each => each.key)).toEqual([known.key])
    await content.remove(known.key)
  })
})
