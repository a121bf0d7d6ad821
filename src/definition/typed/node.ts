/** One node of a builder: its options and its handle. */
import type { RetryPolicy } from "../../core/plan.ts"
import { UmbraError } from "../../errors.ts"
import { defaultLimits } from "../limits.ts"
import { idPattern, reservedIds } from "../names.ts"
import type { NodeDefinition } from "../shape/schema.ts"
import { emit, type Place } from "./emit.ts"
import type { Ref, RefOf, Templated } from "./types.ts"
import { written } from "./written.ts"

export type RetryOptions = Partial<RetryPolicy>

export interface NodeOptions {
  /** Nodes that must be done first, in addition to those whose output the config reads. */
  readonly after?: readonly AnyNode[]
  /** If false, the node is skipped and its output is `{"skipped": true}`, so all its other fields may be missing. */
  readonly when?: Templated<boolean>
  readonly timeoutSeconds?: number
  /** An attempt is aborted and fails if its handler sends no heartbeat (`ctx.heartbeat()`) for this time. */
  readonly heartbeatSeconds?: number
  readonly retry?: RetryOptions
  /** External service whose slots and rate limit the node uses. */
  readonly provider?: string
}

export interface EachOptions extends NodeOptions {
  /** Items that may run at the same time. */
  readonly maxParallel?: number
  /** false: when an item fails, the others continue, and the node fails when all have ended. */
  readonly failFast?: boolean
}

/** For a node that runs another workflow. */
export interface RunOptions extends NodeOptions {
  /** Its version: a number or an alias. Left out: the latest when the node starts. */
  readonly at?: number | string
}

export interface RunEachOptions extends EachOptions {
  readonly at?: number | string
}

/** Any node that was added. */
export interface AnyNode {
  readonly id: string
  readonly output: RefOf<unknown>
}

/** A node that was added. Later nodes read its output. */
export interface NodeHandle<Output> extends AnyNode {
  readonly output: Ref<Output>
}

/** A class, so that a handle passed by mistake instead of its output can be told from plain data. */
export class AddedNode<Output> implements NodeHandle<Output> {
  readonly id: string
  readonly output: Ref<Output>

  constructor(id: string, output: Ref<Output>) {
    this.id = id
    this.output = output
  }
}

export interface NodeContent {
  readonly id: string
  readonly handler: string
  readonly config: unknown
  readonly options: EachOptions
  readonly forEach?: RefOf<readonly unknown[]> | readonly unknown[]
}

/** `owned`: the handles of the same flow, since an id alone could be that of another workflow's node. */
export function nodeDefinition(node: NodeContent, place: Place, owned: ReadonlySet<unknown>): NodeDefinition {
  const { id, handler, config, options, forEach } = node
  const { timeoutSeconds, heartbeatSeconds, retry, provider, maxParallel, failFast } = options
  const at = (key: string): Place => ({ ...place, path: `nodes.${id}.${key}` })
  const dependencies = options.after?.map(other => dependencyId(id, other, owned))
  return {
    id,
    handler,
    ...(config !== undefined && { config: emit(config, at("config")) as Record<string, unknown> }),
    ...(dependencies?.length && { dependencies }),
    ...written({ timeoutSeconds, heartbeatSeconds, retry, provider, maxParallel, failFast }),
    ...(options.when !== undefined && { when: emit(options.when, at("when")) as string | boolean }),
    ...(forEach !== undefined && { for_each: emit(forEach, at("for_each")) as string | unknown[] }),
  }
}

function dependencyId(id: string, other: AnyNode, owned: ReadonlySet<unknown>): string {
  if (owned.has(other)) return other.id
  throw new UmbraError(
    "E105",
    `node ${JSON.stringify(id)}: after: [${String(other?.id)}] is not a node of this workflow. ` +
      "Use what this flow's node() returned.",
  )
}

/** Checked here as well as by the compiler: here the stack trace points at the line that added the node. */
export function checkId(id: string, taken: boolean): void {
  if (taken)
    throw new UmbraError("E104", `there is already a node ${JSON.stringify(id)}. Give this one another id.`)
  if (reservedIds.has(id)) {
    throw new UmbraError(
      "E101",
      `a node cannot be called ${JSON.stringify(id)}: templates use that name. Rename it.`,
    )
  }
  if (!idPattern.test(id) || id.length > defaultLimits.idLength) {
    throw new UmbraError(
      "E101",
      `${JSON.stringify(id)} is not a valid node id. Use letters, digits, _ and -, starting with a letter or _, ` +
        `at most ${defaultLimits.idLength} characters.`,
    )
  }
}
