/** `umbra push` of a file with `schedules:`: stores what is new or changed, and deletes what the file has as null. */
import type { ScheduleSummary } from "../../client/index.ts"
import type { Problem } from "../../definition/problem.ts"
import { noSuchWorkflow, parseReference } from "../../engine/versions.ts"
import type { UmbraError } from "../../errors.ts"
import { type ScheduleDocument, type ScheduleRequest, scheduleDocument } from "../../schedule/document.ts"
import { exitCode } from "../exit.ts"
import type { Source } from "../input/source.ts"
import { print } from "../output/print.ts"
import { reportProblems } from "../output/problems.ts"
import { printable } from "../output/terminal.ts"
import { type TargetOptions, type TargetWorkflows, withTarget } from "../target/open.ts"
import { readSchedules } from "./file.ts"

interface Change {
  readonly name: string
  readonly action: "created" | "changed" | "unchanged" | "deleted" | "absent"
  /** The fields that were changed. */
  readonly fields: readonly string[]
}

export async function pushSchedules(source: Source, options: TargetOptions): Promise<number> {
  const { wanted, problems, locate } = readSchedules(source)
  if (problems.length > 0) return reportProblems(problems, source, options)
  return withTarget(
    options,
    async ({ schedules, workflows, name: target }) => {
      const stored = new Map<string, ScheduleSummary>()
      for await (const schedule of schedules.list()) stored.set(schedule.name, schedule)
      const changes = [...wanted].map(([name, document]) => findChange(name, document, stored.get(name)))
      // All of them before the first is stored.
      const unknown: Problem[] = []
      for (const { name, action } of changes) {
        if (!isStored(action)) continue
        const path = ["schedules", name, "workflow"]
        const error = await errorOfWorkflow(workflows, wanted.get(name)!.workflow)
        if (error !== null) unknown.push({ ...error, path: path.join("."), ...locate(path) })
      }
      if (unknown.length > 0) return reportProblems(unknown, source, options)
      for (const { name, action } of changes)
        if (action === "deleted") await schedules.delete(name)
        else if (isStored(action)) await schedules.put(name, wanted.get(name) as ScheduleRequest)
      print(options, { schedules: changes }, () => changes.map(change => line(change, target)).join(""))
      return exitCode.ok
    },
    { make: true },
  )
}

function isStored(action: Change["action"]): boolean {
  return action === "created" || action === "changed"
}

/** null: the workflow exists. */
async function errorOfWorkflow(
  workflows: Pick<TargetWorkflows, "get">,
  reference: string,
): Promise<Pick<Problem, "code" | "message"> | null> {
  const { name, version, alias } = parseReference(reference)
  try {
    const { aliases = [] } = await workflows.get(name, { version })
    if (alias === undefined || aliases.some(known => known.alias === alias)) return null
  } catch (error) {
    const { code } = error as Partial<UmbraError>
    if (code !== "E305" && code !== "E309") throw error
  }
  const { code, message } = noSuchWorkflow(reference)
  return { code, message }
}

function findChange(
  name: string,
  document: ScheduleDocument | null,
  stored: ScheduleSummary | undefined,
): Change {
  if (document === null) return { name, action: stored === undefined ? "absent" : "deleted", fields: [] }
  if (stored === undefined) return { name, action: "created", fields: [] }
  const known = Object.keys(scheduleDocument.shape) as (keyof ScheduleDocument)[]
  const fields = known.filter(field => JSON.stringify(document[field]) !== JSON.stringify(stored[field]))
  return { name, action: fields.length === 0 ? "unchanged" : "changed", fields }
}

function line({ name, action, fields }: Change, target: string): string {
  const said = {
    created: "is stored",
    changed: `is changed (${fields.join(", ")})`,
    unchanged: "already has this content",
    deleted: "is deleted; its jobs stay",
    absent: "is already absent",
  }[action]
  return `Schedule ${printable(name)} ${said}, in ${target}.\n`
}
