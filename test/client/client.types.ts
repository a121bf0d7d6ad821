/**
 * What the client accepts and refuses at compile time; `npm run typecheck` proves it. An error that is expected and does
 * not come is an error itself.
 */
import { z } from "zod"
import { connect, type JobSnapshot, type RemoteJob } from "../../src/client/index.ts"
import { text, workflow } from "../../src/definition/typed/builder.ts"
import { inputSpec } from "../../src/worker/handlers/specs.ts"

type Same<A, B> = (<X>() => X extends A ? 1 : 2) extends <X>() => X extends B ? 1 : 2 ? true : false
function same<A, B>(_proof: Same<A, B>): void {}

const umbra = connect({ url: "http://127.0.0.1:7070" })

const hello = workflow(
  "hello",
  { input: z.object({ name: z.string(), times: z.number().default(1) }) },
  flow => ({
    message: text`Hello ${flow.input.name}`,
    times: flow.input.times,
  }),
)
const loose = workflow("loose", flow => void flow.node("all", inputSpec, {}))
const optional = workflow("optional", { input: z.object({ note: z.string().optional() }) }, flow => ({
  id: flow.job.id,
}))

export async function submits(): Promise<void> {
  const job = await umbra.submit(hello, { name: "Ada" }, { idempotencyKey: "k", labels: { team: "a" } })
  same<typeof job, RemoteJob<{ readonly message: string; readonly times: number }>>(true)
  const { output, status } = await job.wait()
  same<typeof output.message, string>(true)
  same<typeof output.times, number>(true)
  same<typeof status, JobSnapshot["status"]>(true)
  // @ts-expect-error the output has no such field
  output.massage
  // @ts-expect-error the input has a name
  umbra.submit(hello)
  // @ts-expect-error the input has a name
  umbra.submit(hello, {})
  // @ts-expect-error a name is a text
  umbra.submit(hello, { name: 1 })
  // @ts-expect-error whose job it is follows from the token
  umbra.submit(hello, { name: "Ada" }, { owner: "eve" })
  await umbra.submit(loose)
  await umbra.submit(loose, { anything: 1 })
  await umbra.submit(optional)
  await umbra.submit(optional, { note: "x" })
  // @ts-expect-error a note is a text
  umbra.submit(optional, { note: 1 })
}

export async function byName(): Promise<void> {
  const job = await umbra.submit("hello@stable", { name: "Ada" })
  const { output } = await job.wait()
  // @ts-expect-error without the workflow nothing is known of its output
  output.message
  await umbra.submit({ name: "x", nodes: [{ id: "a", handler: "input" }] })
}

export async function streams(): Promise<void> {
  for await (const event of umbra.handle("id").stream()) {
    if (event.type === "node") same<typeof event.data.node, string>(true)
    if (event.type === "job") same<typeof event.data.progress_pct, number>(true)
    // @ts-expect-error only the stream of all jobs has several
    if (event.type === "snapshot") event.data.jobs
  }
  for await (const event of umbra.stream()) {
    if (event.type === "snapshot") event.data.jobs.map(({ job_id }) => job_id)
    // @ts-expect-error nodes are told for one job only
    if (event.type === "node") break
  }
}
