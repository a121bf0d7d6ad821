/**
 * Compares every graph that was shown with what the handlers recorded while they ran.
 *
 * A graph was asked for at `askedAt` and answered at `answeredAt`; it may show any moment between the two. What it shows is
 * contradicted only if no such moment fits, so a slow answer or a slow machine never contradicts by itself. Times are
 * milliseconds of CLOCK_MONOTONIC.
 */
import { readdir, readFile } from "node:fs/promises"
import { join } from "node:path"
import type { Dag, DagNode } from "./dags.ts"
import { alwaysFails, endsOf } from "./dags.ts"

export interface Run {
  readonly job: string
  readonly node: string
  readonly item: number
  readonly pid: number
  readonly begunAt: number
  /** Infinity: it has not ended. */
  readonly endedAt: number
  /** null: no end was recorded. */
  readonly end: "ok" | "fail" | "abort" | null
}

export interface Sample {
  readonly job: string
  readonly askedAt: number
  readonly answeredAt: number
  // biome-ignore lint/suspicious/noExplicitAny: the answer of GET /jobs/{job}/graph.
  readonly graph: any
}

/** A page of `GET /jobs`. */
export interface ListSample {
  readonly askedAt: number
  readonly answeredAt: number
  readonly jobs: readonly { readonly job_id: string; readonly status: string }[]
}

/** An answer of `GET /jobs/{job}/why`. */
export interface WhySample {
  readonly job: string
  readonly askedAt: number
  readonly answeredAt: number
  readonly reasons: readonly { readonly kind: string; readonly nodes: readonly string[] }[]
}

/** A commit of the test's own to the same store, or the same disk. */
export interface Commit {
  readonly askedAt: number
  readonly answeredAt: number
}

export interface Kill {
  readonly pid: number
  readonly at: number
}

/** The promises of the product, in milliseconds. */
const SHOWN_AFTER_END = 500
const START_RECORDED_AFTER = 1000
const NOTICED_WITHIN = 1000
const BEGUN_REPORTED_WITHIN = 500

/** The state that a reason stands for; all others: QUEUED. */
const statusOfReason: { readonly [kind: string]: string } = {
  running: "RUNNING",
  dependency: "PENDING",
  timer: "WAITING",
  items: "WAITING",
}

export async function readRuns(folder: string, kills: readonly Kill[]): Promise<Run[]> {
  const files = (await readdir(folder)).filter(name => name.startsWith("runs-"))
  const runs = new Map<string, Run>()
  for (const file of files)
    for (const line of (await readFile(join(folder, file), "utf8")).split("\n").filter(Boolean)) {
      const [event, job, node, item, run, pid, time] = line.split(" ") as string[]
      const key = `${pid} ${run}`
      const at = Number(BigInt(time!)) / 1e6
      const begun = runs.get(key)
      if (event === "begin")
        runs.set(key, {
          ...{ job: job!, node: node!, item: Number(item), pid: Number(pid), begunAt: at },
          ...{ endedAt: Number.POSITIVE_INFINITY, end: null },
        })
      else runs.set(key, { ...begun!, endedAt: at, end: event as "ok" | "fail" | "abort" })
    }
  return [...runs.values()].map(run => {
    const killed = kills.find(({ pid }) => pid === run.pid)
    return run.end === null && killed !== undefined ? { ...run, endedAt: killed.at } : run
  })
}

export class Judge {
  readonly problems: string[] = []
  readonly #dags: ReadonlyMap<string, Dag>
  readonly #runs = new Map<string, Run[]>()
  readonly #deathMs: number
  readonly #kills: ReadonlySet<number>
  /** The longest answer or commit near a moment: how long this machine delayed every process then. */
  readonly stallAt: (time: number) => number

