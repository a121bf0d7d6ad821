/**
 * The packages whose modules `scripts/bundle.ts` joins with ours (docs/decisions/0076): a process would load 95 modules for
 * zod and 72 for yaml. Their licences are written beside them.
 */
import { existsSync, readFileSync } from "node:fs"
import { isBuiltin } from "node:module"
import { join } from "node:path"
import type { Plugin } from "esbuild"

/** The last two share the copy of zod. */
const JOINED = ["zod", "yaml", "@opentelemetry/api", "fastify-type-provider-zod", "@fastify/error"]

export const joinedPackages: Plugin = {
  name: "joined-packages",
  setup(build) {
    // Everything that is not a path, except the joined packages.
    build.onResolve({ filter: /^[^./]/ }, ({ path, kind }) => {
      if (kind === "entry-point") return
      if (isBuiltin(path) && kind === "require-call") return { path, namespace: "required-builtin" }
      return JOINED.some(name => path === name || path.startsWith(`${name}/`))
        ? undefined
        : { external: true }
    })
    // CommonJS modules require modules of Node.js, and an ES module has no `require`.
    build.onLoad({ filter: /.*/, namespace: "required-builtin" }, ({ path }) => ({
      contents: `export * from ${JSON.stringify(`node:${path.replace(/^node:/, "")}`)}`,
    }))
    // Messages in 60 languages, which nothing of ours asks for.
    build.onLoad({ filter: /\/zod\/v4\/locales\/index\.js$/ }, () => ({
      contents: 'export { default as en } from "./en.js"',
    }))
  },
}

/** The licences of the packages whose files are among `inputs`. */
export function licencesOf(root: string, inputs: readonly string[]): string {
  const names = inputs.flatMap(input => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input)?.[1] ?? [])
  return [...new Set(names)]
    .sort()
    .map(name => licenceOf(join(root, "node_modules", name), name))
    .join("\n")
}

function licenceOf(folder: string, name: string): string {
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"))
  const file = ["LICENSE", "LICENSE.md", "LICENCE"].map(file => join(folder, file)).find(existsSync)
  if (file === undefined) throw new Error(`The package ${name} has no licence file.`)
  return `${name} ${version} (${license})\n\n${readFileSync(file, "utf8").trim()}\n`
}
