/**
 * Requests against the schemas of their routes. All that does not fit is told at once, and to people: what it is, where
 * it stands, what should stand there (src/server/request-words.ts).
 */
import type { FastifySchemaCompiler } from "fastify"
import type { z } from "zod"
import { type Issue, keysAt } from "../definition/issues.ts"
import { valueAt } from "../definition/json-value.ts"
import { formatPath } from "../definition/problem.ts"
import { UmbraError } from "../errors.ts"
import { isOurs, isSaidBetter, unknownKey, wrongValue } from "./request-words.ts"

/** So many are told in the sentence itself; the list beside it has all. */
const TOLD = 5

export const requestCheck: FastifySchemaCompiler<z.ZodType> = ({ schema, httpPart = "body" }) => {
  return data => {
    const parsed = schema.safeParse(data)
    if (parsed.success) return { value: parsed.data }
    const issues = parsed.error.issues as readonly unknown[] as readonly Issue[]
    const unfoldedIssues = issues.flatMap(unfolded)
    const told = unfoldedIssues.filter(issue => !isSaidBetter(issue, unfoldedIssues))
    return { error: invalid(told, { part: httpPart, data, schema }) }
  }
}

interface Checked {
  readonly part: string
  readonly data: unknown
  readonly schema: z.ZodType
}

interface Fault {
  /** `querystring.limit`, `body.jobs.1.workflow` */
  readonly path: string
  readonly subject: string
  /** What is wrong with it, without naming it. */
  readonly message: string
}

function invalid(issues: readonly Issue[], checked: Checked): UmbraError {
  const faults = issues.flatMap(issue => faultsOf(issue, checked))
  const sentences = faults.slice(0, TOLD).map(({ subject, message }) => ended(`${subject} ${message}`))
  if (faults.length > TOLD) sentences.push(`And ${faults.length - TOLD} more.`)
  const errors = faults.map(({ path, message }) => ({ path, message }))
  return new UmbraError("E633", sentences.join(" "), { details: { errors } })
}

function faultsOf(issue: Issue, { part, data, schema }: Checked): Fault[] {
  const at = (path: Issue["path"], message: string): Fault => ({
    path: [part, ...path].join("."),
    subject: subjectOf(part, path),
    message,
  })
  if (issue.code !== "unrecognized_keys")
    return [at(issue.path, wrongValue(issue, valueAt(data, issue.path)))]
  const known = keysAt(schema, issue.path)
  return (issue.keys ?? []).map(key => at([...issue.path, key], unknownKey(key, known)))
}

function subjectOf(part: string, path: Issue["path"]): string {
  const name = formatPath(path)
  switch (part) {
    case "querystring":
      return `The parameter ${name}`
    case "params":
      return `{${name}} in the path`
    case "headers":
      return `The header ${name}`
    default:
      return name === "" ? "The body" : `${name} in the body`
  }
}

/** Of a value that may have several forms, what is wrong with the form that was meant. */
function unfolded(issue: Issue): readonly Issue[] {
  if (isOurs(issue)) return [issue]
  const form = issue.errors?.find(branch => branch.length > 0 && branch.every(isInside))
  if (form === undefined) return [issue]
  return form.flatMap(inner => unfolded({ ...inner, path: [...issue.path, ...inner.path] }))
}

/** Is the value of the right kind, and wrong in itself? */
const isInside = ({ path, code }: Issue): boolean => path.length > 0 || code !== "invalid_type"

const ended = (sentence: string): string => (sentence.endsWith("?") ? sentence : `${sentence}.`)
