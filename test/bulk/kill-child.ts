/** A process of its own: starts a bulk operation, or resumes those of the store, and prints its progress until it is killed. */
import { openUmbra } from "../../src/umbra.ts"
import { backfillRange, handlers } from "./stage.ts"

const [location = "", verb = "resume", rate = "1000"] = process.argv.slice(2)
const umbra = await openUmbra(location, { handlers, engine: { leaseSeconds: 2, beatSeconds: 0.1 } })
const id =
  verb === "resume"
    ? (await umbra.bulk.list()).operations[0]!.bulk_id
    : verb === "backfill"
      ? (await umbra.schedules.backfill("s", { ...backfillRange, rate: Number(rate) })).bulk_id
      : (
          await umbra.bulk.start({
            ...{ verb, filter: { workflow: "fails" }, rate: Number(rate) },
            ...(verb === "fork" ? { fork: { confirm: { unknown: true } } } : {}),
          } as never)
        ).bulk_id
console.log(`operation ${id}`)
for (;;) {
  const { processed, status } = await umbra.bulk.get(id)
  console.log(`${processed} ${status}`)
  await new Promise(resolve => setTimeout(resolve, 5))
}
