/** What is loaded with a file of `dist/`: the build joins many sources into one file, and says which. */
import { posix } from "node:path"
import { read } from "./files.ts"
import { everyNode, parse } from "./syntax.ts"

export interface Loaded {
  /** The file and all that it imports statically, however far, by path from the root. */
  readonly files: readonly string[]
  /** The sources that these files were made of. */
  readonly sources: readonly string[]
  /** Packages, imported or joined with the sources, and modules of Node.js. */
  readonly packages: readonly string[]
}

export function loadedWith(entry: string): Loaded {
  const files = new Set<string>()
  const sources = new Set<string>()
  const packages = new Set<string>()
  const visit = (file: string): void => {
    if (files.has(file)) return
    files.add(file)
    const text = read(file)
    for (const [, source] of text.matchAll(/^\/\/ (src\/.*)$/gm)) sources.add(source!)
    for (const [, name] of text.matchAll(/^\/\/ node_modules\/((?:@[^/]+\/)?[^/]+)\//gm)) packages.add(name!)
    for (const { node } of everyNode(parse(file, text))) {
      const { value } = (node.source ?? {}) as { value?: unknown }
      if (node.type === "ImportExpression" || typeof value !== "string") continue
      if (value.startsWith(".")) visit(posix.join(posix.dirname(file), value))
      else packages.add(value)
    }
  }
  visit(entry)
  return { files: [...files], sources: [...sources].sort(), packages: [...packages] }
}