  constructor(parts: {
    readonly dags: ReadonlyMap<string, Dag>
    readonly runs: readonly Run[]
    readonly samples: readonly Sample[]
    readonly lists: readonly ListSample[]
    readonly whys: readonly WhySample[]
    readonly commits: readonly Commit[]
    readonly kills: readonly Kill[]
    /** After so long a killed worker is dead to its engine. */
    readonly deathMs: number
  }) {
    this.#dags = parts.dags
    this.#deathMs = parts.deathMs
    this.#kills = new Set(parts.kills.map(({ pid }) => pid))
    for (const run of parts.runs) {
      const key = `${run.job} ${run.node}`
      this.#runs.set(key, [...(this.#runs.get(key) ?? []), run])
    }
    this.stallAt = time =>
      Math.max(
        0,
        ...[...parts.samples, ...parts.commits]
          .filter(({ askedAt, answeredAt }) => askedAt < time + 2000 && answeredAt > time - 2000)
          .map(({ askedAt, answeredAt }) => answeredAt - askedAt),
      )
    for (const sample of parts.samples) this.#judge(sample)
    for (const list of parts.lists) for (const job of list.jobs) this.#judgeListed(list, job)
    for (const why of parts.whys) this.#judgeWhy(why)
    for (const job of parts.dags.keys()) this.#judgeOrder(parts.samples.filter(each => each.job === job))
  }

  runsOf(job: string, node: string): readonly Run[] {
    return this.#runs.get(`${job} ${node}`) ?? []
  }

  #judge(sample: Sample): void {
    const dag = this.#dags.get(sample.job)!
    const shown = new Map(sample.graph.nodes.map((node: { id: string }) => [node.id, node]))
    for (const node of dag.nodes) {
      const view = shown.get(node.id) as { status: string; attempt: number }
      const live = sample.graph.live?.nodes?.find((each: { id: string }) => each.id === node.id)
      for (const status of new Set([view.status, live?.status ?? view.status])) {
        const problem = this.#contradiction(sample, dag, node, status)
        if (problem !== null) this.#add(sample, node, `${status} is shown, but ${problem}`)
      }
      const runs = this.runsOf(sample.job, node.id)
      if (runs.length === 0 || node.kind !== "observed") continue
      const begun = runs.filter(({ begunAt }) => begunAt <= sample.answeredAt).length
      // A node that is queued shows the attempt that it is queued for.
      if (view.attempt > Math.max(1, view.status === "QUEUED" ? begun + 1 : begun))
        this.#add(sample, node, `attempt ${view.attempt} is shown, but ${begun} have begun`)
      const status = live?.status ?? view.status
      const long = runs.find(run => this.#mustBeShown(run, sample))
      if (long !== undefined && node.kind === "observed" && status !== "RUNNING")
        this.#add(sample, node, `${status} is shown, but a handler has run since ${long.begunAt}`)
    }
  }

  #judgeListed({ askedAt, answeredAt }: ListSample, shown: ListSample["jobs"][number]): void {
    const { job_id: job, status } = shown
    const dag = this.#dags.get(job)
    if (dag === undefined) return
    const isOver = (by: number) =>
      !dag.nodes.some(alwaysFails) && dag.nodes.every(({ id }) => this.#isDone(job, dag, id, by))
    const stale = askedAt - SHOWN_AFTER_END - 2 * this.stallAt(askedAt)
    const hasSleep = dag.nodes.some(({ kind }) => kind === "sleep")
    const early = dag.nodes.flatMap(({ id }) => this.runsOf(job, id)).find(run => run.begunAt < askedAt)
    const problem =
      ["PENDING", "QUEUED", "DISPATCHING"].includes(status) && early !== undefined
        ? `a handler had begun at ${early.begunAt}`
        : status === "COMPLETED" && !isOver(answeredAt)
          ? "it had not ended"
          : status === "PROCESSING" && !hasSleep && isOver(stale)
            ? "it had ended"
            : null
    if (problem !== null)
      this.problems.push(`${job} in [${askedAt}, ${answeredAt}]: the list says ${status}, but ${problem}`)
  }

