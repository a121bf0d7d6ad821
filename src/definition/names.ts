/** Names a template knows without a node of that name, and the ids that would hide them. */

/** What `job` holds in a template. */
export const jobFields = ["id", "workflow", "workflow_version", "owner", "created_at"] as const

/** Root names of a template's scope besides node ids. */
export const rootNames = ["input", "nodes", "job", "secrets", "item", "index"] as const

const literals = ["true", "false", "none", "null", "True", "False", "None"]
const keywords = ["and", "or", "not", "in", "is", "if", "else", "elif", "endif", "for", "endfor"]
const builtIns = ["loop", "range", "dict", "namespace"]

/** Names JavaScript gives to every object: unknown to templates for ever, so no node may be called so. */
const objectNames = ["constructor", "prototype", "__proto__"]

export const reservedIds: ReadonlySet<string> = new Set([
  ...rootNames,
  ...literals,
  ...keywords,
  ...builtIns,
  ...objectNames,
])

export const idPattern = /^[A-Za-z_][A-Za-z0-9_-]*$/
/** The same in words. */
export const idWords = "letters, digits, _ and -, not beginning with a digit or -"
