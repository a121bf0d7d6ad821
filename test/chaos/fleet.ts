/** Three engines, six workers, two API processes, on a PostgreSQL and a Redis of their own, each behind proxies of its own. */
import { writeFile } from "node:fs/promises"
import { join, resolve } from "node:path"
import { freePort } from "../../scripts/services/port.ts"
import { type Postgres, startPostgres } from "../../scripts/services/postgres.ts"
import { type Redis, startRedis } from "../../scripts/services/redis.ts"
import type { HttpProviderDefinition } from "../../src/provider/http-spec.ts"
import type { FakeProvider } from "../../src/testing/fake-provider.ts"
import { proxyTo, type Proxy as Way } from "../engine/proxy.ts"
import { type Kind, Member, type Service } from "./member.ts"

export const SLOTS = 20

/** Where the artifacts of a fleet are. */
export const contentIn = (folder: string) => join(folder, "content")

/** Deaths are noticed within a few seconds; the rest follows from that. */
export const quickSettings: Readonly<Record<string, string | number>> = {
  lease_seconds: 3,
  beat_seconds: 0.5,
  rebalance_seconds: 3,
  worker_beat_seconds: 0.5,
  worker_dead_seconds: 3,
  roster_seconds: 0.3,
  claim_after_seconds: 3,
  claim_every_seconds: 1,
  redis_answer_seconds: 1.5,
  database_query_timeout_ms: 3000,
  database_connect_timeout_ms: 2000,
  database_check_idle_ms: 1000,
  database_retry_initial_ms: 100,
  database_retry_max_ms: 1000,
  provider_sweep_seconds: 0.5,
  // Few, so that workers have tasks in hand that they have not begun.
  concurrency: 3,
  prefetch: 10,
  // A node is hit by more deaths here than in a lifetime; none of them is its own fault.
  loss_limit: 10_000,
  park_after_ms: 200,
  large_output_bytes: 2000,
  // Sweeps run all the time. An attempt may wait for as long as a fault lasts.
  artifact_sweep_seconds: 1,
  artifact_orphan_hours: 0.1,
}

export const members: readonly { readonly name: string; readonly kind: Kind }[] = [
  ...["engine-1", "engine-2", "engine-3"].map(name => ({ name, kind: "engine" as const })),
  ...["worker-1", "worker-2", "worker-3", "worker-4", "worker-5", "worker-6"].map(name => ({
    name,
    kind: "worker" as const,
  })),
  ...["api-1", "api-2"].map(name => ({ name, kind: "api" as const })),
]

export interface FleetOptions {
  /** All unless told. */
  readonly names?: readonly string[]
  readonly folder: string
  readonly fake: FakeProvider
  readonly settings: Readonly<Record<string, string | number>>
}

export class Fleet {
  readonly postgres: Postgres
  readonly redis: Redis
  readonly members: readonly Member[]
  readonly #proxies: readonly Way[]

  private constructor(parts: {
    readonly postgres: Postgres
    readonly redis: Redis
    readonly members: readonly Member[]
    readonly proxies: readonly Way[]
  }) {
    this.postgres = parts.postgres
    this.redis = parts.redis
    this.members = parts.members
    this.#proxies = parts.proxies
  }

  static async start(options: FleetOptions): Promise<Fleet> {
    // With the time of each commit, the judge knows when something became durable.
    const postgres = await startPostgres({ settings: { track_commit_timestamp: "on" } })
    const redis = await startRedis()
    const proxies: Way[] = []
    const wayTo = async (url: string) => {
      const proxy = await proxyTo(url)
      proxies.push(proxy)
      return proxy
    }
    const providers = join(options.folder, "fake.json")
    await writeFile(providers, JSON.stringify(providerOf(options.fake)))
    const all: Member[] = []
    for (const { name, kind } of members.filter(({ name }) => options.names?.includes(name) ?? true)) {
      const ways = new Map<Service, Way>([["redis", await wayTo(redis.url)]])
      if (kind !== "worker") ways.set("postgres", await wayTo(postgres.url))
      const port = kind === "worker" ? null : await freePort()
      all.push(
        new Member({
          ...{ name, kind, ways, folder: options.folder },
          words: [...wordsOf(kind, ways, port), ...settingWords(options.settings), "--providers", providers],
          env: {
            UMBRA_PROVIDER_SECRET_FAKE_PROVIDER_SECRET: options.fake.secret,
            CHAOS_FOLDER: options.folder,
            UMBRA_ARTIFACTS: contentIn(options.folder),
          },
          url: port === null ? null : `http://127.0.0.1:${port}`,
        }),
      )
    }
    const fleet = new Fleet({ postgres, redis, members: all, proxies })
    try {
      // One engine first: it makes the tables.
      await fleet.member("engine-1").start()
      await Promise.all(all.filter(({ pid }) => pid === 0).map(member => member.start()))
    } catch (error) {
      await fleet.stop()
      throw error
    }
    return fleet
  }

  member(name: string): Member {
    return this.members.find(member => member.name === name)!
  }

  /** Where the API is served. */
  get doors(): readonly string[] {
    return this.members.filter(({ parts }) => parts.kind === "api").map(({ parts }) => parts.url!)
  }

  /** Ends what is left, and removes the services. */
  async stop(): Promise<void> {
    for (const member of this.members) await member.kill()
    for (const proxy of this.#proxies) await proxy.close()
    await this.redis.stop()
    await this.postgres.stop()
  }
}

function wordsOf(kind: Kind, ways: ReadonlyMap<Service, Way>, port: number | null): string[] {
  const handlers = ["--handlers", resolve(import.meta.dirname, "handlers.js")]
  const redis = ["--redis-url", ways.get("redis")!.url, "--allow-private-addresses"]
  if (kind === "worker") return ["worker", ...redis, ...handlers]
  const roles = kind === "engine" ? "engine" : "api,webhooks"
  const store = ["--database-url", ways.get("postgres")!.url]
  return ["serve", "--roles", roles, "--port", String(port), ...store, ...redis]
}

function settingWords(settings: FleetOptions["settings"]): string[] {
  return Object.entries(settings).flatMap(([name, value]) => ["--set", `${name}=${value}`])
}

function providerOf(fake: FakeProvider): HttpProviderDefinition {
  return { ...fake.definition(), concurrency: SLOTS, rate: null, poll_seconds: [0.5, 1], poll_jitter: 1 }
}
