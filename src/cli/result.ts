/** A job that has ended, for programs and for people. */
import type { GraphView, NodeView } from "../core/view.ts"
import type { JobSnapshot } from "../engine/job-snapshot.ts"
import { count, duration, type Paint, printable } from "./terminal.ts"

export interface JobWithNodes {
  readonly job: JobSnapshot
  readonly graph: GraphView
}

/** `umbra run --json` */
export function finalJob({ job, graph }: JobWithNodes) {
  const { job_id, status, output, error } = job
  return { job_id, status, output, error, nodes: graph.nodes.map(nodeSummary) }
}

export function nodeSummary(node: NodeView) {
  const { id, handler, status, attempt, tries, error } = node
  return { id, handler, status, attempt, tries, duration_ms: durationOf(node), error }
}

/** From its start, where that was recorded, or else from when it was ready. null: it did not end by itself. */
export function durationOf({ started_at, queued_at, finished_at, status }: NodeView): number | null {
  const began = started_at ?? queued_at
  const isDone = status === "COMPLETED" || status === "FAILED"
  return isDone && began !== null && finished_at !== null && finished_at >= began ? finished_at - began : null
}

/** More than this scrolls everything else away. */
const MOST_LINES = 40
const MOST_COLUMNS = 4000

export function resultText({ job }: JobWithNodes, paint: Paint, storeFlags: string): string {
  const { job_id, status, workflow, created_at, finished_at } = job
  const took = finished_at === null ? "" : ` in ${duration(Date.parse(finished_at) - Date.parse(created_at))}`
  if (status === "COMPLETED")
    return `${paint.green(`✓ ${workflow} completed`)}${took}\n${outputText(job, storeFlags)}`
  const why = errorText(job)
  const next =
    status === "FAILED" || status === "CANCELLED" || status === "EXPIRED"
      ? `Run what is not done again: umbra jobs retry ${job_id} --wait${storeFlags}\n`
      : `Finish it: umbra resume${storeFlags}\n`
  return `${paint.red(`✗ ${workflow} is ${status}`)}${took}${why === "" ? "" : `\n  ${why}`}\n${paint.dim(next)}`
}

export function errorText({ error }: JobSnapshot): string {
  if (error === null) return ""
  const item = error.item === undefined ? "" : `, item ${error.item}`
  const where = error.node === undefined ? "" : `node ${error.node}${item}: `
  return printable(`${where}${error.code} ${error.message}`)
}

function outputText({ job_id, output }: JobSnapshot, storeFlags: string): string {
  const text = JSON.stringify(output, null, 2)
  const lines = text.split("\n")
  if (lines.length <= MOST_LINES && text.length <= MOST_COLUMNS) return `${text}\n`
  const shown = lines.slice(0, MOST_LINES).join("\n").slice(0, MOST_COLUMNS)
  return `${shown}\n… (${count(text.length, "character")}; all of it: umbra jobs show ${job_id} --json${storeFlags})\n`
}
