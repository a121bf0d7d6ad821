import pg from "pg"
import { type Postgres, startPostgres } from "../scripts/services/postgres.ts"
import { type Redis, startRedis } from "../scripts/services/redis.ts"

let postgres: Promise<Postgres> | null = null
let redis: Promise<Redis> | null = null
let count = 0

/** A separate database on a private PostgreSQL, started on first use. */
export async function databaseUrl(): Promise<{ url: string; drop: () => Promise<void> }> {
  postgres ??= startPostgres()
  const { url } = await postgres
  const name = `bench_${++count}`
  await execute(url, `create database ${name}`)
  const own = new URL(url)
  own.pathname = `/${name}`
  return { url: own.href, drop: () => execute(url, `drop database if exists ${name} with (force)`) }
}

/** A private Redis, started on first use. */
export async function redisUrl(): Promise<string> {
  redis ??= startRedis()
  return (await redis).url
}

export async function stopServices(): Promise<void> {
  await (await postgres)?.stop()
  await (await redis)?.stop()
}

async function execute(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query(statement)
  await client.end()
}
