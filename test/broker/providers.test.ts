import { describe, expect, it } from "vitest"
import { httpProvider } from "../../src/provider/http-provider.ts"
import { until } from "../engine/stage.ts"
import { fakeProvider, make, optionsFor } from "../provider/stage.ts"
import { FleetStage } from "./stage.ts"

const soon = { poll_seconds: [0.05] }

describe("external work in a fleet", () => {
  it("S1 X1 X3 workers submit and poll for the engine, each in a queue of its own", async () => {
    const stage = new FleetStage()
    const fake = await fakeProvider()
    const { providers, providerSecrets } = optionsFor(fake, { over: soon })
    // The engine's own way to the provider leads nowhere: only a worker can find out.
    const nowhere = {
      ...fake.definition(),
      ...soon,
      rate: null,
      poll: { ...fake.definition().poll!, url: "http://127.0.0.1:1/" },
    }
    const blind = httpProvider(nowhere, { allowPrivateAddresses: true })
    const umbra = await stage.engine({ providers: [blind], providerSecrets: providerSecrets! })
    const worker = { providers: providers!, providerSecrets: providerSecrets! }
    stage.worker({ ...worker, queues: ["external"] })
    const looking = stage.worker({ ...worker, queues: ["poll:fake"] })
    await stage.served(umbra, "external")
    await stage.served(umbra, "poll:fake")
    const job = await umbra.submit(make())
    await until("the provider has it", () => fake.operations.size === 1)
    const [id] = fake.operations.keys()
    fake.complete(id!, { film: "done" })
    expect(await job.wait({ timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED" })
    expect(looking.queues).toEqual(["poll:fake"])
  })

  it("X3 a result that a worker finds, and that does not fit into its report, fails the node", async () => {
    const stage = new FleetStage()
    const fake = await fakeProvider()
    const { providers, providerSecrets } = optionsFor(fake, { over: soon })
    const umbra = await stage.engine({ providers: providers!, providerSecrets: providerSecrets! })
    const worker = { maxOutputBytes: 400 }
    stage.worker({
      providers: providers!,
      providerSecrets: providerSecrets!,
      worker,
      queues: ["external", "poll:fake"],
    })
    await stage.served(umbra, "external")
    await stage.served(umbra, "poll:fake")
    const job = await umbra.submit(make())
    await until("the provider has it", () => fake.operations.size === 1)
    const [id] = fake.operations.keys()
    fake.complete(id!, "x".repeat(390))
    expect(await job.wait({ timeoutMs: 60_000 })).toMatchObject({ status: "FAILED", error: { code: "E405" } })
  })

  it("S1 an engine polls itself when no worker does, or when the one that did has left", async () => {
    const stage = new FleetStage()
    const fake = await fakeProvider()
    const { providers, providerSecrets } = optionsFor(fake, { over: soon })
    const umbra = await stage.engine({ providers: providers!, providerSecrets: providerSecrets! })
    const worker = { providers: providers!, providerSecrets: providerSecrets! }
    stage.worker({ ...worker, queues: ["external"] })
    const looking = stage.worker({ ...worker, queues: ["poll:fake"] })
    await stage.served(umbra, "external")
    await stage.served(umbra, "poll:fake")
    const job = await umbra.submit(make())
    await until("the provider has it", () => fake.operations.size === 1)
    await looking.close()
    const [id] = fake.operations.keys()
    fake.complete(id!, { film: "done" })
    expect(await job.wait({ timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED" })
  })

  it("J16 X5 a worker does not abort a submission whose job is cancelled; the operation is, and its slot is held until then", async () => {
    const stage = new FleetStage()
    const fake = await fakeProvider({
      limit: 1,
      script: ({ request }) =>
        (request as { scene: string }).scene === "film" ? { steps: [{ do: "hold" }, { do: "answer" }] } : {},
    })
    const { providers, providerSecrets } = optionsFor(fake, { over: { ...soon, concurrency: 1 } })
    const umbra = await stage.engine({ providers: providers!, providerSecrets: providerSecrets! })
    const worker = { providers: providers!, providerSecrets: providerSecrets! }
    stage.worker({ ...worker, queues: ["external"] })
    await stage.served(umbra, "external")
    const job = await umbra.submit(make())
    await until("the provider has it", () => fake.operations.size === 1)
    const other = await umbra.submit(make(["next"]))
    await until("the other waits", async () => (await umbra.graph(other.id)).waiting_for[0]?.kind === "slot")
    await job.cancel()
    expect((await job.wait({ timeoutMs: 60_000 })).status).toBe("CANCELLED")
    expect((await umbra.graph(job.id)).unseen_operations?.length).toBe(1)
    const [first] = fake.operations.values()
    fake.release(first!.id)
    await until("the other is at the provider", () => fake.operations.size === 2)
    expect(first).toMatchObject({ status: "canceled", submissions: 1 })
    expect([fake.mostAtOnce, fake.overLimit]).toEqual([1, 0])
  })

  it("S7 J16 X5 an engine that takes over does not have the worker abort it either", async () => {
    const stage = new FleetStage()
    const fake = await fakeProvider({
      limit: 1,
      script: () => ({ steps: [{ do: "hold" }, { do: "answer" }] }),
    })
    const { providers, providerSecrets } = optionsFor(fake, { over: { ...soon, concurrency: 1 } })
    const engine = () => stage.engine({ providers: providers!, providerSecrets: providerSecrets! })
    const before = await engine()
    stage.worker({ providers: providers!, providerSecrets: providerSecrets!, queues: ["external"] })
    await stage.served(before, "external")
    const job = await before.submit(make())
    await until("the provider has it", () => fake.operations.size === 1)
    await before.cancel(job.id)
    await before.wait(job.id, { timeoutMs: 60_000 })
    await before.close()
    const umbra = await engine()
    await stage.served(umbra, "external")
    const [first] = fake.operations.values()
    fake.release(first!.id)
    await until("it was cancelled", () => first!.status === "canceled")
    expect(first!.submissions).toBe(1)
  })
})
