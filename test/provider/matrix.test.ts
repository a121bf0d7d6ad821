/**
 * Every misbehaviour of scenarios.ts × every path on which an operation's end is heard of × every store. Each cell has a
 * provider of its own in one engine behind one server: all are played at once, and each is judged by itself.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import type { JobSnapshot } from "../../src/engine/owner/snapshot.ts"
import type { FoldedJob } from "../../src/engine/recovery/fold.ts"
import type { WebhookEventRow } from "../../src/journal/port/providers.ts"
import { httpProvider } from "../../src/provider/http-provider.ts"
import type { ProviderView } from "../../src/provider/services.ts"
import { FakeProvider } from "../../src/testing/fake-provider.ts"
import { openStage, type Stage, type Store, stores } from "../server/stage.ts"
import { endingOf, made, type Path, paths, type Scenario, scenarios, scriptOn } from "./scenarios.ts"

interface Cell {
  readonly name: string
  readonly path: Path
  readonly scenario: Scenario
  readonly fake: FakeProvider
}

interface Played {
  readonly job: JobSnapshot
  readonly facts: FoldedJob["facts"]
  readonly differences: readonly string[]
  readonly webhooks: readonly WebhookEventRow[]
  readonly provider: ProviderView
}

const pathNames = Object.keys(paths) as Path[]
const memory = async (): Promise<Store> => ({ location: "memory:", remove: async () => {} })

function newCell(name: string, path: Path, scenario: Scenario): Cell {
  const { script, next = {} } = scenario
  const fake = new FakeProvider({
    signsTime: true,
    limit: 1,
    script: ({ key }) => scriptOn(path, key.endsWith("/1") ? next : script),
  })
  return { name, path, scenario, fake }
}

function definitionOf({ name, path, scenario, fake }: Cell) {
  const definition = fake.definition(name)
  const isHint = path === "hint"
  return {
    ...definition,
    ...{ rate: null, poll_seconds: [...paths[path].poll_seconds] },
    // From when it is submitted: on a busy machine that may be a while after the job began.
    ...(endingOf(scenario, path) === "EXPIRED" ? { ttl_seconds: 1 } : {}),
    webhook: { ...definition.webhook!, ...(isHint ? { is_hint: true } : {}) },
    ...scenario.over,
  }
}

async function play(stage: Stage, cell: Cell): Promise<Omit<Played, "provider">> {
  const { name, scenario, fake } = cell
  fake.webhookUrl = `${stage.server.url}/webhooks/${name}`
  // On a machine that is busy an answer in time may take longer than the second that an impatient provider has.
  const max_attempts = scenario.over?.timeout_seconds === undefined ? 4 : 100
  const retry = { max_attempts, initial_seconds: 0.02, jitter: 0 }
  const node = { id: "film", handler: "external", provider: name, config: { scenario: scenario.what }, retry }
  const { umbra } = stage
  const { id } = await umbra.submit({ name, nodes: [node], output: "{{ film }}" })
  const job = await umbra.wait(id, { timeoutMs: 200_000 })
  await fake.played()
  const { facts } = await umbra.queries.fold(id)
  const differences = await umbra.queries.verify(await umbra.queries.row(id))
  return { job, facts, differences, webhooks: await umbra.webhookEvents(name) }
}

describe.each(["memory", "SQLite", "PostgreSQL"])("a provider that misbehaves, on %s", name => {
  const cells = scenarios.flatMap((scenario, n) =>
    pathNames.map(path => newCell(`${path}-${n}`, path, scenario)),
  )
  let store: Store
  let stage: Stage
  const played = new Map<Cell, Played>()

  beforeAll(async () => {
    store = await (stores[name] ?? memory)()
    for (const { fake } of cells) await fake.listen()
    const providers = cells.map(cell => httpProvider(definitionOf(cell), { allowPrivateAddresses: true }))
    const providerSecrets = () => cells[0]!.fake.secret
    stage = await openStage({ location: store.location, umbra: { providers, providerSecrets } })
    const all = await Promise.all(cells.map(cell => play(stage, cell)))
    const views = new Map((await stage.umbra.providers()).map(view => [view.name, view]))
    for (const [i, cell] of cells.entries()) played.set(cell, { ...all[i]!, provider: views.get(cell.name)! })
  })

  afterAll(async () => {
    await stage?.close()
    for (const { fake } of cells) await fake.close()
    await store?.remove()
  })

  describe.each(pathNames)("on path %s", path => {
    const onPath = cells.filter(cell => cell.path === path).map(cell => [cell.scenario.what, cell] as const)
    it.each(onPath)("X4 %s", (_, cell) => judge(cell, played.get(cell)!))
  })
})

function judge(
  { path, scenario, fake }: Cell,
  { job, facts, differences, webhooks, provider }: Played,
): void {
  const ending = endingOf(scenario, path)
  expect(job, JSON.stringify(job.error)).toMatchObject({
    status: ending,
    output: ending === "COMPLETED" ? made : null,
  })
  const completions = facts.filter(({ fact }) => fact.type === "node_completed").length
  expect({ completions, differences }).toEqual({
    completions: ending === "COMPLETED" ? 1 : 0,
    differences: [],
  })

  const keys = [...fake.operations.values()].map(({ key }) => key)
  expect(keys).toEqual([`${job.job_id}/film`, `${job.job_id}/film/1`].slice(0, scenario.operations ?? 1))
  const submissions = [...fake.operations.values()][0]?.submissions ?? 1
  const unanswered = facts.filter(({ fact }) => "fault" in fact && fact.fault?.code === "E408").length
  const expected = scenario.submissions ?? 1
  if (unanswered === 0) expect(submissions).toBe(expected)
  else {
    expect(submissions).toBeGreaterThanOrEqual(expected)
    expect(submissions).toBeLessThanOrEqual(expected + unanswered)
  }

  const { count, code } = scenario.refused ?? { count: 0, code: "" }
  const refused = webhooks.filter(({ verdict }) => verdict === "refused")
  expect(refused.map(({ reason }) => reason?.slice(0, 4))).toEqual(Array(count).fill(code))
  const answers = fake.deliveries.filter(({ isGenuine }) => !isGenuine).map(({ status }) => status)
  expect(answers).toEqual(Array(answers.length).fill(401))

  const verdict = scenario.verdict?.[path]
  if (verdict !== undefined) expect(webhooks.at(-1)).toMatchObject({ verdict })
  // A look that a webhook asked for finds what is true by then, which may be the result.
  if (scenario.preview !== undefined && path !== "hint") {
    const previews = facts.flatMap(({ fact }) => (fact.type === "preview_published" ? [fact.data] : []))
    expect(previews).toEqual([scenario.preview])
  }
  expect(provider).toMatchObject({ operations: 0, slots: { held: [], waiting: 0 } })
  expect({ most: fake.mostAtOnce, over: fake.overLimit }).toEqual({ most: Math.min(1, keys.length), over: 0 })
}
