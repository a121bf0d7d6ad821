/**
 * Checks a value against a Standard Schema: returns the schema's result, or throws an error that names every
 * path that does not match.
 */
import type { StandardSchemaV1 } from "@standard-schema/spec"
import { firstIssues } from "../definition/document/first-issues.ts"
import { formatPath } from "../definition/problem.ts"
import { type ErrorCode, UmbraError } from "../errors.ts"

export interface SchemaCheck {
  readonly schema: StandardSchemaV1
  readonly value: unknown
  /** For example `config of handler "x"`. */
  readonly what: string
  readonly code: ErrorCode
}

const issuesShown = 10

/** Returns a promise only if the schema itself is asynchronous. */
export function checkSchema(check: SchemaCheck): unknown {
  const found = firstIssues(check.schema, check.value)
  if (found.length > 0) return accepted(check, { issues: found as StandardSchemaV1.FailureResult["issues"] })
  const result = check.schema["~standard"].validate(check.value)
  return result instanceof Promise ? result.then(late => accepted(check, late)) : accepted(check, result)
}

function accepted(check: SchemaCheck, result: StandardSchemaV1.Result<unknown>): unknown {
  if (result.issues === undefined) return result.value
  const issues = result.issues
    .slice(0, issuesShown)
    .map(({ message, path }) => ({ path: pathText(path), message }))
  const text = issues.map(({ path, message }) => (path === "" ? message : `${path}: ${message}`)).join("; ")
  const more = result.issues.length > issuesShown ? ` (and ${result.issues.length - issuesShown} more)` : ""
  throw new UmbraError(check.code, `The ${check.what} does not match its schema: ${text}${more}.`, {
    details: { issues },
  })
}

function pathText(path: StandardSchemaV1.Issue["path"]): string {
  const keys = (path ?? []).map(part => (typeof part === "object" ? part.key : part))
  return formatPath(keys.map(key => (typeof key === "number" ? key : String(key))))
}
