/** Items of `for_each` beside as many plain parallel nodes, all in one job: decision 18. */
import { openUmbra, type Umbra } from "../src/umbra.ts"
import { defineHandler } from "../src/worker/handler.ts"
import { databaseUrl } from "./services.ts"

const SIZE = 10_000
const RUNS = 3

const nothing = defineHandler({ name: "nothing", run: () => 1 })

const list = {
  name: "list",
  nodes: [{ id: "each", handler: "nothing", config: { n: "{{ item }}" }, for_each: `{{ range(${SIZE}) }}` }],
}
const parallel = {
  name: "parallel",
  nodes: Array.from({ length: SIZE }, (_, n) => ({
    id: `n${n}`,
    handler: "nothing",
    config: { n: "{{ input.n }}" },
  })),
}

export async function items(): Promise<void> {
  await compare("memory", "memory:")
  const database = await databaseUrl()
  await compare("PostgreSQL", database.url)
  await database.drop()
}

async function compare(store: string, location: string): Promise<void> {
  const umbra = await openUmbra(location, { handlers: [nothing] })
  try {
    const [ofItems, ofNodes] = [await best(umbra, list), await best(umbra, parallel)]
    const ratio = (ofItems / ofNodes).toFixed(2)
    console.log(
      `${store}: ${SIZE} items ${ofItems.toFixed(0)} ms, nodes ${ofNodes.toFixed(0)} ms, ${ratio} × per item`,
    )
  } finally {
    await umbra.close()
  }
}

/** The first run compiles and warms up, and does not count. */
async function best(umbra: Umbra, workflow: typeof list | typeof parallel): Promise<number> {
  const times: number[] = []
  for (let run = 0; run <= RUNS; run++) {
    const started = performance.now()
    const job = await umbra.submit(workflow, { n: 1 })
    await job.wait()
    times.push(performance.now() - started)
  }
  return Math.min(...times.slice(1))
}
