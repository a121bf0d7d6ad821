/** Selects the target of a command: by flag, by variable, or the folder in the current directory and the server that has it. */

import type { RemoteArtifacts } from "../../client/artifacts.ts"
import type { RemoteBulk } from "../../client/bulk.ts"
import type { RemoteCapacity } from "../../client/capacity.ts"
import type { UmbraClient } from "../../client/client.ts"
import { UmbraClientError } from "../../client/error.ts"
import type {
  ArtifactReference,
  CompiledGraph,
  ExecutionPage,
  ExecutionsOptions,
  JobSnapshot,
} from "../../client/index.ts"
import type { RemoteLogs } from "../../client/logs.ts"
import type { RemoteSchedules } from "../../client/schedules.ts"
import type { RemoteTokens, RemoteWorkflows } from "../../client/workflows.ts"
import { Suggester } from "../../definition/suggest.ts"
import { UmbraError } from "../../errors.ts"
import { isPostgres } from "../../journal/location.ts"
import type { Modules } from "../input/modules.ts"
import { readText } from "../input/source.ts"
import { existingStore, type StoreOptions, storeFlags, storeLocation } from "../input/store.ts"
import { paintFor } from "../output/terminal.ts"
import type { JobChange } from "./changes.ts"
import { inTurn } from "./folder-wait.ts"
import { findServer } from "./served.ts"
import { openServer, type ServerAddress } from "./server.ts"

export interface Wanted {
  /** A folder without a database gets one. */
  readonly make?: boolean
}

/** Opens the target, closes it, and translates errors of the client into advice for the command line. */
export async function withTarget<T>(
  options: TargetOptions,
  use: (target: Target) => Promise<T>,
  wanted: Wanted = {},
): Promise<T> {
  return inTurn(() => once(options, use, wanted), { through: true })
}

/** The entries of a list, at most the first `most`. */
export async function listed<T>(found: AsyncIterable<T>, most = Number.POSITIVE_INFINITY): Promise<T[]> {
  const list: T[] = []
  for await (const one of found) if (list.push(one) >= most) break
  return list
}

/** A store is opened at its first use: a rejected command has done nothing. */
async function once<T>(
  options: TargetOptions,
  use: (target: Target) => Promise<T>,
  wanted: Wanted,
): Promise<T> {
  const target = await openTarget(options, wanted)
  try {
    return await use(target)
  } catch (error) {
    throw await advised(await target.explain(error), target)
  } finally {
    await target.close()
  }
}

export async function openTarget(options: TargetOptions, { make = false }: Wanted = {}): Promise<Target> {
  const server = await serverFor(options)
  if (server !== null) return server
  // Imported only here: it loads a database driver, which a command through a server does not need.
  const { openStore } = await import("./store.ts")
  return openStore(make ? storeLocation(options) : existingStore(options), options)
}

/** null: the target is a store that this process opens. */
export async function serverFor(options: TargetOptions): Promise<Target | null> {
  const { server, owner, verbose } = options
  const isStore = options.dataDir !== undefined || options.databaseUrl !== undefined
  const url = server ?? (isStore ? undefined : process.env.UMBRA_SERVER || undefined)
  if (url !== undefined) {
    if (owner !== undefined)
      throw new UmbraError(
        "E604",
        "--owner is for a folder or a database; on a server the token determines the owner.",
      )
    const flags = server === undefined ? "" : ` --server ${server}`
    return atAddress({ url, flags, ...(await tokenFor(options)) })
  }
  const location = storeLocation(options)
  const found = isPostgres(location) ? null : await findServer(location)
  if (found === null) return null
  if (verbose || process.stderr.isTTY)
    process.stderr.write(
      paintFor(process.stderr).dim(`Using the server at ${found.url}, which has ${location}.\n`),
    )
  return openServer({
    url: found.url,
    // `watch` may outlive the server and its token. A server at another address is not the same one.
    token: async () => {
      const now = await findServer(location).catch(() => null)
      return now?.url === found.url ? now.token : found.token
    },
    tokenFrom: `the server.json in ${location}`,
    flags: storeFlags(options),
    owner,
  })
}

function atAddress(address: ServerAddress): Target {
  try {
    return openServer(address)
  } catch (error) {
    if (error instanceof UmbraClientError) throw new UmbraError("E651", error.message, { cause: error })
    throw error
  }
}

/** From a file or a variable: arguments stay in the shell's history and in the list of processes. */
async function tokenFor({ tokenFile }: TargetOptions): Promise<Pick<ServerAddress, "token" | "tokenFrom">> {
  const token = (tokenFile === undefined ? process.env.UMBRA_TOKEN : (await readText(tokenFile)).text)?.trim()
  if (!token) return {}
  const tokenFrom = tokenFile ?? "UMBRA_TOKEN"
  // Only characters that a header can hold; otherwise the error of fetch would show the token.
  if (!/^[\x21-\x7e]+$/.test(token))
    throw new UmbraError(
      "E604",
      `${tokenFrom} has no valid token. A token is umbra_ followed by 43 letters, digits, - or _.`,
    )
  return { token, tokenFrom }
}

