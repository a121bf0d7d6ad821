/** The files of the repository, as the shape tests see them: without what .gitignore names. */
import { readdirSync, readFileSync } from "node:fs"
import { join, relative } from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("../..", import.meta.url))

export const read = (path: string): string => readFileSync(join(root, path), "utf8")

/** Paths from the root, sorted. Walks the folder itself, so that a tree without git is checked just the same. */
export function listFiles(under = ""): readonly string[] {
  const ignored = ignoredBy(read(".gitignore"))
  const walk = (folder: string): string[] =>
    readdirSync(folder, { withFileTypes: true }).flatMap(entry => {
      const path = relative(root, join(folder, entry.name)).replaceAll("\\", "/")
      if (ignored(entry.isDirectory() ? `${path}/` : path)) return []
      return entry.isDirectory() ? walk(join(folder, entry.name)) : [path]
    })
  return walk(join(root, under)).sort()
}

/** Understands the plain forms .gitignore uses here: `name/` anywhere, `*.ending`, `path/to/file`. */
function ignoredBy(gitignore: string): (path: string) => boolean {
  const patterns = [".git/", ...gitignore.split("\n").filter(line => line !== "" && !line.startsWith("#"))]
  return path =>
    patterns.some(pattern => {
      if (pattern.startsWith("*")) return path.endsWith(pattern.slice(1))
      if (pattern.endsWith("/")) return `/${path}`.endsWith(`/${pattern}`)
      return path === pattern
    })
}
