import { expect, it, onTestFinished } from "vitest"
import { openUmbra } from "../../src/umbra.ts"
import { adapter, route } from "./scene.ts"

it("P5 lineage shows a large body only of the requested message", async () => {
  const large = "x".repeat(100_000)
  const grow = adapter("grow", (_, { emit }) => emit({ large }))
  const umbra = await openUmbra("memory:", { adapters: [grow] })
  onTestFinished(() => umbra.close())
  const pipeline = {
    name: "large",
    routes: [route("grow", ["grow"], { outbound: "store" }), route("store", ["log"])],
  }
  const job = await umbra.submit(pipeline as never, {} as never)
  await job.wait()
  const [output] = (await umbra.pipelines.lineage(job.id, "grow:1")).outputs
  expect(output).toMatchObject({ id: "store:1", body: null, body_left_out: true })
  const { message, inputs } = await umbra.pipelines.lineage(job.id, "store:1")
  expect(message!.body).toEqual({ large })
  expect(message!.body_left_out).toBeUndefined()
  expect(inputs[0]).toMatchObject({ id: "grow:1", body: {} })
})
