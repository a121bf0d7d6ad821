/** A user's adapters from a module: every export that is one, and every list of them. */
import { UmbraError } from "../../errors.ts"
import { exportsIn } from "../../worker/load.ts"
import { type Adapter, defineAdapter, isAdapter } from "../adapter.ts"
import { looksLikeAdapter } from "./discover.ts"

export async function loadAdapters(module: string): Promise<Adapter[]> {
  const found = [...new Set(await exportsIn(module))].filter(looksLikeAdapter)
  if (found.length > 0) return found.map(adapter => (isAdapter(adapter) ? adapter : defineAdapter(adapter)))
  throw new UmbraError(
    "E720",
    `${module} exports no adapter. Export what defineAdapter({ type, config, process }) gives, or lists of it.`,
  )
}

/** Of a module that may export other things too (`--handlers`): those that say so. */
export async function adaptersIn(module: string): Promise<Adapter[]> {
  return [...new Set((await exportsIn(module)).filter(isAdapter))]
}
