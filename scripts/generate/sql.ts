/** From .sql files to one TypeScript module: no file is read at run time, no statement is built from strings. */
import { createHash } from "node:crypto"
import type { SourceFile } from "./files.ts"

export interface SqlSources {
  readonly statements: readonly SourceFile[]
  readonly migrations: readonly SourceFile[]
}

interface Migration {
  readonly id: number
  readonly name: string
  readonly sql: string
  readonly checksum: string
}

export function sqlModule({ statements, migrations }: SqlSources): string {
  return [
    "/** Written by scripts/generate.ts from statements/ and migrations/: change those. */",
    "export const sql = {",
    ...statements.flatMap(variants).map(([key, text]) => `  ${key}: ${JSON.stringify(text)},`),
    "} as const",
    "",
    "/** In the order they are applied; `checksum` is the sha256 of the file. */",
    "export const migrations: readonly { readonly id: number; readonly name: string; readonly sql: string; readonly checksum: string }[] = [",
    ...inOrder(migrations).map(migration => `  ${JSON.stringify(migration)},`),
    "]",
    "",
  ].join("\n")
}

/** A line `-- again: SQL` is a comment in the statement, and live in a second one whose name ends in `Again`. */
function variants(file: SourceFile): readonly (readonly [key: string, text: string])[] {
  const [key, text] = [statementKey(file), statementText(file)]
  const again = text.replaceAll(/^(\s*)-- again: /gm, "$1")
  return again === text
    ? [[key, text]]
    : [
        [key, text],
        [`${key}Again`, again],
      ]
}

/** `take_over` → `takeOver` */
function statementKey({ name }: SourceFile): string {
  if (!/^[a-z][a-z0-9]*(_[a-z0-9]+)*$/.test(name))
    throw new Error(`statements/${name}.sql: name it in snake_case`)
  return name.replaceAll(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())
}

/**
 * Without the head comment: pg_stat_activity and slow-query logs show the first kilobyte of a statement, and
 * that should be the statement.
 */
function statementText({ name, text }: SourceFile): string {
  const statement = text.replace(/^(\s*--[^\n]*\n)*/, "").trim()
  if (statement === "") throw new Error(`statements/${name}.sql: holds no statement`)
  return statement
}

function inOrder(files: readonly SourceFile[]): readonly Migration[] {
  const migrations = files.map(asMigration).sort((a, b) => a.id - b.id)
  migrations.forEach(({ id, name }, index) => {
    if (id !== index + 1) throw new Error(`migrations/: expected number ${index + 1}, found ${id} (${name})`)
  })
  return migrations
}

/** `001_journal` → number 1, name `journal` */
function asMigration({ name, text }: SourceFile): Migration {
  const parts = /^(\d+)_([a-z0-9_]+)$/.exec(name)
  if (!parts) throw new Error(`migrations/${name}.sql: name it NUMBER_what_it_does.sql`)
  const checksum = createHash("sha256").update(text).digest("hex")
  return { id: Number(parts[1]), name: parts[2] ?? "", sql: text, checksum }
}
