/**
 * For test/artifacts/crash.test.ts, which kills it: `make` runs a job whose handler stores content and refers to it; `sweep` leaves content
 * that a job refers to, content that nothing refers to and content without a row, and then an engine sweeps; `work` is a worker of a fleet.
 */
import { utimesSync } from "node:fs"
import { join } from "node:path"
import { bodyChunks } from "../../src/artifacts/body.ts"
import { openFolderStore } from "../../src/artifacts/folder-store.ts"
import { openWorker } from "../../src/open-worker.ts"
import { openUmbra } from "../../src/umbra.ts"
import { defineHandler } from "../../src/worker/handler.ts"

const [location, content, mode, redis] = process.argv.slice(2) as [string, string, string, string?]

const make = defineHandler({
  name: "make",
  run: (_, ctx) => ctx.artifacts.put("made", `content of ${ctx.jobId}`),
})
const makes = { name: "makes", nodes: [{ id: "a", handler: "make" }] } as never
const open = (orphanHours: number, sweepSeconds = 3600) =>
  openUmbra(location, { handlers: [make], artifacts: { location: content, orphanHours, sweepSeconds } })

/** Larger than what is moved. */
const large = defineHandler({ name: "large", run: (_, ctx) => `${ctx.jobId} `.repeat(1_000) })

if (mode === "large") {
  const artifacts = { location: content, orphanHours: 0, sweepSeconds: 3600, outputBytes: 10_000 }
  const nodes = [
    { id: "a", handler: "large" },
    { id: "b", handler: "transform", config: { value: "{{ a[:36] }}" } },
  ]
  const umbra = await openUmbra(location, { handlers: [large], artifacts })
  await umbra.submit({ name: "large", nodes } as never)
}
if (mode === "make") await (await open(0)).submit(makes)
if (mode === "sweep") {
  const umbra = await open(24)
  await (await umbra.submit(makes)).wait()
  await umbra.artifacts.put("free", "nothing refers to this")
  await umbra.close()
  const store = openFolderStore(content)
  const { key } = await store.write("local", bodyChunks("this has no row"), { maxBytes: 100 })
  const hourAgo = new Date(Date.now() - 3600_000)
  utimesSync(join(content, key), hourAgo, hourAgo)
  await open(0, 1)
}
if (mode === "work")
  openWorker(location, { handlers: [make], artifacts: { location: content }, redis: JSON.parse(redis!) })
process.stdout.write("ready\n")
