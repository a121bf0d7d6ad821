/** Copies the lines of FILE to OUT with a pipeline, and dies when it writes the DIE-ATth; 0: it copies all. */
import { z } from "zod"
import { defineAdapter } from "../../../src/pipeline/adapter.ts"
import { openUmbra } from "../../../src/umbra.ts"

const [database, file, out, dieAt] = process.argv.slice(2)

let count = 0
const deadly = defineAdapter({
  type: "deadly",
  config: z.record(z.string(), z.unknown()).optional().default({}),
  process({ body }) {
    count += 1
    if (count === Number(dieAt)) process.kill(process.pid, "SIGKILL")
    return body
  },
})

const umbra = await openUmbra(database!, {
  adapters: [deadly],
  files: { allowFiles: true },
  engine: { beatSeconds: 0.3, leaseSeconds: 2 },
})
const definition = {
  name: "copy",
  init: { queue: "files", body: { file: file! } },
  routes: [
    {
      name: "read",
      inbound: "files",
      adapters: [{ type: "file_source", config: { path: "{{ message.file }}", lines_per_step: 40 } }],
      outbound: "lines",
    },
    {
      name: "write",
      inbound: "lines",
      adapters: [{ type: "deadly" }, { type: "jsonl_sink", config: { path: out!, sync: false } }],
      concurrency: 8,
    },
  ],
}
const job = await umbra.submit(definition, null, { idempotencyKey: "copy" })
const { status } = await job.wait()
await umbra.close()
process.stdout.write(status)
