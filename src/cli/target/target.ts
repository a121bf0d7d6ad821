/**
 * The target of a command: a store that this process opens, or a server. For a server it is the client itself; for a
 * store it is a class with the same methods, so no command knows which one it has.
 */
import type { UmbraClient } from "../../client/client.ts"
import type { WatchOptions } from "../../client/job.ts"
import type { Tokens } from "../../client/tokens.ts"
import type { Workflows } from "../../client/workflows.ts"
import type { JobEvent } from "../../core/view/events.ts"
import type { GraphView } from "../../core/view/view.ts"
import type { NodeDetails } from "../../jobs/queries.ts"
import type { JobChange } from "./changes.ts"

export type TargetJobs = Pick<
  UmbraClient,
  "job" | "jobPage" | "cancel" | "retry" | "delete" | "signal" | "lineage" | "deadLetterPage" | "replay"
> & {
  graph(jobId: string): Promise<GraphView>
  node(jobId: string, node: string, of?: { readonly item?: number | undefined }): Promise<NodeDetails>
  events(jobId: string): Promise<readonly JobEvent[]>
  watch(jobId: string, options?: WatchOptions): AsyncIterable<JobEvent>
  submit(
    reference: string,
    input: unknown,
    options: NonNullable<Parameters<UmbraClient["accept"]>[2]>,
  ): ReturnType<UmbraClient["accept"]>
  /** Each unfinished job, and then each change of a job's state, until the signal is aborted. */
  changes(options: {
    readonly signal: AbortSignal
    readonly onTrouble: (text: string) => void
  }): AsyncIterable<JobChange>
}

/** `push` takes the text of a document. */
export type TargetWorkflows = Pick<
  Workflows,
  "get" | "list" | "versions" | "setAlias" | "deleteAlias" | "aliasHistory" | "delete"
> & {
  push(text: string): ReturnType<Workflows["push"]>
}

export interface Target {
  /** For people: a folder, a database or an address, without credentials. */
  readonly name: string
  /** Flags to add to a suggested command, so that it uses the same target. */
  readonly flags: string
  readonly jobs: TargetJobs
  readonly workflows: TargetWorkflows
  readonly tokens: Pick<Tokens, "create" | "list" | "revoke">
  /** Does an engine run submitted or retried jobs? For a shared database this is known after a command. */
  readonly isRun: boolean
  /** Translates an error of this target for a person at the command line. */
  explain(error: unknown): Promise<unknown>
  close(): Promise<void>
}

export interface TargetOptions {
  readonly dataDir?: string
  readonly databaseUrl?: string
  readonly server?: string
  readonly tokenFile?: string
  /** The owner of the names, if the target does not determine it. */
  readonly owner?: string
  /** The user's handlers, for a store: a server has its own. */
  readonly handlers?: readonly string[]
  readonly adapters?: readonly string[]
  readonly providers?: readonly string[]
  readonly verbose?: boolean
}
