// Jobs in a folder: what is unfinished when the process ends continues when the folder is opened again.
// Run it: node examples/folder.js [FOLDER]
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { openUmbra } from "umbra"

const folder = process.argv[2] ?? (await mkdtemp(join(tmpdir(), "umbra-example-")))

const reminder = {
  name: "reminder",
  nodes: [
    // A durable timer: nobody holds a worker, a connection or memory while it runs.
    { id: "pause", handler: "sleep", config: { seconds: 3 } },
    {
      id: "remind",
      handler: "transform",
      config: { value: "Water {{ input.plant }}" },
      dependencies: ["pause"],
    },
  ],
}

let umbra = await openUmbra(folder)
const { id } = await umbra.submit(reminder, { plant: "the ferns" })
await umbra.close()
console.log(`submitted ${id} and closed ${folder}`)

umbra = await openUmbra(folder)
const { status, output } = await umbra.handle(id).wait()
console.log(status, output) // COMPLETED { remind: 'Water the ferns' }
await umbra.close()
if (process.argv[2] === undefined) await rm(folder, { recursive: true })
