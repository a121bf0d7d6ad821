/**
 * The filters of the list: in the address, as chips, and as parameters of the API. A relative time stays relative, so a
 * saved view means the same tomorrow.
 */
export interface Filter {
  readonly key: FilterKey
  readonly value: string
}

export type FilterKey =
  | "status"
  | "workflow"
  | "version"
  | "label"
  | "started"
  | "before"
  | "error"
  | "code"
  | "fingerprint"
  | "duration"
  | "parent"

interface FilterText {
  /** Between the key and the value of a chip. */
  readonly operator: string
  readonly example: string
  /** Several values are alternatives, or all apply; otherwise the last one counts. */
  readonly isList?: boolean
  /** What is wrong with a value; null: nothing. */
  readonly check: (value: string) => string | null
}

export const statuses = [
  "PENDING",
  "QUEUED",
  "DISPATCHING",
  "PROCESSING",
  "PREVIEW",
  "COMPLETED",
  "FAILED",
  "CANCELLED",
  "EXPIRED",
] as const
const ok = () => null
const timePattern = /^\d+ ?(min|h|d)$/

export const filterTexts: { readonly [key in FilterKey]: FilterText } = {
  status: {
    operator: "is",
    example: "FAILED",
    isList: true,
    check: value =>
      statuses.includes(value.toUpperCase() as never) ? null : `one of ${statuses.join(", ")}`,
  },
  workflow: { operator: "is", example: "order", check: ok },
  version: {
    operator: "is",
    example: "3",
    check: value => (/^[1-9]\d*$/.test(value) ? null : "a number, with a workflow"),
  },
  label: {
    operator: "is",
    example: "team=shop",
    isList: true,
    check: value => (/^[^=]+=/.test(value) ? null : "NAME=VALUE"),
  },
  started: {
    operator: "last",
    example: "6 h",
    check: value =>
      timePattern.test(value) || !Number.isNaN(Date.parse(value)) ? null : "15 min, 6 h, 7 d, or a time",
  },
  before: {
    operator: "until",
    example: "2026-11-15T12:00",
    check: value => (Number.isNaN(Date.parse(value)) ? "a time" : null),
  },
  error: {
    operator: "has",
    example: "connection refused",
    check: value => (/\p{L}{2}/u.test(value) ? null : "a word"),
  },
  code: { operator: "is", example: "E405", check: ok },
  fingerprint: { operator: "is", example: "of a group in Now", check: ok },
  duration: {
    operator: ">",
    example: "1 min",
    check: value => (parseSeconds(value) === null ? "10 s, 5 min, 1 h" : null),
  },
  parent: { operator: "is", example: "none", check: ok },
}

const keys = Object.keys(filterTexts) as FilterKey[]

export function isFilterKey(text: string): text is FilterKey {
  return keys.includes(text as FilterKey)
}

export function filtersIn(query: URLSearchParams): Filter[] {
  return keys.flatMap(key => query.getAll(key).map(value => ({ key, value })))
}

/** The parameters of the address for these filters. */
export function filterQuery(filters: readonly Filter[]): Record<string, readonly string[] | null> {
  return Object.fromEntries(
    keys.map(key => {
      const values = filters.filter(filter => filter.key === key).map(({ value }) => value)
      return [
        key,
        values.length === 0 ? null : filterTexts[key].isList ? [...new Set(values)] : values.slice(-1),
      ]
    }),
  )
}

const units: { readonly [unit: string]: number } = { s: 1, min: 60, h: 3600, d: 86_400 }

function parseSeconds(text: string): number | null {
  const found = /^(\d+(?:\.\d+)?) ?(s|min|h|d)?$/.exec(text.trim())
  return found === null ? null : Number(found[1]) * units[found[2] ?? "s"]!
}

/** The parameters of `GET /jobs`. `now`: relative times count from it. */
export function apiQuery(
  filters: readonly Filter[],
  now: number,
): Record<string, string | readonly string[] | undefined> {
  const all = (key: FilterKey) => filters.filter(filter => filter.key === key).map(({ value }) => value)
  const last = (key: FilterKey) => all(key).at(-1)
  const started = last("started")
  const before = last("before")
  const seconds = started === undefined || !timePattern.test(started) ? null : parseSeconds(started)
  const from =
    started === undefined ? undefined : seconds === null ? new Date(started) : new Date(now - seconds * 1000)
  const duration = last("duration")
  return {
    status: all("status").join(",").toUpperCase() || undefined,
    workflow: last("workflow"),
    version: last("version"),
    label: all("label"),
    error_text: last("error"),
    error_code: last("code"),
    fingerprint: last("fingerprint"),
    min_duration: duration === undefined ? undefined : String(parseSeconds(duration) ?? ""),
    parent: last("parent"),
    created_from: from?.toISOString(),
    created_before: before === undefined ? undefined : new Date(before).toISOString(),
  }
}

/** The same as `filter` of `POST /bulk`. Without `parent` it means jobs without one. */
export function bulkFilter(filters: readonly Filter[], now: number): Readonly<Record<string, unknown>> {
  const { status, version, label, min_duration, ...rest } = apiQuery(filters, now)
  const labels = [label ?? []].flat().map(text => {
    const mark = text.indexOf("=")
    return [text.slice(0, mark), text.slice(mark + 1)]
  })
  const given = {
    ...rest,
    status: typeof status === "string" ? status.split(",") : undefined,
    version: version === undefined ? undefined : Number(version),
    min_duration: min_duration === undefined ? undefined : Number(min_duration),
    labels: labels.length === 0 ? undefined : Object.fromEntries(labels),
  }
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
}

/** `status failed`, `duration > 5 min`, `label team=shop`; a text without a key is a word of an error. */
export function parseFilter(text: string): Filter | string {
  const found = /^(\w+)\s*(?:[:=]|is\b|last\b|until\b|has\b|>)?\s*(.+)$/.exec(text.trim())
  const key = found?.[1]?.toLowerCase() ?? ""
  if (!isFilterKey(key)) return `"${text.trim()}" is not a filter. Begin with one of ${keys.join(", ")}.`
  const raw = found![2]!.trim().replace(/^"(.*)"$/, "$1")
  const wrong = filterTexts[key].check(raw)
  if (wrong !== null) return `${key} must be ${wrong}.`
  return { key, value: key === "status" ? raw.toUpperCase() : raw }
}

/** The stream does not contain these. */
const untold: ReadonlySet<FilterKey> = new Set([
  ...(["before", "error", "code", "fingerprint", "duration", "parent"] as const),
])

/** Does a job of the stream match, as far as its fields show? */
export function mayMatch(
  filters: readonly Filter[],
  job: {
    readonly status: string
    readonly workflow: string
    readonly workflow_version: number | null
    readonly labels: { readonly [name: string]: string }
  },
): boolean {
  const all = (key: FilterKey) => filters.filter(filter => filter.key === key).map(({ value }) => value)
  const isOne = (key: FilterKey, value: string) => all(key).length === 0 || all(key).includes(value)
  if (filters.some(({ key }) => untold.has(key))) return false
  return (
    isOne("status", job.status) &&
    isOne("workflow", job.workflow) &&
    isOne("version", String(job.workflow_version)) &&
    all("label").every(
      text => job.labels[text.slice(0, text.indexOf("="))] === text.slice(text.indexOf("=") + 1),
    )
  )
}
