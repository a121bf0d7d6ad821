/** Names in templates that are not node ids, and the ids that would hide them. */

/** The fields of `job` in a template. */
export const jobFields = ["id", "workflow", "workflow_version", "owner", "created_at"] as const

/** Root names of a template's scope besides node ids. */
export const rootNames = ["input", "nodes", "job", "secrets", "item", "index"] as const

const literals = ["true", "false", "none", "null", "True", "False", "None"]
const keywords = ["and", "or", "not", "in", "is", "if", "else", "elif", "endif", "for", "endfor"]
const builtIns = ["loop", "range", "dict", "namespace"]

/** Names of every JavaScript object: templates never resolve them, so no node may have them as id. */
const objectNames = ["constructor", "prototype", "__proto__"]

export const reservedIds: ReadonlySet<string> = new Set([
  ...rootNames,
  ...literals,
  ...keywords,
  ...builtIns,
  ...objectNames,
])

export const idPattern = /^[A-Za-z_][A-Za-z0-9_-]*$/
/** The same as text. */
export const idWords = "letters, digits, _ and -, not beginning with a digit or -"
