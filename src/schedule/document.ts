/** The document of a schedule: what a user writes, checked, with its defaults. */
import { z } from "zod"
import type { Json } from "../core/json.ts"
import { UmbraError } from "../errors.ts"
import { compileValue } from "../template/index.ts"
import { Cron, CronError } from "./cron.ts"
import type { Rules } from "./policy.ts"

const MAX_NAME = 200
/** A document is part of every list of schedules. */
const MAX_DOCUMENT_BYTES = 65_536
const units = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const seconds = z.int().min(0)

const moment = z.iso.datetime({
  offset: true,
  error: "must be a time with its zone, such as 2026-11-15T12:00:00Z",
})

export const scheduleDocument = z.strictObject({
  workflow: z.string().min(1).max(300).meta({
    description: "The workflow: `name`, `name@3` or `name@stable`.",
    example: "order",
  }),
  cron: z.string().max(300).optional().meta({
    description: "Five fields, or six with seconds first. Either this or `every`.",
    example: "0 2 * * *",
  }),
  zone: z.string().max(100).default("UTC").meta({
    description: "The IANA time zone of `cron`.",
    example: "Europe/Berlin",
  }),
  every: z
    .string()
    .regex(/^\d{1,6}[smhd]$/, "must be a number followed by s, m, h or d, such as 15m")
    .optional()
    .describe(
      "A period of elapsed time, such as 15m, counted from `start`; without `start`, from 1970 in UTC.",
    ),
  input: (z.json() as z.ZodType<Json>).optional().meta({
    description: "The input of the jobs; templates may use `schedule.time` and `schedule.name`.",
    example: { day: "{{ schedule.time }}" },
  }),
  labels: z.record(z.string(), z.string()).optional(),
  priority: z.int().optional(),
  ttl_seconds: z.number().positive().max(1e10).nullable().optional(),
  start: moment.optional().describe("No tick before this time."),
  end: moment.optional().describe("No tick at or after this time."),
  jitter_seconds: seconds
    .max(86_400)
    .default(0)
    .describe("Each tick fires with a delay of up to this time; the same tick always has the same delay."),
  overlap: z
    .enum(["allow", "skip", "queue_one", "cancel_running"])
    .default("skip")
    .describe("What a tick does while the latest job of the schedule has not ended."),
  catch_up: z
    .enum(["none", "last", "all"])
    .default("last")
    .describe("Which ticks fire that are more than a minute late."),
  catch_up_seconds: z
    .int()
    .min(60)
    .max(31_622_400)
    .default(86_400)
    .describe("Ticks that are later than this never fire. At least a minute."),
})

/** What a user writes: fields with a default may be left out. */
export type ScheduleRequest = z.input<typeof scheduleDocument>
export type ScheduleDocument = z.output<typeof scheduleDocument>

/** Throws E330 with what to change. */
export function checkScheduleName(name: string): void {
  if (!/^[A-Za-z0-9_][A-Za-z0-9_.-]*$/.test(name) || name.length > MAX_NAME)
    throw new UmbraError(
      "E330",
      `"${name.slice(0, MAX_NAME)}" is not a valid schedule name: use letters, digits, _, - and ., at most ${MAX_NAME} of them, and begin with a letter, a digit or _.`,
    )
}

/** Throws E330 with what to change. */
export function parseSchedule(given: unknown): ScheduleDocument {
  const parsed = scheduleDocument.safeParse(given)
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    const path = issue!.path.join(".")
    throw new UmbraError("E330", `${path === "" ? "The schedule" : `"${path}"`}: ${issue!.message}.`)
  }
  const document = parsed.data
  if ((document.cron === undefined) === (document.every === undefined))
    throw new UmbraError("E330", 'Give either "cron" or "every".')
  if (document.every !== undefined && everyMs(document.every) === 0)
    throw new UmbraError("E330", '"every" must be at least 1s.')
  const { start, end } = document
  if (start !== undefined && end !== undefined && Date.parse(start) >= Date.parse(end))
    throw new UmbraError("E330", '"end" must be after "start".')
  checkInput(document.input)
  scheduleRules("", document)
  return document
}

/** Of a document that is not valid: without fields that are not known; those with another value have their defaults. */
export function knownFields(given: { readonly [name: string]: unknown }): ScheduleDocument {
  const shape: { readonly [name: string]: z.ZodType } = scheduleDocument.shape
  const fields = Object.entries(shape).map(([name, field]) => {
    const { data = field.safeParse(undefined).data } = field.safeParse(given[name])
    return [name, data] as const
  })
  return Object.fromEntries(fields.filter(([, value]) => value !== undefined)) as ScheduleDocument
}

/** Throws E330 with what to change. Not for stored documents: an earlier release may have accepted larger ones. */
export function checkScheduleSize(document: unknown): void {
  const bytes = Buffer.byteLength(JSON.stringify(document) ?? "")
  if (bytes > MAX_DOCUMENT_BYTES)
    throw new UmbraError(
      "E330",
      `The schedule has ${bytes} bytes of JSON, and at most ${MAX_DOCUMENT_BYTES} are allowed: put large values into the workflow, or store them elsewhere and pass a reference in "input".`,
    )
}

/** A document of which only the times count: the workflow may be left out. */
export type PreviewRequest = Omit<ScheduleRequest, "workflow"> & { readonly workflow?: string | undefined }

/** `id`: that of the schedule, which the jitter depends on. */
export function scheduleRules(id: string, document: ScheduleDocument): Rules {
  const { start, end, overlap, catch_up: catchUp } = document
  const from = start === undefined ? null : Date.parse(start)
  return {
    ...{ id, overlap, catchUp, start: from },
    end: end === undefined ? null : Date.parse(end),
    jitterMs: document.jitter_seconds * 1000,
    windowMs: document.catch_up_seconds * 1000,
    next: document.every === undefined ? cronTicks(document) : everyTicks(everyMs(document.every), from ?? 0),
  }
}

function cronTicks({ cron, zone }: ScheduleDocument): Rules["next"] {
  try {
    const calendar = new Cron(cron!, zone)
    return after => calendar.next(after)
  } catch (error) {
    throw error instanceof CronError ? new UmbraError("E330", error.message) : error
  }
}

function everyTicks(period: number, from: number): Rules["next"] {
  return after => from + (Math.floor((after - from) / period) + 1) * period
}

function everyMs(text: string): number {
  return Number(text.slice(0, -1)) * units[text.at(-1) as keyof typeof units]
}

function checkInput(input: Json | undefined): void {
  const { problems, value } = compileValue(input ?? null)
  const [problem] = problems
  if (problem !== undefined) throw new UmbraError("E330", `"input": ${problem.error.message}`)
  for (const { template } of value.templates)
    for (const { name, path } of template.references) {
      const [field] = path
      if (name === "schedule" && (field === undefined || field === "time" || field === "name")) continue
      const read = name === "schedule" ? `schedule.${field}` : name
      throw new UmbraError(
        "E330",
        `"input": a template reads "${read}", which a schedule does not have; use schedule.time and schedule.name.`,
      )
    }
}

/** The input of the job of a tick. Throws if a template fails. */
export function renderInput(input: Json | undefined, name: string, tick: number): Json | undefined {
  if (input === undefined) return undefined
  const schedule = { name, time: new Date(tick).toISOString() }
  return compileValue(input).value.render({ names: { schedule }, node: () => undefined, nodeIds: () => [] })
}
