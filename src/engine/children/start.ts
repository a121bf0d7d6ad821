import type { ChildRequest } from "../../broker/port.ts"
import type { AttemptRef, Reported, Submit } from "../../core/commands.ts"
import type { Waiting } from "../../core/facts.ts"
import { findTask, hasCompleted, isCurrent } from "../../core/state.ts"
import { jobHasEnded } from "../../core/states.ts"
import { checkSubmission } from "../../definition/index.ts"
import type { Plan } from "../../definition/plan.ts"
import { UmbraError } from "../../errors.ts"
import type { Journal } from "../../journal/port/journal.ts"
import type { Clock } from "../clock.ts"
import type { MustFit } from "../dispatch/pipeline-needs.ts"
import type { ForkPreparation } from "../forks/forks.ts"
import { childJobId } from "../ids.ts"
import type { LiveJob } from "../owner/live-job.ts"
import type { PartitionOwner } from "../owner/owner.ts"
import { type ClaimExecution, isFull, NoPlaceError, placeForRetry } from "../pipeline-places.ts"
import type { Plans } from "../plans.ts"
import type { EngineSettings } from "../settings.ts"
import { Versions } from "../versions.ts"
import { childFault, childResult, usageFor } from "./result.ts"

export interface ChildStartsParts {
  readonly journal: Journal
  readonly partitionOwner: PartitionOwner
  readonly plans: Plans
  readonly clock: Clock
  readonly settings: EngineSettings
  readonly maxOutputBytes: number
  readonly claimExecution: ClaimExecution
  readonly forks: ForkPreparation
  readonly mustFit: MustFit
  /** Set in the submission of a job whose workflow is paused. */
  readonly paused: (owner: string, name: string) => Pick<Submit, "paused">
}

interface ResumedChild {
  readonly child: LiveJob
  /** Releases its place among the executions. */
  readonly releasePlace: (() => Promise<void>) | null
}

/**
 * Starts the child job for a node that runs another workflow.
 *
 * 1. The child's id follows from the node. A first attempt finds no child; a later one finds the existing child, if there
 *    is one: it continues from what it has done. A child that was deleted without a result never continues: another begins.
 * 2. The change to the child and the fact that the node waits for it are one commit.
 */
export class ChildStarts {
  readonly #parts: ChildStartsParts
  readonly #versions: Versions

  constructor(parts: ChildStartsParts) {
    this.#parts = parts
    this.#versions = new Versions(parts.journal, () => parts.clock.random())
  }

  async start(job: LiveJob, at: Reported, request: ChildRequest): Promise<void> {
    const id = lastChild(job, at) ?? childJobId(job.id, at.node, at.item)
    const known = at.attempt === 1 ? null : await this.#resumeIfKnown(job, at, id)
    if (known === null) await this.#begin(job, at, { id, request })
    else if (known === "deleted")
      await this.#begin(job, at, { id: childJobId(job.id, at.node, at.item, at.attempt), request })
  }

