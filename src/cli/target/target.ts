/**
 * The target of a command: a server, through its client, or a store that this process opens. A store answers with the
 * JSON of the server's API, made by the same functions, so no command knows which one it has.
 */
import type { UmbraClient } from "../../client/client.ts"
import type { CompiledGraph, JobSnapshot } from "../../client/index.ts"
import type { Tokens } from "../../client/tokens.ts"
import type { Workflows } from "../../client/workflows.ts"
import type { Modules } from "../input/modules.ts"
import type { StoreOptions } from "../input/store.ts"
import type { JobChange } from "./changes.ts"

export type TargetJobs = Pick<
  UmbraClient,
  | ("job" | "jobPage" | "graph" | "graphAt" | "factPage" | "node" | "events" | "watch" | "accept")
  | ("cancel" | "retry" | "delete" | "signal" | "lineage" | "deadLetterPage" | "replay")
>

export type TargetWorkflows = Pick<
  Workflows,
  "get" | "list" | "versions" | "setAlias" | "deleteAlias" | "aliasHistory" | "delete"
>

export interface Target {
  /** For people: a folder, a database or an address, without credentials. */
  readonly name: string
  /** Flags to add to a suggested command, so that it uses the same target. */
  readonly flags: string
  readonly jobs: TargetJobs
  readonly workflows: TargetWorkflows
  /** The compiled graph of the version that the job runs. */
  compiledGraph(job: JobSnapshot): Promise<CompiledGraph>
  readonly tokens: Pick<Tokens, "create" | "list" | "revoke">
  /** Stores a workflow, given as the text of a document. */
  push(text: string): ReturnType<Workflows["push"]>
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
