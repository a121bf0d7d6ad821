/**
 * Where the jobs are, for every command: a store that this process opens, or a server. The server's side is the client
 * itself; the store's side answers the same questions in the same words, so no command knows which it has.
 */
import type { UmbraClient } from "../../client/client.ts"
import type { WatchOptions } from "../../client/job.ts"
import type { Tokens } from "../../client/tokens.ts"
import type { Workflows } from "../../client/workflows.ts"
import type { JobEvent } from "../../core/view/events.ts"
import type { GraphView } from "../../core/view/view.ts"
import type { NodeDetails } from "../../jobs/queries.ts"
import type { JobChange } from "./changes.ts"

export type PlaceJobs = Pick<
  UmbraClient,
  "job" | "jobPage" | "cancel" | "retry" | "delete" | "signal" | "lineage" | "deadLetterPage" | "replay"
> & {
  graph(jobId: string): Promise<GraphView>
  node(jobId: string, node: string, of?: { readonly item?: number }): Promise<NodeDetails>
  events(jobId: string): Promise<readonly JobEvent[]>
  watch(jobId: string, options?: WatchOptions): AsyncIterable<JobEvent>
  submit(
    reference: string,
    input: unknown,
    options: NonNullable<Parameters<UmbraClient["accept"]>[2]>,
  ): ReturnType<UmbraClient["accept"]>
  /** Each job that has not ended, and then each change of a job's state, until the signal is aborted. */
  changes(options: {
    readonly signal: AbortSignal
    readonly onTrouble: (text: string) => void
  }): AsyncIterable<JobChange>
}

/** `push` takes the text of a document. */
export type PlaceWorkflows = Pick<
  Workflows,
  "get" | "list" | "versions" | "setAlias" | "deleteAlias" | "aliasHistory" | "delete"
> & {
  push(text: string): ReturnType<Workflows["push"]>
}

export interface Target {
  /** For a person: a folder, a database or an address, without credentials. */
  readonly name: string
  /** What to add to a command that we suggest, so that it finds the same place. */
  readonly flags: string
  readonly jobs: PlaceJobs
  readonly workflows: PlaceWorkflows
  readonly tokens: Pick<Tokens, "create" | "list" | "revoke">
  /** Does somebody run what was submitted or put back? Of a shared database it is known after a command. */
  readonly isRun: boolean
  /** What an error of this place means to a person at the command line. */
  explain(error: unknown): Promise<unknown>
  close(): Promise<void>
}

export interface PlaceOptions {
  readonly dataDir?: string
  readonly databaseUrl?: string
  readonly server?: string
  readonly tokenFile?: string
  /** Whose names are meant, where the place does not say it. */
  readonly owner?: string
  /** Handlers of the user's, for a store: a server knows its own. */
  readonly handlers?: readonly string[]
  readonly adapters?: readonly string[]
  readonly providers?: readonly string[]
  readonly verbose?: boolean
}
