/** Copies the lines of FILE to OUT with a pipeline, as far as it comes. */
import { openUmbra } from "../../../src/umbra.ts"

const [database, file, out] = process.argv.slice(2)

const umbra = await openUmbra(database!, {
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
      adapters: [{ type: "jsonl_sink", config: { path: out!, sync: false } }],
      concurrency: 8,
    },
  ],
}
const job = await umbra.submit(definition, null, { idempotencyKey: "copy" })
const { status } = await job.wait()
await umbra.close()
process.stdout.write(status)
