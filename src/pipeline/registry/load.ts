/** Loads a user's adapters from a module: every export that is an adapter, and every list of adapters. */
import { UmbraError } from "../../errors.ts"
import { exportsIn } from "../../worker/load.ts"
import { type Adapter, defineAdapter, isAdapter } from "../adapter.ts"
import { looksLikeAdapter } from "./discover.ts"

export async function loadAdapters(module: string): Promise<Adapter[]> {
  const found = [...new Set(await exportsIn(module))].filter(looksLikeAdapter)
  if (found.length > 0) return found.map(adapter => (isAdapter(adapter) ? adapter : defineAdapter(adapter)))
  throw new UmbraError(
    "E720",
    `${module} exports no adapter. Export the result of defineAdapter({ type, config, process }), or lists of such results.`,
  )
}

/** For a module that may export other things too (`--handlers`): the exports that have the adapter brand. */
export async function adaptersIn(module: string): Promise<Adapter[]> {
  return [...new Set((await exportsIn(module)).filter(isAdapter))]
}
