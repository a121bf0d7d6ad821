/** The request for a fork, validated at run time: callers may not use TypeScript. */
import type { Json, JsonObject } from "../../core/json.ts"
import { checkJson, isObject } from "../../definition/document/json-value.ts"
import type { Plan } from "../../definition/plan.ts"
import { ProblemList } from "../../definition/problem.ts"
import { Suggester } from "../../definition/suggest.ts"
import { UmbraError } from "../../errors.ts"
import type { WorkflowSource } from "../register.ts"

export interface ForkRequest {
  /** Ids of nodes that run again, with all that depends on them. Default: what did not complete. */
  readonly from?: readonly string[] | undefined
  /** Default: the origin's. */
  readonly input?: Json | undefined
  /** Another version of the workflow (`name@3`), or a changed definition. Default: what the origin runs. */
  readonly workflow?: WorkflowSource | undefined
  /** By node: its output, which is set without running it; or another config. */
  readonly overrides?: { readonly [node: string]: ForkOverride } | undefined
  /** By node with `for_each`: the items that run again, by index; its other items do not. */
  readonly items?: { readonly [node: string]: readonly number[] } | undefined
  /** Nodes whose results are taken over although the input has changed. */
  readonly reuse?: readonly string[] | undefined
  readonly confirm?: ForkConfirmation | undefined
}

export type ForkOverride =
  | { readonly output: Json; readonly config?: undefined }
  | { readonly config: JsonObject; readonly output?: undefined }

/** Which effects outside of Umbra may happen once more. */
export interface ForkConfirmation {
  /** Nodes whose effects are unsafe to repeat, each by its id. */
  readonly unsafe?: readonly string[] | undefined
  /** All nodes whose handlers do not declare their effects. */
  readonly unknown?: boolean | undefined
}

const MOST_NODES = 100_000
const bounds = { depth: 64, values: 10_000_000 }

/** Throws E309 for what does not depend on a workflow. */
export function checkForkRequest(request: ForkRequest): void {
  if (!isObject(request)) wrong("the request of a fork must be an object")
  const { from, overrides, items, reuse, confirm } = request
  const known = ["from", "input", "workflow", "overrides", "items", "reuse", "confirm"]
  const unknown = Object.keys(request).find(key => !known.includes(key))
  if (unknown !== undefined) wrong(`a fork has no parameter "${unknown}"; it has ${known.join(", ")}`)
  mustBeIds("from", from)
  mustBeIds("reuse", reuse)
  if (confirm !== undefined) {
    if (!isObject(confirm)) wrong("confirm must be an object with unsafe and unknown")
    mustBeIds("confirm.unsafe", confirm.unsafe)
    if (confirm.unknown !== undefined && typeof confirm.unknown !== "boolean")
      wrong("confirm.unknown must be true or false")
  }
  if (request.input !== undefined) mustBeJson("input", request.input)
  for (const [node, override] of readEntries("overrides", overrides)) checkOverride(node, override)
  for (const [node, list] of readEntries("items", items))
    if (
      !Array.isArray(list) ||
      list.length === 0 ||
      !list.every(item => Number.isSafeInteger(item) && item >= 0)
    )
      wrong(`items.${node} must be a list of the indexes of items, from 0`)
}

function readEntries(what: string, given: unknown): [string, unknown][] {
  if (given === undefined) return []
  if (!isObject(given)) wrong(`${what} must be an object by node`)
  return Object.entries(given)
}

function mustBeIds(what: string, given: unknown): void {
  if (given === undefined) return
  if (!Array.isArray(given) || given.length > MOST_NODES || !given.every(id => typeof id === "string"))
    wrong(`${what} must be a list of node ids`)
}

function checkOverride(node: string, override: unknown): void {
  const keys = isObject(override) ? Object.keys(override).filter(key => override[key] !== undefined) : []
  if (keys.length !== 1 || (keys[0] !== "output" && keys[0] !== "config"))
    wrong(`overrides.${node} must have either output or config`)
  const value = (override as { readonly [key: string]: unknown })[keys[0]!]
  mustBeJson(`overrides.${node}.${keys[0]}`, value)
  if (keys[0] === "config" && !isObject(value)) wrong(`overrides.${node}.config must be an object`)
}

function mustBeJson(what: string, value: unknown): void {
  const problems = new ProblemList()
  checkJson(value, bounds, problems)
  const [problem] = problems.sorted()
  if (problem !== undefined)
    wrong(`${what} must be JSON, and ${problem.path || "this"} is not (${problem.message})`)
}

/** Throws E309 if a parameter names a node that the fork does not have. */
export function mustHaveNodes(plan: Plan, { from, overrides, items, reuse, confirm }: ForkRequest): void {
  const given: readonly (readonly [string, readonly string[]])[] = [
    ["from", from ?? []],
    ["overrides", Object.keys(overrides ?? {})],
    ["items", Object.keys(items ?? {})],
    ["reuse", reuse ?? []],
    ["confirm.unsafe", confirm?.unsafe ?? []],
  ]
  for (const [parameter, ids] of given) {
    const unknown = ids.find(id => !plan.positions.has(id))
    if (unknown === undefined) continue
    const nearest = new Suggester().nearest(unknown, [...plan.positions.keys()])
    const hint = nearest === undefined ? "" : ` Did you mean "${nearest}"?`
    wrong(
      `workflow "${plan.name}" has no node "${unknown}" (given in "${parameter}").${hint}`.replace(/\.$/, ""),
    )
  }
  for (const id of from ?? [])
    if (overrides?.[id]?.output !== undefined)
      wrong(`node "${id}" cannot run again (from) and have its output set (overrides)`)
}

export function wrong(what: string): never {
  throw new UmbraError("E309", /[.?]$/.test(what) ? what : `${what}.`)
}
