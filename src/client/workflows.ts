/** Workflows of the server: their versions and aliases. */
import type { Definition, Workflow } from "../definition/typed/builder.ts"
import type { Http } from "./http.ts"
import { isoText, segment } from "./requests.ts"
import type {
  Alias,
  AliasMove,
  NewToken,
  PushedWorkflow,
  Session,
  Signalled,
  StatisticsOptions,
  StoredWorkflow,
  Token,
  ValidWorkflow,
  VersionGraph,
  WantedToken,
  Weights,
  WorkflowDiff,
  WorkflowStatistics,
  WorkflowVersion,
} from "./types.ts"

/** A workflow made with the builder, a definition, or the text of a document: JSON, or YAML of at most 8 KiB. */
export type WorkflowDocument = Workflow | Definition | string

export class RemoteWorkflows {
  readonly #http: Http
  /** The pushed content of an object and the result: it is pushed once, unless it has changed since. */
  readonly #pushed = new WeakMap<
    object,
    { readonly text: string; readonly pushed: Promise<PushedWorkflow> }
  >()

  constructor(http: Http) {
    this.#http = http
  }

  /** Stores the workflow; unchanged content is not a new version. */
  push(workflow: WorkflowDocument, options: Signalled = {}): Promise<PushedWorkflow> {
    return this.#http.ask("/workflows", { method: "POST", safe: true, ...content(workflow), ...options })
  }

  /** As `push`, once per object. A failure is not cached: the next call tries again. */
  pushOnce(workflow: Workflow | Definition, options: Signalled = {}): Promise<PushedWorkflow> {
    const text = JSON.stringify(unwrapDefinition(workflow))
    const known = this.#pushed.get(workflow)
    if (known?.text === text) return known.pushed
    const pushed = this.push(workflow, options)
    this.#pushed.set(workflow, { text, pushed })
    pushed.catch(() => this.forget(workflow))
    return pushed
  }

  forget(workflow: object): void {
    this.#pushed.delete(workflow)
  }

  /** Every problem is in the error's `problems`. `graph`, `definition`: answer also with the compiled graph, the document as JSON. */
  validate(
    workflow: WorkflowDocument,
    {
      graph = false,
      definition = false,
      ...options
    }: Signalled & { readonly graph?: boolean; readonly definition?: boolean } = {},
  ): Promise<ValidWorkflow> {
    return this.#http.ask("/workflows/validate", {
      method: "POST",
      safe: true,
      query: { graph: graph ? "true" : undefined, definition: definition ? "true" : undefined },
      ...content(workflow),
      ...options,
    })
  }

  /** The latest version with its aliases, or one version. */
  async get(
    name: string,
    options: Signalled & { readonly version?: number | undefined } = {},
  ): Promise<StoredWorkflow> {
    const { version, ...rest } = options
    const path = version === undefined ? "" : `/versions/${version}`
    return this.#http.ask(`${workflowPath(name)}${path}`, rest)
  }

  /** The compiled graph of a version, also of a deleted one. It never changes. */
  graph(name: string, version: number, options: Signalled = {}): Promise<VersionGraph> {
    return this.#http.ask(`${workflowPath(name)}/versions/${version}/graph`, options)
  }

  /** Durations, usage and failures of its jobs, by default in the last 24 hours. */
  statistics(
    name: string,
    { version, from, to, signal }: StatisticsOptions & { readonly version?: number | undefined } = {},
  ): Promise<WorkflowStatistics> {
    const query = { version, from: isoText(from), to: isoText(to) }
    return this.#http.ask(`${workflowPath(name)}/stats`, { query, signal })
  }

  /** By name, each with its latest version. */
  async *list(
    options: Signalled & { readonly pageSize?: number } = {},
  ): AsyncGenerator<WorkflowVersion, void, undefined> {
    const { signal, pageSize } = options
    yield* this.#http.list<WorkflowVersion>("/workflows", "workflows", { query: { limit: pageSize }, signal })
  }

  /** Newest first. */
  async *versions(
    name: string,
    options: Signalled & { readonly pageSize?: number } = {},
  ): AsyncGenerator<WorkflowVersion, void, undefined> {
    const { signal, pageSize } = options
    const query = { limit: pageSize }
    yield* this.#http.list<WorkflowVersion>(
      `${workflowPath(name)}/versions`,
      "versions",
      { query, signal },
      "before",
    )
  }

  async diff(name: string, between: { readonly from: number; readonly to: number }): Promise<WorkflowDiff> {
    return this.#http.ask(`${workflowPath(name)}/diff`, { query: { ...between } })
  }

  /** To a version, or to several by weight: `{ 2: 90, 3: 10 }`. */
  async setAlias(name: string, alias: string, target: number | Weights): Promise<Alias> {
    return this.#http.ask(`${workflowPath(name)}/aliases/${segment(alias)}`, {
      method: "PUT",
      safe: true,
      body: typeof target === "number" ? { version: target } : { weights: target },
    })
  }

  /** Running jobs keep their version; the history of the alias is kept. */
  async deleteAlias(name: string, alias: string): Promise<void> {
    await this.#http.ask(`${workflowPath(name)}/aliases/${segment(alias)}`, { method: "DELETE" })
  }

  /** Newest first. */
  async aliasHistory(name: string, alias: string, options: Signalled = {}): Promise<readonly AliasMove[]> {
    const path = `${workflowPath(name)}/aliases/${segment(alias)}/history`
    return (await this.#http.ask<{ moves: AliasMove[] }>(path, options)).moves
  }

  /** New jobs are stored and do not begin until `resume`. */
  pause(name: string, { reason }: { readonly reason?: string | undefined } = {}): Promise<StoredWorkflow> {
    const body = reason === undefined ? undefined : { reason }
    return this.#http.ask(`${workflowPath(name)}/pause`, { method: "POST", safe: true, body })
  }

  /** New jobs begin again; those that waited are resumed a page at a time. */
  resume(name: string): Promise<StoredWorkflow> {
    return this.#http.ask(`${workflowPath(name)}/resume`, { method: "POST", safe: true })
  }

  /** Running jobs keep their version. */
  async delete(name: string): Promise<void> {
    await this.#http.ask(workflowPath(name), { method: "DELETE" })
  }
}

