/** What `npm test` started for the tests, and databases of their own on it. */
import { randomBytes } from "node:crypto"
import pg from "pg"

export const postgresUrl = (): string => fromEnvironment("UMBRA_TEST_POSTGRES_URL")
export const redisUrl = (): string => fromEnvironment("UMBRA_TEST_REDIS_URL")
/** With the credentials. */
export const s3Url = (): string => fromEnvironment("UMBRA_TEST_S3_URL")
export const chromiumPath = (): string => fromEnvironment("UMBRA_TEST_CHROMIUM")

function fromEnvironment(name: string): string {
  const value = process.env[name]
  if (value) return value
  throw new Error(
    `${name} is not set: run this test with "npm test -- FILE", or watch it with "npm run services -- npx vitest FILE"`,
  )
}

export interface FreshDatabase {
  readonly name: string
  readonly url: string
  /** Removes it, also while somebody is connected. */
  drop(): Promise<void>
}

/** An empty database that no other test knows: `const database = await freshDatabase()`, `afterAll(database.drop)`. */
export async function freshDatabase(): Promise<FreshDatabase> {
  const name = `test_${randomBytes(8).toString("hex")}`
  const url = new URL(postgresUrl())
  await execute(`create database ${name}`)
  url.pathname = `/${name}`
  return { name, url: url.href, drop: () => execute(`drop database if exists ${name} with (force)`) }
}

async function execute(statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: postgresUrl() })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}
