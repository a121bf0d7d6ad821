/** `umbra token …`: API tokens of a store (S3). */
import { isJobId } from "../engine/ids.ts"
import { UmbraError } from "../errors.ts"
import { openJournal } from "../journal/open.ts"
import type { Registry, TokenRow } from "../journal/registry.ts"
import { type Scope, Tokens } from "../server/tokens.ts"
import { exitCode } from "./exit.ts"
import { type StoreOptions, storeLocation } from "./store.ts"
import { printable } from "./terminal.ts"

export interface TokenOptions extends StoreOptions {
  readonly json?: boolean
}

export interface CreateOptions extends TokenOptions {
  readonly owner: string
  readonly scope: readonly Scope[]
}

export async function create(options: CreateOptions): Promise<number> {
  const { owner, scope: scopes } = options
  const { token, row } = await withRegistry(options, registry =>
    new Tokens(registry).create({ owner, scopes }),
  )
  // The token alone on standard output, so that a script can take it; it is never shown again.
  process.stdout.write(options.json ? `${JSON.stringify({ ...view(row), token }, null, 2)}\n` : `${token}\n`)
  if (!options.json)
    process.stderr.write(
      `Token ${row.id} of ${printable(owner)} (${row.scopes.join(", ")}). It is shown only now: keep it.\n`,
    )
  return exitCode.ok
}

export async function list(options: TokenOptions & { readonly owner?: string }): Promise<number> {
  const { owner } = options
  const rows = await withRegistry(options, registry =>
    registry.listTokens(owner === undefined ? {} : { owner }),
  )
  const lines = rows.map(row => {
    const { id, created_at, revoked_at } = view(row)
    const end = revoked_at === null ? "" : `  revoked ${revoked_at}`
    return `${id}  …${row.lastFour}  ${printable(row.owner)}  ${row.scopes.join(",")}  ${created_at}${end}\n`
  })
  if (options.json) process.stdout.write(`${JSON.stringify({ tokens: rows.map(view) }, null, 2)}\n`)
  else process.stdout.write(lines.length === 0 ? "No tokens.\n" : lines.join(""))
  return exitCode.ok
}

export async function revoke(id: string, options: TokenOptions): Promise<number> {
  const isThere =
    isJobId(id) && (await withRegistry(options, registry => registry.revokeToken({ id, at: Date.now() })))
  if (!isThere) throw new UmbraError("E604", `there is no token ${id}. \`umbra token list\` shows their ids.`)
  process.stdout.write(
    options.json ? `${JSON.stringify({ id, revoked: true })}\n` : `Token ${id} is revoked.\n`,
  )
  return exitCode.ok
}

function view({ id, owner, scopes, lastFour, createdAt, revokedAt }: TokenRow) {
  const time = (at: number) => new Date(at).toISOString()
  return {
    id,
    owner,
    scopes,
    last_four: lastFour,
    created_at: time(createdAt),
    revoked_at: revokedAt === null ? null : time(revokedAt),
  }
}

async function withRegistry<T>(options: TokenOptions, use: (registry: Registry) => Promise<T>): Promise<T> {
  const journal = await openJournal(storeLocation(options))
  try {
    return await use(journal.registry)
  } finally {
    await journal.close()
  }
}
