/** A pipeline whose adapters do what a seed says, a store whose commits go wrong as planned, and a model of both. */
import { createHash } from "node:crypto"
import { expect } from "vitest"
import { decodeProgress } from "../../src/core/pipeline/progress.ts"
import { compileWorkflow, handlerCatalog } from "../../src/definition/index.ts"
import { JournalUnavailableError } from "../../src/journal/errors.ts"
import type { MessageKey, MessageRow, PipelineStore } from "../../src/journal/port/pipelines.ts"
import { openMemory } from "../../src/journal/sqlite/memory.ts"
import { silentLog } from "../../src/log.ts"
import type { Adapter } from "../../src/pipeline/adapter.ts"
import { PipelineRun } from "../../src/pipeline/execution/run.ts"
import { AdapterRegistry } from "../../src/pipeline/registry/registry.ts"
import { pipelineSettings } from "../../src/pipeline/settings.ts"
import { ExecutionStorage } from "../../src/pipeline/storage.ts"
import { forestProblems } from "./forest.ts"
import { adapter } from "./scene.ts"

export interface Drawn {
  readonly seed: number
  readonly routes: readonly {
    readonly adapters: readonly number[]
    readonly outbound: number | null
    readonly other: number | null
    readonly concurrency: number
    readonly prefetch: number
    readonly gathers: { readonly count: number; readonly at: number } | null
  }[]
  readonly init: readonly number[]
  readonly faults: readonly { readonly at: number; readonly kind: string }[]
}

export const died = Symbol("died")
const JOB = "00000000-0000-7000-8000-000000000001"
const RETRIES = 2
const MAX_HOPS = 3

interface Body {
  readonly path: string
}

/** A number that follows from the seed and the place, and from nothing else. */
function chance(seed: number, ...place: readonly (string | number)[]): number {
  return (
    createHash("sha1")
      .update([seed, ...place].join("/"))
      .digest()
      .readUInt32BE(0) /
    2 ** 32
  )
}

/** What an adapter does to a message: how often it fails, what it emits, and whether the message goes on. */
function behaviour(seed: number, id: number, path: string) {
  const fails = chance(seed, id, path, "fails")
  return {
    failures: fails < 0.75 ? 0 : Math.ceil((fails - 0.75) * 4 * (RETRIES + 1.5)),
    emits: chance(seed, id, path, "emits") < 0.7 ? 0 : 1 + Math.floor(chance(seed, id, path, "many") * 2),
    kind: chance(seed, id, path, "kind") < 0.5 ? "default" : "other",
    isSlow: chance(seed, id, path, "slow") < 0.3,
    ends: chance(seed, id, path, "ends") < 0.1,
  }
}

