/**
 * Starts all services that the tests use; prints one line for each, and passes their addresses in the
 * environment.
 */
import { findChromium } from "./chromium.ts"
import { ensurePrograms } from "./packages.ts"
import { startPostgres } from "./postgres.ts"
import { startRedis } from "./redis.ts"
import { startSwift } from "./swift.ts"

export interface Services {
  readonly env: Readonly<Record<string, string>>
  stop(): Promise<void>
}

export async function startServices(signal?: AbortSignal): Promise<Services> {
  await ensurePrograms(signal)
  const chromium = await findChromium()
  if (typeof chromium === "string") throw new Error(`please install ${chromium}`)
  const starting = [startPostgres(), startRedis(), startSwift()] as const
  const stop = async () => {
    await Promise.all(starting.map(async service => (await service.catch(() => null))?.stop()))
  }
  try {
    const [postgres, redis, swift] = await Promise.all(starting)
    signal?.throwIfAborted()
    console.log(`PostgreSQL ${postgres.version} on 127.0.0.1:${postgres.port}`)
    console.log(`Redis ${redis.version} on 127.0.0.1:${redis.port}`)
    console.log(`Swift ${swift.version} on 127.0.0.1:${swift.port}`)
    console.log(`Chromium ${chromium.version} at ${chromium.command}`)
    const env = {
      UMBRA_TEST_POSTGRES_URL: postgres.url,
      UMBRA_TEST_REDIS_URL: redis.url,
      UMBRA_TEST_S3_URL: swift.url,
      UMBRA_TEST_CHROMIUM: chromium.command,
    }
    return { env, stop }
  } catch (error) {
    await stop()
    throw error
  }
}