  #resumeIfKnown(job: LiveJob, at: Reported, childId: string): Promise<"resumed" | "deleted" | null> {
    return this.#parts.partitionOwner.withJob(childId, async child => {
      if (child.state.status === "DELETED" && !hasCompleted(child.state)) return "deleted"
      const releasePlace = await this.#placeForRetry(child)
      await this.#resume(job, at, { child, releasePlace })
      return "resumed"
    })
  }

  async #placeForRetry(child: LiveJob): Promise<(() => Promise<void>) | null> {
    try {
      return await placeForRetry(child, this.#parts.claimExecution)
    } catch (error) {
      const { finishedAt: endedAt, workflow: pipeline } = child.state
      throw isFull(error) ? new NoPlaceError(error, { childId: child.id, endedAt, pipeline }) : error
    }
  }

  async #begin(
    job: LiveJob,
    at: Reported,
    { id, request }: { id: string; request: ChildRequest },
  ): Promise<void> {
    const { partitionOwner, plans, settings } = this.#parts
    const path = [...(job.state.parent?.path ?? []), job.state.workflow]
    const { name, version } = await this.#versions.resolve(job.state.owner, request.workflow)
    checkPath(path, name, settings.maxDepth)
    const plan = await plans.get(job.state.owner, name, version)
    checkKind(request, plan)
    this.#parts.mustFit(plan, job.state.owner)
    const input = await checkSubmission(plan, request.input, job.state)
    const releasePlace = plan.pipeline === null ? null : await this.#place(id, name)
    if (!isWanted(job, at)) return releasePlace?.()
    const item = at.item === undefined ? {} : { item: at.item }
    const parent = { job_id: job.id, node: at.node, ...item, path }
    const command: Submit = {
      type: "submit",
      owner: job.state.owner,
      workflow: name,
      workflowVersion: version,
      input,
      ttlSeconds: plan.ttlSeconds ?? settings.ttlSeconds,
      priority: job.state.priority,
      parent,
      traceparent: job.state.traceparent ?? undefined,
      retryDefaults: job.state.retryDefaults ?? undefined,
      expiresBy: this.#expiresBy(job, at.node),
      ...this.#parts.paused(job.state.owner, name),
    }
    const origin = forkedChild(job, at)
    const fork = origin === undefined ? null : await this.#parts.forks.ofChild(id, origin, { plan, command })
    if (!isWanted(job, at)) return releasePlace?.()
    partitionOwner.committer.lane(job.partition).inOneCommit(() => {
      const child = partitionOwner.submitNow(id, job.partition, plan, fork?.command ?? command, fork?.reused)
      this.#wait(job, at, child)
    })
  }

  #place(childId: string, pipeline: string): Promise<() => Promise<void>> {
    return this.#parts.claimExecution(childId).catch(error => {
      throw isFull(error) ? new NoPlaceError(error, { childId, endedAt: null, pipeline }) : error
    })
  }

  async #resume(job: LiveJob, at: Reported, { child, releasePlace }: ResumedChild): Promise<void> {
    const { partitionOwner, journal } = this.#parts
    if (hasCompleted(child.state)) {
      const { command, text } = await childResult(journal, child, this.#parts.maxOutputBytes)
      const place = findTask(job.state, at)
      if (isWanted(job, at) && place !== null)
        await partitionOwner.execute(job, { ...at, ...command, ...usageFor(place.state, child) }, text)
    } else if (isWanted(job, at))
      partitionOwner.committer.lane(job.partition).inOneCommit(() => this.#continue(job, at, child))
    if (jobHasEnded(child.state.status)) await releasePlace?.()
  }

  #continue(job: LiveJob, at: Reported, child: LiveJob): void {
    const { partitionOwner } = this.#parts
    if (jobHasEnded(child.state.status)) {
      const decided = partitionOwner.execute(child, {
        type: "retry",
        expiresBy: this.#expiresBy(job, at.node),
      })
      if ("refused" in decided) {
        void partitionOwner.execute(job, {
          type: "failed",
          ...at,
          fault: { ...childFault(child), retryable: false },
        })
        return
      }
    }
    this.#wait(job, at, child)
  }

  #wait(job: LiveJob, at: Reported, child: LiveJob): void {
    const { workflow, workflowVersion } = child.state
    const waiting: Waiting = {
      kind: "child",
      job_id: child.id,
      workflow,
      workflow_version: workflowVersion,
    }
    void this.#parts.partitionOwner.execute(job, { type: "waiting", ...at, waiting })
  }

  /** A child ends at the latest with its parent and with the node's timeout. */
  #expiresBy({ state, plan }: { state: LiveJob["state"]; plan: Plan }, node: number): number | null {
    const { timeoutSeconds } = plan.nodes[node]!
    const patience = timeoutSeconds === null ? null : this.#parts.clock.now() + timeoutSeconds * 1000
    const { expiresAt } = state
    return patience === null || expiresAt === null ? (patience ?? expiresAt) : Math.min(patience, expiresAt)
  }
}

/** The child that the node, or the item, waited for last. */
function lastChild({ state }: LiveJob, at: AttemptRef): string | undefined {
  const place = findTask(state, at)
  return place?.state.children.get(place.position)
}

/** In a fork: the child of the origin that the child of this node, or item, is forked from. */
function forkedChild({ state }: LiveJob, at: AttemptRef): string | undefined {
  const place = findTask(state, at)
  return place?.state.forkedChildren.get(place.position)
}

/** The parent may have ended, or continued, while the child was loaded. */
export function isWanted({ evicted, state }: LiveJob, at: AttemptRef): boolean {
  return !evicted && isCurrent(state, at)
}

function checkKind({ workflow, isPipeline }: ChildRequest, { pipeline }: Plan): void {
  if ((pipeline !== null) === (isPipeline === true)) return
  throw new UmbraError(
    "E710",
    isPipeline
      ? `"${workflow}" has nodes and no routes, so it is not a pipeline: run it with \`handler: workflow\`.`
      : `"${workflow}" is a pipeline: run it with \`handler: pipeline\`.`,
  )
}

function checkPath(path: readonly string[], name: string, maxDepth: number): void {
  const whole = [...path, name].join(" → ")
  if (path.includes(name))
    throw new UmbraError(
      "E432",
      `Workflow "${name}" would run inside itself: ${whole}. Remove one of these nodes, or use for_each over a list.`,
    )
  if (path.length > maxDepth)
    throw new UmbraError(
      "E431",
      `Workflows may be nested at most ${maxDepth} deep (max_depth), and this is one more: ${whole}.`,
    )
}
