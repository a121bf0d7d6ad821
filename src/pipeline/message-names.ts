/** The names of messages and routes that people use: `fetch:12`. */
import type { PipelinePlan } from "../definition/pipeline/plan.ts"
import { UmbraError } from "../errors.ts"
import type { JobRow } from "../journal/port/journal.ts"
import type { MessageKey } from "../journal/port/pipelines.ts"

export function messageName(plan: PipelinePlan, { route, seq }: MessageKey): string {
  return `${plan.routes[route]!.name}:${seq}`
}

export function messageKey(plan: PipelinePlan, name: string): MessageKey {
  const end = name.lastIndexOf(":")
  const seq = Number(name.slice(end + 1))
  if (end > 0 && Number.isSafeInteger(seq) && seq > 0)
    return { route: routePosition(plan, name.slice(0, end)), seq }
  const example = `${plan.routes[0]!.name}:1`
  throw new UmbraError(
    "E706",
    `"${name}" is not the name of a message: write ROUTE:NUMBER, for example ${example}.`,
  )
}

export function routePosition({ positions, routes }: PipelinePlan, route: string): number {
  const position = positions.get(route)
  if (position !== undefined) return position
  const names = routes.map(({ name }) => name).join(", ")
  throw new UmbraError("E706", `The pipeline has no route "${route}". It has ${names}.`)
}

/** The label that names the job whose dead letters this one begins with. */
export const replayLabel = "replay_of"

/** The job whose dead letters this one begins with; null: it begins with the messages of its definition. */
export function replayedJob({ labels }: Pick<JobRow, "labels">): string | null {
  if (labels === null) return null
  const all = JSON.parse(labels) as { readonly [label: string]: string }
  return Object.hasOwn(all, replayLabel) ? all[replayLabel]! : null
}