/** A suggestion reads at most this many names of workflows. */
const MOST_NAMES = 1000

/** The error, with a suggestion if it is about a workflow that does not exist. */
export async function advised(error: unknown, { workflows }: Pick<Target, "workflows">): Promise<unknown> {
  if (!(error instanceof UmbraError) || error.code !== "E305") return error
  const wanted = /^There is no workflow "(.+)"\./s.exec(error.message)?.[1]
  if (wanted === undefined) return error
  const hint = await hintFor(wanted, workflows).catch(() => "")
  return hint === ""
    ? error
    : new UmbraError("E305", `There is no workflow "${wanted}". ${hint}`, { cause: error })
}

async function hintFor(wanted: string, workflows: Target["workflows"]): Promise<string> {
  const [, name, behind] = /^(.+)@([^@]+)$/s.exec(wanted) ?? []
  const names = new Map<string, number>()
  for await (const found of workflows.list()) {
    names.set(found.name, found.version)
    if (names.size === MOST_NAMES) break
  }
  const latest = name === undefined ? undefined : names.get(name)
  if (latest === undefined) return new Suggester().hint(name ?? wanted, names.keys()).trim()
  const { aliases = [] } = await workflows.get(name!)
  const known = ["latest", ...aliases.map(({ alias }) => alias)].join(", ")
  return /^\d+$/.test(behind!)
    ? `The newest version of ${name} is ${latest}.`
    : `The aliases of ${name} are: ${known}; its newest version is ${latest}.`
}

/**
 * The target of a command: a server, through its client, or a store that this process opens. A store answers with the
 * JSON of the server's API, made by the same functions, so no command knows which one it has.
 */

export type TargetJobs = Pick<
  UmbraClient,
  | (
      | "job"
      | "jobPage"
      | "graph"
      | "graphAt"
      | "compare"
      | "factPage"
      | "node"
      | "items"
      | "events"
      | "watch"
      | "accept"
    )
  | ("durations" | "nodeConfig" | "payload" | "failures")
  | ("cancel" | "retry" | "delete" | "signal" | "lineage" | "deadLetterPage" | "replay")
  | ("acceptFork" | "previewFork")
  | ("pause" | "resume" | "reschedule" | "describe" | "why" | "waits")
>

export type TargetBulk = Pick<RemoteBulk, "count" | "start" | "get" | "list" | "refused" | "abort">

export interface TargetArtifacts extends Pick<RemoteArtifacts, "list" | "remove" | "sweep"> {
  /** Stores what the stream has. */
  put(name: string, body: ReadableStream<Uint8Array>, type: string | undefined): Promise<ArtifactReference>
  get(hash: string): Promise<AsyncIterable<Uint8Array>>
}

export type TargetSchedules = Pick<
  RemoteSchedules,
  | ("put" | "get" | "list" | "fires" | "pause" | "resume" | "run" | "delete")
  | ("previewBackfill" | "backfill" | "preview" | "ticks")
>

export type TargetWorkflows = Pick<
  RemoteWorkflows,
  | ("get" | "list" | "versions" | "statistics" | "setAlias" | "deleteAlias" | "aliasHistory" | "delete")
  | ("diff" | "pause" | "resume")
>

export interface Target {
  /** For people: a folder, a database or an address, without credentials. */
  readonly name: string
  /** Flags to add to a suggested command, so that it uses the same target. */
  readonly flags: string
  readonly jobs: TargetJobs
  readonly bulk: TargetBulk
  readonly schedules: TargetSchedules
  readonly workflows: TargetWorkflows
  /** null: only a server knows it. */
  readonly capacity: RemoteCapacity | null
  /** Executions of pipelines, newest first. */
  executions(options: ExecutionsOptions): Promise<ExecutionPage>
  logPage: RemoteLogs["page"]
  readonly artifacts: TargetArtifacts
  /** The compiled graph of the version that the job runs. */
  compiledGraph(job: JobSnapshot): Promise<CompiledGraph>
  readonly tokens: Pick<RemoteTokens, "create" | "list" | "revoke">
  /** Stores a workflow, given as the text of a document. */
  push(text: string): ReturnType<RemoteWorkflows["push"]>
  /** Each unfinished job, and then each change of a job's state, until the signal is aborted. */
  changes(options: {
    readonly signal: AbortSignal
    readonly onTrouble: (text: string) => void
  }): AsyncIterable<JobChange>
  /** Does an engine run submitted or retried jobs? For a shared database this is known after a command. */
  readonly isRun: boolean
  /** Translates an error of this target for a person at the command line. */
  explain(error: unknown): Promise<unknown>
  close(): Promise<void>
}

/** The modules are for a store: a server has its own. */
export interface TargetOptions extends StoreOptions, Modules {
  readonly server?: string
  readonly tokenFile?: string
  /** The owner of the names, if the target does not determine it. */
  readonly owner?: string
  readonly verbose?: boolean
  readonly json?: boolean
}
