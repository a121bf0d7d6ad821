/**
 * Forward-only migrations. Everything happens in one transaction behind one advisory lock: processes that
 * start together wait for the first and then find nothing to do, and a migration that fails leaves no trace.
 */
import { UmbraError } from "../../errors.ts"
import type { Log } from "../../log.ts"
import type { Database } from "./database.ts"
import { migrations as released, sql } from "./sql.generated.ts"

export interface Migration {
  readonly id: number
  readonly name: string
  readonly sql: string
  readonly checksum: string
}

export async function migrate(
  database: Database,
  migrations: readonly Migration[] = released,
  log?: Log,
): Promise<void> {
  await database.transaction(async session => {
    await session.query("migrationsLock")
    const [exists] = await session.query<{ isThere: boolean }>("migrationsExist")
    if (!exists!.isThere) {
      log?.info({}, `creating tables in ${database.label}`)
      await session.script(sql.migrationsBegin)
    }
    const applied = await session.query<Applied>("migrationsApplied")
    checkHistory(applied, migrations, database.label)
    for (const migration of migrations.slice(applied.length)) {
      await session.script(migration.sql)
      await session.query("migrationsRecord", migration)
    }
  })
}

type Applied = Omit<Migration, "sql">

function checkHistory(applied: readonly Applied[], known: readonly Migration[], label: string): void {
  const latest = known.at(-1)?.id ?? 0
  const newest = applied.at(-1)
  if (newest && newest.id > latest) {
    throw new UmbraError(
      "E505",
      `${label} is at migration ${newest.id} (${newest.name}), this release of Umbra knows ${latest}. A newer release has migrated it: start that release, or restore a backup.`,
      { details: { database: newest.id, release: latest } },
    )
  }
  applied.forEach((row, index) => {
    const migration = known[index]
    if (row.id === migration?.id && row.checksum === migration.checksum) return
    throw new UmbraError(
      "E505",
      `${label} was migrated by another program: its migration ${row.id} (${row.name}) is not the one of this release. Use the release that migrated it, or an empty database.`,
      { details: { migration: row.id, name: row.name } },
    )
  })
}