  #judgeWhy({ reasons, ...sample }: WhySample): void {
    const dag = this.#dags.get(sample.job)!
    for (const { kind, nodes } of reasons)
      for (const id of nodes) {
        const node = dag.nodes.find(each => each.id === id)!
        const status = statusOfReason[kind] ?? "QUEUED"
        const problem =
          kind === "unexplained" ? "that is no reason" : this.#contradiction(sample, dag, node, status)
        if (problem !== null) this.#add(sample, node, `why says ${kind}, but ${problem}`)
      }
  }

  /** Longer than the time after which a start is recorded, and for some time after that. */
  #mustBeShown({ begunAt, endedAt, pid }: Run, { askedAt, answeredAt }: Sample): boolean {
    const since = begunAt + START_RECORDED_AFTER + NOTICED_WITHIN + 2 * this.stallAt(askedAt)
    return !this.#kills.has(pid) && since < askedAt && endedAt > answeredAt
  }

  /** null: it may be so. */
  #contradiction(
    { askedAt, answeredAt, job }: Omit<Sample, "graph">,
    dag: Dag,
    node: DagNode,
    status: string,
  ): string | null {
    const runs = this.runsOf(job, node.id)
    const isDone = (id: string, by: number) => this.#isDone(job, dag, id, by)
    const isReady = node.dependencies.every(id => isDone(id, answeredAt))
    switch (status) {
      case "PENDING": {
        const early = runs.find(({ begunAt }) => begunAt < askedAt)
        return early === undefined ? null : `a handler had begun at ${early.begunAt}`
      }
      case "QUEUED": {
        if (!isReady) return "its dependencies had not ended"
        const stale = askedAt - SHOWN_AFTER_END - this.stallAt(askedAt)
        return node.kind === "observed" && isDone(node.id, stale) && runs.length > 0
          ? "it had completed"
          : null
      }
      case "RUNNING":
        if (node.kind === "sleep") return "a sleep has no handler that runs"
        return runs.some(run => run.begunAt <= answeredAt && this.#mayBeShownUntil(run) >= askedAt)
          ? null
          : "no handler ran"
      case "WAITING":
        return node.kind === "observed" ? "it waits for nothing" : isReady ? null : "it was not ready"
      case "COMPLETED":
        if (node.when === false) return "its `when` is false"
        return isDone(node.id, answeredAt) ? null : "it had not ended"
      case "SKIPPED":
        return node.when === false ? null : "its `when` is not false"
      case "FAILED":
      case "CANCELLED":
        return dag.nodes.some(alwaysFails) ? null : "no node of this job can fail"
      default:
        return "there is no such state"
    }
  }

  /** As far as the handlers' record tells: nothing is known of a sleep. */
  #isDone(job: string, dag: Dag, id: string, by: number): boolean {
    const node = dag.nodes.find(each => each.id === id)!
    if (node.when === false || node.kind === "sleep") return true
    const ok = this.runsOf(job, id).filter(({ end, endedAt }) => end === "ok" && endedAt <= by)
    return new Set(ok.map(({ item }) => item)).size >= (node.kind === "list" ? node.items : 1)
  }

  #mayBeShownUntil({ endedAt, pid }: Run): number {
    const died = this.#kills.has(pid) ? this.#deathMs : 0
    return endedAt + SHOWN_AFTER_END + died + 2 * this.stallAt(endedAt)
  }

  /** What has ended stays as it ended: these jobs are never retried. */
  #judgeOrder(samples: readonly Sample[]): void {
    const ended = new Map<string, { readonly status: string; readonly by: number }>()
    for (const sample of samples)
      for (const { id, status } of sample.graph.nodes) {
        const before = ended.get(id)
        if (before !== undefined && before.by < sample.askedAt && before.status !== status)
          this.problems.push(`${sample.job} ${id}: ${status} was shown after ${before.status}`)
        if (["COMPLETED", "SKIPPED", "FAILED", "CANCELLED"].includes(status) && before === undefined)
          ended.set(id, { status, by: sample.answeredAt })
      }
  }

  /** How everything ended, and what is told of it afterwards. */
  judgeEnd(job: string, graph: Sample["graph"], nodeOf: ReadonlyMap<string, Sample["graph"]>): void {
    const dag = this.#dags.get(job)!
    const ends = endsOf(dag)
    const expected = dag.nodes.some(alwaysFails) ? "FAILED" : "COMPLETED"
    if (graph.status !== expected) this.problems.push(`${job} ended ${graph.status}, not ${expected}`)
    for (const node of dag.nodes) {
      const view = nodeOf.get(node.id)!
      const add = (problem: string) => this.problems.push(`${job} ${node.id} at the end: ${problem}`)
      if (!ends.get(node.id)!.has(view.status)) add(`${view.status} instead of ${[...ends.get(node.id)!]}`)
      if (node.kind !== "observed") continue
      this.#judgeHistory(this.runsOf(job, node.id), this.#failedSince(job), view, add)
    }
  }

  /** The earliest time at which the job can have failed; Infinity: it does not fail. */
  #failedSince(job: string): number {
    const lastFailures = this.#dags
      .get(job)!
      .nodes.filter(alwaysFails)
      .map(({ id, maxAttempts }) => {
        const failed = this.runsOf(job, id).filter(({ end }) => end === "fail")
        return (
          failed.map(({ endedAt }) => endedAt).sort((a, b) => a - b)[maxAttempts - 1] ??
          Number.POSITIVE_INFINITY
        )
      })
    return Math.min(...lastFailures)
  }

  #judgeHistory(
    runs: readonly Run[],
    failedSince: number,
    view: Sample["graph"],
    add: (problem: string) => void,
  ): void {
    const attempts = (view.attempts ?? []) as readonly Record<string, never>[]
    const begun = attempts.filter(({ started_at }) => started_at !== null)
    // A run whose process is killed right after its begin may not have been reported.
    const inOrder = [...runs]
      .sort((a, b) => a.begunAt - b.begunAt)
      .filter(run => !this.#isUnreported(run, begun.length < runs.length))
    if (begun.length !== inOrder.length)
      add(`${begun.length} attempts began, the witness saw ${JSON.stringify(inOrder)}`)
    begun.forEach((attempt, index) => {
      const run = inOrder[index]
      if (run === undefined) return
      const fitting = { ok: ["completed"], fail: ["failed"], abort: ["cancelled"] }
      const outcomes = run.end === null ? ["lost", "cancelled"] : fitting[run.end]
      // A handler may end by itself after its job has failed: its result comes too late to count.
      const isLate = attempt.outcome === "cancelled" && run.endedAt > failedSince
      if (!isLate && !outcomes.includes(attempt.outcome!))
        add(`attempt ${index + 1} ${attempt.outcome}, ended by ${run.end}`)
      const ran = Math.floor(run.endedAt - run.begunAt)
      // Measured around the handler, so it cannot be shorter than what the handler measured.
      if (!isLate && (run.end === "ok" || run.end === "fail"))
        if (!(attempt.duration_ms! >= ran - 1)) add(`duration_ms ${attempt.duration_ms}, the witness ${ran}`)
    })
    const charged = runs.filter(({ end }) => end === "ok" || end === "fail").length
    if ((view.usage?.runs ?? 0) < charged) add(`usage ${view.usage?.runs}, the witness saw ${charged} ends`)
  }

  #isUnreported({ pid, begunAt, endedAt, end }: Run, isMissing: boolean): boolean {
    const reportedBy = begunAt + BEGUN_REPORTED_WITHIN + 2 * this.stallAt(begunAt)
    return isMissing && end === null && this.#kills.has(pid) && endedAt < reportedBy
  }

  #add({ job, askedAt, answeredAt }: Omit<Sample, "graph">, { id }: DagNode, problem: string): void {
    const runs = this.runsOf(job, id).map(run => `[${run.begunAt}, ${run.endedAt}] ${run.end} by ${run.pid}`)
    this.problems.push(`${job} ${id} in [${askedAt}, ${answeredAt}]: ${problem}; runs: ${runs.join(", ")}`)
  }
}
