// One node for every item of a list, three at a time; what failed is run again, what is done is not.
// Run it: node examples/for-each.js
import { defineHandler, openUmbra } from "umbra"

const runs = {}
let isReachable = false

const fetchSize = defineHandler({
  name: "fetch_size",
  run({ page }) {
    runs[page] = (runs[page] ?? 0) + 1
    if (page === "news" && !isReachable)
      throw Object.assign(new Error("no route to it"), { retryable: false })
    return { page, bytes: page.length * 100 }
  },
})

const umbra = await openUmbra("memory:", { handlers: [fetchSize] })
const job = await umbra.submit(
  {
    name: "sizes",
    nodes: [
      {
        id: "sizes",
        handler: "fetch_size",
        for_each: "{{ input.pages }}",
        max_parallel: 3,
        fail_fast: false, // the other items continue when one fails
        config: { page: "{{ item }}", number: "{{ index }}" },
      },
    ],
    output: { total: "{{ sizes | map(attribute='bytes') | sum }}", first: "{{ sizes[0].page }}" },
  },
  { pages: ["home", "about", "news", "contact"] },
)
const failed = await job.wait()
console.log(failed.status, failed.error) // FAILED { code: 'E401', message: 'no route to it', node: 'sizes', item: 2 }
const { items } = await umbra.items(job.id, "sizes")
console.log(items.map(({ item, status }) => `${item} ${status}`).join(", "))

isReachable = true
await job.retry()
const { status, output } = await job.wait()
console.log(status, output, runs)
await umbra.close()
