/**
 * Starts all services that the tests use; prints one line for each, and passes their addresses in the
 * environment.
 */
import { findChromium } from "./chromium.ts"
import { ensurePrograms } from "./packages.ts"
import { startPostgres } from "./postgres.ts"
import { startRedis } from "./redis.ts"

export interface Services {
  readonly env: Readonly<Record<string, string>>
  stop(): Promise<void>
}

export async function startServices(signal?: AbortSignal): Promise<Services> {
  await ensurePrograms(signal)
  const chromium = await findChromium()
  if (typeof chromium === "string") throw new Error(`please install ${chromium}`)
  const starting = [startPostgres(), startRedis()] as const
  const stop = async () => {
    await Promise.all(starting.map(async service => (await service.catch(() => null))?.stop()))
  }
  try {
    const [postgres, redis] = await Promise.all(starting)
    signal?.throwIfAborted()
    console.log(`PostgreSQL ${postgres.version} on 127.0.0.1:${postgres.port}`)
    console.log(`Redis ${redis.version} on 127.0.0.1:${redis.port}`)
    console.log(`Chromium ${chromium.version} at ${chromium.command}`)
    return { env: asEnv(postgres.url, redis.url, chromium.command), stop }
  } catch (error) {
    await stop()
    throw error
  }
}

const asEnv = (postgres: string, redis: string, chromium: string) => ({
  UMBRA_TEST_POSTGRES_URL: postgres,
  UMBRA_TEST_REDIS_URL: redis,
  UMBRA_TEST_CHROMIUM: chromium,
})