export function world(drawn: Drawn) {
  // Gathering makes what is processed together a matter of time: what it emits cannot be foretold, only counted.
  const isForetold = drawn.routes.every(({ gathers }) => gathers === null)
  const types = new Map<string, Adapter>()
  let life = 0
  const acknowledged = new Set<string>()
  const inHand = new Set<string>()
  const violations: string[] = []

  const outboundOf = ({ outbound, other }: Drawn["routes"][number]) => ({
    ...(outbound === null ? {} : { default: `r${outbound}` }),
    ...(other === null ? {} : { other: `r${other}` }),
  })

  const made = drawn.routes.map((route, r) =>
    route.adapters.map((id, i) => {
      const type = `a${r}_${i}`
      const gathers = route.gathers?.at === i ? route.gathers : null
      const kinds = Object.keys(outboundOf(route))
      types.set(
        type,
        adapter(
          type,
          (message, context) => {
            // What a dead process still does in here is no longer of this world.
            const { life: mine } = context.input as { life: number }
            if (mine !== life) return undefined
            if (acknowledged.has(message.id))
              violations.push(`${message.id} is processed after its acknowledgement`)
            if (i === 0 && route.gathers === null) {
              if (inHand.has(message.id)) violations.push(`${message.id} is in hand twice`)
              inHand.add(message.id)
            }
            const body = (Array.isArray(message.body) ? message.body[0] : message.body) as unknown as Body
            const { failures, emits, kind, isSlow, ends } = behaviour(drawn.seed, id, body.path)
            const act = () => {
              if (mine !== life) return undefined
              if (context.attempt <= failures) {
                inHand.delete(message.id)
                throw new Error("as planned")
              }
              for (let n = 0; n < emits && kinds.includes(kind); n++)
                context.emit({ path: `${body.path}.${i}${n}` }, { kind })
              if (ends || i === route.adapters.length - 1) inHand.delete(message.id)
              return ends ? undefined : { path: `${body.path}+${i}` }
            }
            return isSlow ? new Promise(resolve => setImmediate(resolve)).then(act) : act()
          },
          gathers === null ? undefined : () => ({ count: gathers.count, seconds: 0.002 }),
        ),
      )
      return { type }
    }),
  )
  const definition = {
    name: "any",
    init: [...drawn.routes.keys()].flatMap(r => {
      const times = Math.max(drawn.init.filter(to => to === r).length, 1)
      return Array.from({ length: times }, (_, n) => ({ queue: `r${r}`, body: { path: `i${r}_${n}` } }))
    }),
    routes: drawn.routes.map((route, r) => ({
      name: `r${r}`,
      inbound: `r${r}`,
      adapters: made[r],
      ...(route.outbound === null && route.other === null ? {} : { outbound: outboundOf(route) }),
      concurrency: route.concurrency,
      prefetch: route.prefetch,
      error_handling: {
        retries: RETRIES,
        backoff: { initial_seconds: 0, max_seconds: 0, jitter: 0 },
        circuit_breaker: false,
      },
    })),
  }
  const registry = new AdapterRegistry()
  registry.add(...types.values())
  const compile = (source: object) =>
    compileWorkflow(source, { handlers: handlerCatalog([]), adapters: registry })
  // Only pipelines with a cycle may, and must, bound it.
  const compiled = compile({ ...definition, max_hops: MAX_HOPS }).plan
    ? compile({ ...definition, max_hops: MAX_HOPS })
    : compile(definition)
  if (compiled.plan === undefined) throw new Error(JSON.stringify(compiled.problems))
  const plan = compiled.plan.pipeline!

  const journal = openMemory()
  const store = journal.pipelines
  let execution = -1
  let commits = 0

  async function open(): Promise<void> {
    if (execution >= 0) return
    await journal.takePartitions({ engine: "e", expected: [{ partition: 0, epoch: 0 }] })
    execution = (await store.claimExecution({ jobId: JOB, at: 0, limit: 10, claimMs: 1e9 }))!
  }

  /** What is durable is noted before anybody acts on it. */
  function note(commit: Parameters<PipelineStore["commit"]>[0]): void {
    const dead = new Set(commit.parked.map(keyName))
    for (const { route, settled } of decodeProgress(commit.progress).routes.map((each, route) => ({
      ...each,
      route,
    })))
      for (let seq = 1; seq <= settled.upTo; seq++) {
        const name = `${route}:${seq}`
        if (!dead.has(name) && !parked.has(name)) acknowledged.add(`r${route}:${seq}`)
      }
    for (const row of commit.parked) parked.add(keyName(row))
    for (const key of commit.unparked) {
      parked.delete(keyName(key))
      acknowledged.add(`r${key.route}:${key.seq}`)
    }
  }
  const parked = new Set<string>()

  function failing(crash: () => void): PipelineStore {
    const never = new Promise<never>(() => {})
    return new Proxy(store, {
      get(target, name) {
        if (name !== "commit") return Reflect.get(target, name).bind(target)
        return async (commit: Parameters<PipelineStore["commit"]>[0]) => {
          commits += 1
          const fault = drawn.faults.find(({ at }) => at === commits)?.kind
          if (fault === "not sent") throw new JournalUnavailableError("as planned")
          if (fault === "dies before") {
            crash()
            return never
          }
          const answer = await target.commit(commit)
          note(commit)
          if (fault === "answer lost") throw new JournalUnavailableError("as planned")
          if (fault === "dies after") {
            crash()
            return never
          }
          return answer
        }
      },
    })
  }

  /** Runs until all is settled, or the process dies. */
  async function live(): Promise<unknown> {
    await open()
    life += 1
    inHand.clear()
    const row = (await store.readExecution(JOB))!
    return new Promise((resolve, reject) => {
      const failingStore = failing(() => {
        life += 1
        resolve(died)
      })
      const run = new PipelineRun({
        plan,
        execution: row,
        fence: { partition: 0, epoch: 1 },
        store: failingStore,
        storage: new ExecutionStorage(failingStore, execution),
        remoteChain: () => {
          throw new Error("nothing runs elsewhere")
        },
        retry: { tries: 4, initialMs: 1, maxMs: 2 },
        settings: pipelineSettings({
          commitMessages: 3,
          maxUncommitted: 6,
          maxGathered: 4,
          metricsSeconds: 0,
        }),
        adapters: registry,
        names: { input: null, job: {} },
        isReplay: false,
        secrets: [],
        random: () => 0.5,
        lossLimit: 1000,
        context: {
          jobId: JOB,
          owner: "local",
          pipeline: "any",
          input: { life },
          log: silentLog,
          now: () => Date.now(),
          isSure: () => true,
          after: (ms, fire) => {
            const timer = setTimeout(fire, ms)
            return () => clearTimeout(timer)
          },
          submit: async () => "",
          artifactFault: async () => null,
        },
        events: {
          drained: resolve,
          failed: fault => reject(new Error(fault.message)),
          fenced: () => reject(new Error("fenced")),
          broken: reject,
          progressed: () => {},
        },
      })
      run.start().catch(reject)
    })
  }

  /** Route and path of every message, and which are dead letters, as the seed says. */
  function expectedTotals() {
    const messages: string[] = []
    const dead: string[] = []
    const visit = (r: number, path: string, hops: number): void => {
      messages.push(`${r} ${path}`)
      if (plan.maxHops !== null && hops > plan.maxHops) {
        dead.push(`${r} ${path}`)
        return
      }
      const emitted: [number, string][] = []
      const route = drawn.routes[r]!
      let now = path
      for (const [i, id] of route.adapters.entries()) {
        const { failures, emits, kind, ends } = behaviour(drawn.seed, id, now)
        if (failures > RETRIES) {
          dead.push(`${r} ${path}`)
          return
        }
        const to = kind === "default" ? route.outbound : route.other
        for (let n = 0; n < emits && to !== null; n++) emitted.push([to, `${now}.${i}${n}`])
        if (ends) {
          now = ""
          break
        }
        now = `${now}+${i}`
      }
      if (now !== "" && route.outbound !== null) emitted.push([route.outbound, now])
      for (const [to, child] of emitted) visit(to, child, hops + 1)
    }
    for (const { queue, body } of definition.init) visit(Number(queue.slice(1)), body.path, 0)
    return { messages: messages.sort(), dead: dead.sort() }
  }

  async function mustBeRight(): Promise<void> {
    expect(violations).toEqual([])
    const row = (await store.readExecution(JOB))!
    const progress = decodeProgress(row.progress!)
    const messages: MessageRow[] = []
    for (const [route, { tail, settled, done, dead, waiting }] of progress.routes.entries()) {
      expect([settled.upTo, settled.beyond, waiting]).toEqual([tail, [], 0])
      expect(done + dead, "acknowledged or a dead letter").toBe(tail)
      messages.push(...(await store.readMessages({ execution, route, after: 0, limit: 1e6, maxBytes: 1e9 })))
    }
    const letters = await store.listDeadLetters({ execution, limit: 1e6 })
    const lineage = await store.readLineage({ execution, keys: messages, limit: 1e6 })
    expect(forestProblems(messages, lineage, letters)).toEqual([])
    if (!isForetold) return
    const shown = (each: MessageRow) => `${each.route} ${(JSON.parse(each.body) as Body).path}`
    const expected = expectedTotals()
    expect(messages.map(shown).sort()).toEqual(expected.messages)
    expect(letters.map(shown).sort()).toEqual(expected.dead)
  }

  return { live, mustBeRight }
}

const keyName = ({ route, seq }: MessageKey) => `${route}:${seq}`
