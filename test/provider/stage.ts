/** An engine with a fake provider, on whatever store a test names. */
import { onTestFinished } from "vitest"
import type { Json } from "../../src/core/json.ts"
import { httpProvider } from "../../src/provider/http-provider.ts"
import type { HttpProviderDefinition } from "../../src/provider/http-spec.ts"
import {
  type FakeProvider,
  type FakeProviderOptions,
  startFakeProvider,
} from "../../src/testing/fake-provider.ts"
import { openUmbra, type Umbra, type UmbraOptions } from "../../src/umbra.ts"
import { until } from "../engine/stage.ts"

const secrets = { FAKE_PROVIDER_SECRET: "fake-provider-secret" } as Record<string, string>

export async function fakeProvider(options: FakeProviderOptions = {}): Promise<FakeProvider> {
  const fake = await startFakeProvider(options)
  onTestFinished(() => fake.close())
  return fake
}

export interface ProviderStageOptions extends UmbraOptions {
  readonly at?: string
  /** What differs from the fake provider's own definition. */
  readonly over?: Partial<HttpProviderDefinition>
}

export function optionsFor(fake: FakeProvider, options: ProviderStageOptions = {}): UmbraOptions {
  const { at: _, over, ...rest } = options
  const definition = { ...fake.definition(), rate: null, ...over }
  return {
    providerSecrets: name => secrets[name],
    ...rest,
    // What a test waits for must not come from a sweep in the end. A test of sweeps says how often they come.
    engine: { providerSweepSeconds: 3600, ...rest.engine },
    providers: [httpProvider(definition, { allowPrivateAddresses: true }), ...(rest.providers ?? [])],
  }
}

export async function openWith(fake: FakeProvider, options: ProviderStageOptions = {}): Promise<Umbra> {
  const umbra = await openUmbra(options.at ?? "memory:", optionsFor(fake, options))
  onTestFinished(() => umbra.close())
  return umbra
}

export const make = (nodes: readonly string[] = ["film"], rest: object = {}) => ({
  name: "make",
  nodes: nodes.map(id => ({ id, handler: "external", provider: "fake", config: { scene: id } })),
  ...rest,
})

/** The webhook of an operation, given to this process as its route would. */
export function deliver(umbra: Umbra, fake: FakeProvider, id: string, eventId?: string) {
  const body = fake.webhookBody(id, eventId)
  return umbra.webhooks.receive("fake", { body: Buffer.from(body), headers: fake.signed(body) })
}

/** The `n`th operation, once it is on record at the engine too. */
export async function waiting(umbra: Umbra, fake: FakeProvider, jobId: string, n = 0): Promise<string> {
  let id = ""
  await until("the operation is on record", async () => {
    id = [...fake.operations.keys()][n] ?? ""
    const { waiting_for } = await umbra.graph(jobId)
    return waiting_for.some(wait => wait.kind === "external" && wait.external_id === id)
  })
  return id
}

export const output = (id: string): Json => ({ film: { made: id } })
