/** An engine of the fleet in a separate process, with running jobs, waiting to be killed (see fleet.ts). */
import { openUmbra } from "umbra"

const [url, redisUrl, prefix] = process.argv.slice(2)
const umbra = await openUmbra(url, { roles: ["engine"], redisUrl, redis: { prefix } })
while (umbra.workers().filter(({ handlers }) => handlers.includes("nap")).length === 0)
  await new Promise(resolve => setTimeout(resolve, 50))
const nodes = Array.from({ length: 40 }, (_, i) => ({
  id: `n${i}`,
  handler: "nap",
  dependencies: i === 0 ? [] : [`n${i - 1}`],
}))
const ids = []
for (let n = 0; n < 100; n++) ids.push((await umbra.submit({ name: "naps", nodes })).id)
console.log(JSON.stringify(ids))