const workflowPath = (name: string): string => `/workflows/${segment(name)}`

function content(workflow: WorkflowDocument): { readonly body: unknown; readonly contentType?: string } {
  return typeof workflow === "string"
    ? { body: workflow, contentType: `application/${isJson(workflow) ? "json" : "yaml"}` }
    : { body: unwrapDefinition(workflow) }
}

/** JSON may be longer than YAML. Text that only resembles JSON is sent as YAML, a superset of JSON. */
function isJson(text: string): boolean {
  if (!/^\s*\{/.test(text)) return false
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function unwrapDefinition(workflow: Workflow | Definition): unknown {
  return "definition" in workflow ? workflow.definition : workflow
}

const MOST_AT_ONCE = 1000

/**
 * Logins of people in browsers: the server exchanges a token for a cookie, which scripts cannot read. For a page of the
 * server itself; connect with `headers: { "umbra-csrf": "1" }` and without a token.
 */
export class RemoteSessions {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  /** Who is logged in; also answered if nobody is. */
  get(options: Signalled = {}): Promise<Session> {
    return this.#http.ask("/session", options)
  }

  /** `token`: an API token, or a JWT. */
  create(token: string): Promise<Session> {
    return this.#http.ask("/session", { method: "POST", body: { token } })
  }

  async end(): Promise<void> {
    await this.#http.ask("/session", { method: "DELETE" })
  }
}

/** API tokens of the server; needs the scope admin. */
export class RemoteTokens {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  /** Never sent twice: that might create two tokens. */
  create(wanted: WantedToken): Promise<NewToken> {
    return this.#http.ask("/tokens", { method: "POST", body: wanted })
  }

  /** Oldest first, including revoked tokens. */
  async list(options: Signalled & { readonly owner?: string | undefined } = {}): Promise<readonly Token[]> {
    const { owner, signal } = options
    const all: Token[] = []
    const query = { owner, limit: MOST_AT_ONCE }
    for await (const token of this.#http.list<Token>("/tokens", "tokens", { query, signal })) all.push(token)
    return all
  }

  async revoke(id: string): Promise<void> {
    await this.#http.ask(`/tokens/${encodeURIComponent(id)}`, { method: "DELETE" })
  }
}
