/** `umbra token …`: API tokens (S3). */
import type { Token } from "../../client/index.ts"
import { exitCode } from "../exit.ts"
import { print, tableLines } from "../output/print.ts"
import { printable } from "../output/terminal.ts"
import { type TargetOptions, withTarget } from "../target/open.ts"

type TokenOptions = Omit<TargetOptions, "owner">

export interface CreateOptions extends TokenOptions {
  readonly owner: string
  readonly scope: readonly string[]
  readonly rateLimit?: number
  readonly maxUnfinishedJobs?: number
  readonly maxBodyBytes?: number
}

export async function create({ owner, scope: scopes, ...options }: CreateOptions): Promise<number> {
  const {
    rateLimit: rate_limit,
    maxUnfinishedJobs: max_unfinished_jobs,
    maxBodyBytes: max_body_bytes,
  } = options
  const wanted = { owner, scopes, rate_limit, max_unfinished_jobs, max_body_bytes }
  const created = await withTarget(options, ({ tokens }) => tokens.create(wanted), { make: true })
  const { token, server_is_open, ...row } = created
  // Standard output has only the token, for scripts; it is never shown again.
  print(options, { ...row, token }, `${token}\n`)
  if (!options.json)
    process.stderr.write(
      `Token ${row.id} of ${printable(owner)} (${[...row.scopes, ...limitTexts(row)].join(", ")}). The token is shown only once: store it now.\n`,
    )
  if (server_is_open)
    process.stderr.write(
      "The server was started without tokens. It requires them after a restart; until then every program on its machine has access.\n",
    )
  return exitCode.ok
}

export async function list({
  owner,
  ...options
}: TokenOptions & { readonly owner?: string }): Promise<number> {
  const rows = await withTarget(options, ({ tokens }) => tokens.list({ owner }), { make: true })
  return print(options, { tokens: rows }, () => (rows.length === 0 ? "No tokens.\n" : listing(rows)))
}

export async function revoke(id: string, options: TokenOptions): Promise<number> {
  await withTarget(options, ({ tokens }) => tokens.revoke(id), { make: true })
  process.stdout.write(
    options.json ? `${JSON.stringify({ id, revoked: true })}\n` : `Token ${id} is revoked.\n`,
  )
  return exitCode.ok
}

function listing(tokens: readonly Token[]): string[] {
  const rows = tokens.map(token => {
    const { id, last_four, owner, scopes, created_at, revoked_at } = token
    const end = [created_at, ...limitTexts(token), ...(revoked_at === null ? [] : [`revoked ${revoked_at}`])]
    return [id, `…${last_four}`, printable(owner), scopes.join(","), end.join("  ")]
  })
  return tableLines(rows)
}

/** Limits of the token itself; for the others the server's defaults apply. */
function limitTexts({ rate_limit, max_unfinished_jobs, max_body_bytes }: Token): string[] {
  return Object.entries({ rate_limit, max_unfinished_jobs, max_body_bytes })
    .filter(([, limit]) => limit !== null)
    .map(([name, limit]) => `${name} ${limit}`)
}
