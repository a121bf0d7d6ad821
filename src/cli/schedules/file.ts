/** A file with `schedules:`, which `umbra push` and `umbra validate` read. */
import { localOwner } from "../../core/facts.ts"
import { parseDocument } from "../../definition/document/document.ts"
import { isObject } from "../../definition/document/json-value.ts"
import type { Locate, Problem } from "../../definition/problem.ts"
import { UmbraError } from "../../errors.ts"
import { checkSchedule } from "../../jobs/schedules/schedules.ts"
import { checkScheduleName, type ScheduleDocument, type ScheduleRequest } from "../../schedule/document.ts"
import type { Source } from "../input/source.ts"

/** Does the document have schedules, and no workflow? */
export function isForSchedules({ text, format }: Source): boolean {
  if (!text.includes("schedules")) return false
  const { value } = parseDocument(text, format === undefined ? {} : { format })
  return isObject(value) && "schedules" in value && !("nodes" in value) && !("routes" in value)
}

/** The documents by name, checked as when they are stored; null: the schedule is to be deleted. */
export function readSchedules({ text, format }: Source): {
  readonly wanted: ReadonlyMap<string, ScheduleDocument | null>
  readonly problems: readonly Problem[]
  readonly locate: Locate
} {
  const { value, problems: syntax, locate } = parseDocument(text, format === undefined ? {} : { format })
  const problems: Problem[] = [...syntax]
  const wanted = new Map<string, ScheduleDocument | null>()
  const add = (error: unknown, path: readonly string[]) => {
    if (!(error instanceof UmbraError)) throw error
    const { code, message } = error
    problems.push({ code, message, path: path.join("."), ...locate(path) } as Problem)
  }
  const root = value as unknown as Record<string, unknown>
  for (const field of Object.keys(root))
    if (field !== "schedules")
      add(new UmbraError("E330", `A file of schedules has no field "${field}".`), [field])
  if (!isObject(root.schedules))
    add(new UmbraError("E330", '"schedules" must be an object: names with their schedules.'), ["schedules"])
  for (const [name, document] of Object.entries(isObject(root.schedules) ? root.schedules : {}))
    try {
      checkScheduleName(name)
      wanted.set(name, document === null ? null : checkSchedule(document as ScheduleRequest, localOwner))
    } catch (error) {
      add(error, ["schedules", name])
    }
  return { wanted, problems, locate }
}
