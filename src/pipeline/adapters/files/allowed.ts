/**
 * Decides which files pipelines may use. A path is checked after all symbolic links are resolved.
 *
 * The local owner has the allowed folders themselves. Every other owner has a subfolder of its own in each of
 * them, named after the owner, and nothing outside: no owner can read or replace the files of another.
 */
import { createHash } from "node:crypto"
import { readlink, realpath } from "node:fs/promises"
import { dirname, join, parse, relative, resolve, sep } from "node:path"
import { localOwner } from "../../../core/facts.ts"
import { finalError, HandlerError } from "../../../worker/fail.ts"
import type { AdapterSettings } from "../settings.ts"

export class AllowedFiles {
  readonly #allow: AdapterSettings["allowFiles"]

  constructor(allow: AdapterSettings["allowFiles"]) {
    this.#allow = allow
  }

  /**
   * Returns the resolved path; throws E721. A relative path is resolved against the owner's first folder, or
   * against the current folder where all files are allowed.
   */
  async locate(path: string, owner: string): Promise<string> {
    const allow = this.#allow
    if (path.includes("\0")) throw withNul(path)
    if (allow === true && owner === localOwner) return resolve(path)
    const folders = foldersFor(owner, allow)
    const asked = resolve(folders[0] ?? ".", path)
    const real = await realPath(asked)
    for (const folder of folders) if (isInside(await realPath(resolve(folder)), real)) return asked
    throw notAllowed(path, folders, allow === true)
  }
}

function foldersFor(owner: string, allow: AdapterSettings["allowFiles"]): readonly string[] {
  if (typeof allow === "boolean") return []
  return owner === localOwner ? allow : allow.map(folder => join(folder, folderName(owner)))
}

/** A file name has at most 255 bytes. */
const LONGEST_NAME = 200

/**
 * Percent-encoded except for a-z, 0-9, "_" and "-": two owners have two names, even on a file system that
 * ignores case, and no name is "." or "..".
 */
function folderName(owner: string): string {
  const name = Buffer.from(owner)
    .toString("latin1")
    .replace(/[^a-z0-9_-]/g, byte => `%${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`)
  if (name.length <= LONGEST_NAME) return name
  // No encoded name has a "%" before an "s".
  return `%sha256-${createHash("sha256").update(owner).digest("hex")}`
}

async function realPath(path: string): Promise<string> {
  return realpath(path).catch(() => withoutLinks(path))
}

/** As in Linux. */
const MOST_LINKS = 40

/**
 * The real path of a file that does not exist yet, or cannot be reached. Every link on the way is followed,
 * also one whose target does not exist: whether it does must not be visible outside the allowed folders.
 */
async function withoutLinks(path: string): Promise<string> {
  let { root: real } = parse(path)
  const names = namesIn(path)
  for (let links = 0; names.length > 0; ) {
    const next = join(real, names.shift()!)
    const target = await readlink(next).catch(() => null)
    if (target === null) real = next
    else if (++links > MOST_LINKS) return join(next, ...names)
    else {
      const whole = resolve(dirname(next), target)
      names.unshift(...namesIn(whole))
      real = parse(whole).root
    }
  }
  return real
}

function namesIn(path: string): string[] {
  return path
    .slice(parse(path).root.length)
    .split(sep)
    .filter(name => name !== "")
}

function isInside(folder: string, path: string): boolean {
  const way = relative(folder, path)
  return way !== "" && way !== ".." && !way.startsWith(`..${sep}`) && resolve(folder, way) === path
}

function notAllowed(path: string, folders: readonly string[], isForLocal: boolean): HandlerError {
  const now = folders.length === 0 ? "no file is allowed" : `only files in ${folders.join(", ")} are allowed`
  const advice = isForLocal
    ? `UMBRA_ALLOW_FILES=1 is for the owner "${localOwner}" alone: with a list of folders, every owner has a folder of its own.`
    : "To allow it, the operator sets UMBRA_ALLOW_FILES to the folders that are allowed."
  return finalError("E721", `Pipelines may not use the file ${path}: ${now}. ${advice}`)
}

function withNul(path: string): HandlerError {
  return finalError(
    "E721",
    `Pipelines may not use the file ${JSON.stringify(path)}: its path contains a NUL character.`,
  )
}

/** These need a person to act first: retrying is pointless. */
const final = new Set(["EISDIR", "ENOTDIR", "EACCES", "EPERM", "EROFS", "ENAMETOOLONG", "ELOOP", "EINVAL"])

export function readFault(path: string, error: unknown): unknown {
  return fault({ path, error, code: "E722", verb: "read" })
}

export function writeFault(path: string, error: unknown): unknown {
  return fault({ path, error, code: "E723", verb: "written" })
}

interface What {
  readonly path: string
  readonly error: unknown
  readonly code: string
  readonly verb: string
}

/** Errors that do not come from the file system, such as an abort, stay unchanged. */
function fault({ path, error, code, verb }: What): unknown {
  const { code: cause, syscall, message } = (error ?? {}) as NodeJS.ErrnoException
  if (error instanceof HandlerError || cause === undefined || syscall === undefined) return error
  return new HandlerError(`${path} cannot be ${verb}: ${meanings[cause] ?? message}`, {
    code,
    retryable: !final.has(cause),
    details: { cause },
    cause: error,
  })
}

const meanings: Readonly<Record<string, string>> = {
  ENOENT: "it does not exist, or its folder does not. Create it; the message is retried.",
  EISDIR: "it is a folder. Name a file.",
  ENOTDIR: "a part of the path is a file, not a folder.",
  EACCES: "the user that this process runs as has no permission.",
  ENOSPC: "the disk is full.",
  EROFS: "the file system is read-only.",
}
