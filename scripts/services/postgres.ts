/**
 * A private PostgreSQL: a separate cluster in a temporary folder, on a free port of 127.0.0.1, with default
 * durable settings (fsync stays on: crash tests rely on it). It requires a password, because a superuser of
 * PostgreSQL can run programs as the user that the server runs as.
 */
import { randomBytes } from "node:crypto"
import { chown, readdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import pg from "pg"
import { isExecutable, pathFolders } from "./executable.ts"
import { serviceOwner } from "./owner.ts"
import { freePort } from "./port.ts"
import { capture } from "./run.ts"
import { type Recipe, type Service, serviceFolder, startService } from "./service.ts"

const OLDEST = 14
const USER = "umbra"
const DEBIAN = "/usr/lib/postgresql"

export interface PostgresProgram {
  /** The folder of `postgres` and `initdb`. */
  readonly bin: string
  readonly version: string
}

export interface Postgres extends Service {
  readonly url: string
  readonly port: number
  readonly version: string
}

export interface PostgresOptions {
  /** Additional server settings, by name: `{ log_statement: "all" }`. */
  readonly settings?: Readonly<Record<string, string>>
}

/** Returns the first program that is new enough, or what is missing. */
export async function findPostgres(): Promise<PostgresProgram | string> {
  const tooOld: string[] = []
  for (const bin of await candidates()) {
    if (!(await isExecutable(join(bin, "postgres"))) || !(await isExecutable(join(bin, "initdb")))) continue
    const version = await versionOf(bin)
    if (Number.parseInt(version, 10) >= OLDEST) return { bin, version }
    tooOld.push(version)
  }
  const found = tooOld.length > 0 ? `only ${tooOld.join(", ")} is installed` : "it is not installed"
  return `PostgreSQL ${OLDEST} or newer (server programs initdb and postgres): ${found}`
}

async function candidates(): Promise<readonly string[]> {
  const versions = await readdir(DEBIAN).catch(() => [])
  const newestFirst = versions.sort((a, b) => Number(b) - Number(a))
  const configured = await capture("pg_config", ["--bindir"]).catch(() => null)
  return [
    ...pathFolders(),
    ...(configured === null ? [] : [configured]),
    ...newestFirst.map(version => join(DEBIAN, version, "bin")),
  ]
}

/** `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)` → `15.18` */
async function versionOf(bin: string): Promise<string> {
  const line = await capture(join(bin, "postgres"), ["--version"])
  return /\(PostgreSQL\) (\S+)/.exec(line)?.[1] ?? line
}

export async function startPostgres(options: PostgresOptions = {}): Promise<Postgres> {
  const program = await findPostgres()
  if (typeof program === "string") throw new Error(`install ${program}`)
  const owner = await serviceOwner()
  const folder = await serviceFolder("postgres", owner)
  const port = await freePort()
  const password = randomBytes(12).toString("hex")
  const url = `postgres://${USER}:${password}@127.0.0.1:${port}/postgres`
  const settings = { max_connections: "200", unix_socket_directories: folder, ...options.settings }
  const data = join(folder, "data")
  const recipe: Recipe = {
    name: "PostgreSQL",
    command: join(program.bin, "postgres"),
    args: ["-D", data, "-h", "127.0.0.1", "-p", String(port), ...asFlags(settings)],
    folder,
    owner,
    restartSignal: "SIGINT",
    stopSignal: "SIGQUIT",
    async prepare() {
      const passwordFile = join(folder, "password")
      await writeFile(passwordFile, password, { mode: 0o600 })
      if (owner) await chown(passwordFile, owner.uid, owner.gid)
      await capture(join(program.bin, "initdb"), initdbArgs(data, passwordFile), { cwd: folder, ...owner })
    },
    ready: () => answersQueries(url),
  }
  const service = await startService(recipe)
  return { ...service, url, port, version: program.version }
}

/** Without `--no-sync` initdb alone takes seconds; after a power failure only a test run is lost. */
const initdbArgs = (data: string, passwordFile: string): readonly string[] => [
  `--pgdata=${data}`,
  `--username=${USER}`,
  `--pwfile=${passwordFile}`,
  "--auth=scram-sha-256",
  "--encoding=UTF8",
  "--locale=C",
  "--no-sync",
]

const asFlags = (settings: Readonly<Record<string, string>>): readonly string[] =>
  Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`])

async function answersQueries(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 1_000 })
  // A server that stops while we connect also emits an error on the client; without a listener that would end
  // this process.
  client.on("error", () => {})
  try {
    await client.connect()
    await client.query("select 1")
    return true
  } finally {
    await client.end().catch(() => {})
  }
}
