/**
 * One attempt, from a config with secrets filled in to an outcome: check the config → run → check the output
 * → outcome.
 *
 * 1. Total: whatever the handler does, the result is an outcome; nothing is thrown and no promise rejects.
 * 2. No promise where the handler and its schemas need none: an empty synchronous handler ends where it
 *    started.
 * 3. No result contains a secret.
 */
import type { Outcome } from "../broker/port.ts"
import { type Fault, toFault } from "../core/faults.ts"
import type { Json } from "../core/json.ts"
import { UmbraError } from "../errors.ts"
import type { Context } from "./context.ts"
import type { Handler } from "./handler.ts"
import { type Checked, checkOutput, checkSchema, isPromiseLike } from "./output.ts"
import type { Redactor } from "./redact.ts"
import { isWait, jsonPart, outcomeOfWait, type Wait } from "./waiting.ts"

export interface Execution {
  readonly handler: Handler
  readonly config: Json
  readonly context: Context
  readonly redactor: Redactor | null
  readonly maxOutputBytes: number
}

export function execute(execution: Execution): Outcome | Promise<Outcome> {
  let config: unknown
  try {
    config = checkConfig(execution)
  } catch (thrown) {
    return { ...failed(execution, thrown), isUnbegun: true }
  }
  try {
    const returned =
      config instanceof Promise
        ? config.then(late => {
            execution.context.throwIfAborted()
            return execution.handler.run(late, execution.context)
          })
        : execution.handler.run(config, execution.context)
    return isPromiseLike(returned) ? awaitOutcome(execution, returned) : conclude(execution, returned)
  } catch (thrown) {
    return failed(execution, thrown)
  }
}

function checkConfig({ handler, config }: Execution): unknown {
  if (handler.config === undefined) return config
  const what = `config of handler "${handler.name}"`
  return checkSchema({ schema: handler.config, value: config, what, code: "E403" })
}

async function awaitOutcome(execution: Execution, returned: PromiseLike<unknown>): Promise<Outcome> {
  try {
    return conclude(execution, await returned)
  } catch (thrown) {
    return failed(execution, thrown)
  }
}

function conclude(execution: Execution, returned: unknown): Outcome | Promise<Outcome> {
  if (isWait(returned)) return conclusion(execution, jsonPart(returned), returned)
  const { output: schema, name } = execution.handler
  if (schema === undefined) return conclusion(execution, returned)
  const what = `output of handler "${name}"`
  const value = checkSchema({ schema, value: returned, what, code: "E406" })
  if (!(value instanceof Promise)) return conclusion(execution, value)
  return value.then(
    late => total(execution, () => conclusion(execution, late)),
    thrown => failed(execution, thrown),
  )
}

function total(execution: Execution, step: () => Outcome): Outcome {
  try {
    return step()
  } catch (thrown) {
    return failed(execution, thrown)
  }
}

function conclusion(execution: Execution, returned: unknown, wait?: Wait): Outcome {
  const { redactor, maxOutputBytes, context } = execution
  const checked = checkOutput(returned, { maxBytes: maxOutputBytes, what: "output" })
  const { value, text } = redactor === null ? checked : redacted(checked, redactor)
  const usage = context.used
  context.end()
  if (wait !== undefined) {
    return { ...outcomeOfWait(wait, value, redactor), usage }
  }
  return { type: "completed", output: value, text, usage }
}

function redacted(checked: Checked, redactor: Redactor): Checked {
  const value = redactor.value(checked.value)
  return { value, text: JSON.stringify(value) }
}

/** The outcome of an attempt that threw. The stack is in the process log, and never stored. */
export function failed(
  execution: Pick<Execution, "handler" | "context" | "redactor">,
  thrown: unknown,
): Extract<Outcome, { type: "failed" }> {
  const { handler, context, redactor } = execution
  const fault = toFault(thrown, { now: context.now(), clean: redactor?.cleanError })
  if (thrown instanceof Error && !(thrown instanceof UmbraError)) context.logThrown(thrown, fault.code)
  const usage = context.used
  context.end()
  return { type: "failed", fault: withRule(handler, thrown, fault), usage }
}

/** Applies the handler's own rule to the fault. A rule that throws has no effect. */
export function withRule(handler: Handler, thrown: unknown, fault: Fault): Fault {
  const { retryable: rule } = handler
  if (rule === undefined) return fault
  let retryable: boolean | undefined
  try {
    retryable = typeof rule === "function" ? rule(thrown, fault) : rule
  } catch {
    return fault
  }
  return typeof retryable === "boolean" ? { ...fault, retryable } : fault
}
