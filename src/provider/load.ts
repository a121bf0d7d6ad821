/**
 * Loads a user's providers: from a module (every export that is a provider, and every list of them), or from
 * a YAML or JSON file with one provider, or a list of them, in the declarative form.
 */
import { readFile } from "node:fs/promises"
import { parse } from "yaml"
import { UmbraError } from "../errors.ts"
import { exportsIn } from "../worker/load.ts"
import { httpProvider } from "./http-provider.ts"
import type { HttpProviderDefinition } from "./http-spec.ts"
import { isProvider, type Provider } from "./provider.ts"

export async function loadProviders(module: string): Promise<Provider[]> {
  const isFile = /\.(ya?ml|json)$/i.test(module)
  const found = isFile ? await fromFile(module) : await providersIn(module)
  if (found.length > 0) return found
  throw new UmbraError(
    "E605",
    `${module} has no provider. Export the result of defineProvider({ name, … }), or write one in YAML (docs/reference/providers.md).`,
  )
}

/** For a module that may export other things too: those of `--handlers`. */
export async function providersIn(module: string): Promise<Provider[]> {
  return [...new Set((await exportsIn(module)).filter(isProvider))]
}

async function fromFile(file: string): Promise<Provider[]> {
  let content: unknown
  try {
    content = parse(await readFile(file, "utf8"))
  } catch (error) {
    const isAbsent = (error as NodeJS.ErrnoException).code === "ENOENT"
    const why = isAbsent
      ? "does not exist. Check the path; it is relative to the current directory."
      : `cannot be read: ${(error as Error).message}`
    throw new UmbraError("E605", `${file} ${why}`, { cause: error })
  }
  try {
    return [content].flat().map(each => httpProvider(each as HttpProviderDefinition))
  } catch (error) {
    if (!(error instanceof UmbraError)) throw error
    throw new UmbraError(error.code, `${file}: ${error.message}`, { cause: error })
  }
}
