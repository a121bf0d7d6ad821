/**
 * Schemas of signals. A signal may arrive before its node waits, so what it must be is decided by its name alone: the schema
 * and the name contain no templates, and all nodes that wait for one name have the same schema.
 */
import type { JsonObject } from "../../core/json.ts"
import type { SignalSchema } from "../../core/plan.ts"
import type { ValueTemplate } from "../../template/types.ts"
import { atOnce } from "../../turns.ts"
import { isObject, sortedCopy } from "../document/json-value.ts"
import type { HandlerSpec } from "../handler.ts"
import { checkDataSchema } from "../input/input-schema.ts"
import type { DocumentPath, ProblemList } from "../problem.ts"

export class SignalSchemas {
  readonly #problems: ProblemList
  readonly #byName = new Map<string, { readonly schema: JsonObject; readonly position: number }>()

  constructor(problems: ProblemList) {
    this.#problems = problems
  }

  /** undefined: the node waits for no signal, or declares no schema, or a wrong one. */
  add(
    { signal }: HandlerSpec,
    { source, templates }: ValueTemplate,
    position: number,
  ): SignalSchema | undefined {
    if (signal === undefined || !isObject(source)) return undefined
    const schema = source[signal.schema]
    const name = source[signal.name]
    if (!isObject(schema) || typeof name !== "string") return undefined
    const at = (...path: DocumentPath) => ["nodes", position, "config", ...path]
    for (const key of [signal.name, signal.schema]) {
      const template = templates.find(({ path }) => path[0] === key)
      if (template === undefined) continue
      const message = `A signal with a schema is checked when it arrives, before the node may have run: "${key}" cannot contain templates.`
      this.#problems.add("E102", at(...template.path), message)
      return undefined
    }
    const before = this.#problems.size
    const report = (path: DocumentPath, message: string) =>
      this.#problems.add("E102", at(signal.schema, ...path), message)
    atOnce(checkDataSchema(schema, report))
    if (this.#problems.size > before) return undefined
    const known = this.#byName.get(name)
    if (known === undefined) this.#byName.set(name, { schema: schema as JsonObject, position })
    else if (JSON.stringify(sortedCopy(known.schema)) !== JSON.stringify(sortedCopy(schema))) {
      const message = `nodes[${known.position}] waits for signal "${name}" with another schema. Give both the same, or the signals different names.`
      this.#problems.add("E102", at(signal.schema), message)
      return undefined
    }
    return Object.freeze({ name, schema: schema as JsonObject })
  }
}
