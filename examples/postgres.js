// Jobs in PostgreSQL: several processes may run this at once and share the work. Tables go to the schema `umbra`.
// Run it: UMBRA_DATABASE_URL=postgres://user:password@localhost/database node examples/postgres.js
import { defineHandler, openReader, openUmbra } from "umbra"

const url = process.env.UMBRA_DATABASE_URL
if (url === undefined) {
  console.log(
    "skipped: set UMBRA_DATABASE_URL to a PostgreSQL database (postgres://user:password@localhost/database)",
  )
  process.exit(0)
}

const square = defineHandler({ name: "square", run: ({ of }) => of * of })

const squares = {
  name: "squares",
  nodes: [
    { id: "a", handler: "square", config: { of: "{{ input.a }}" } },
    { id: "b", handler: "square", config: { of: "{{ input.b }}" } },
    { id: "sum", handler: "transform", config: { value: "{{ a + b }}" } },
  ],
  output: "{{ sum }}",
}

const umbra = await openUmbra(url, { handlers: [square] })
// The same key gives the same job, however often and from wherever it is submitted.
const idempotencyKey = `squares-${process.pid}`
const job = await umbra.submit(squares, { a: 3, b: 4 }, { idempotencyKey })
const again = await umbra.submit(squares, { a: 3, b: 4 }, { idempotencyKey })
console.log(job.id === again.id ? "one job" : "two jobs")
console.log((await job.wait()).output) // 25

// A reader owns nothing and runs nothing: for dashboards and scripts, beside any number of engines.
const reader = await openReader(url)
const [newest] = await reader.jobs({ workflow: "squares", limit: 1 })
console.log(newest.status, (await reader.events(job.id)).length, "events")
await reader.close()
await umbra.close()
