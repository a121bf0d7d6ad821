/**
 * Which files pipelines may use. A path is judged by where it really leads, links followed.
 *
 * The local owner has the folders that are allowed. Every other owner has a subfolder of its own in each of them, named
 * after it, and nothing outside: what one owner writes, another can neither read nor replace.
 */
import { createHash } from "node:crypto"
import { realpath } from "node:fs/promises"
import { basename, dirname, join, relative, resolve, sep } from "node:path"
import { localOwner } from "../../../core/facts.ts"
import { HandlerError } from "../../../worker/fail.ts"
import type { AdapterSettings } from "../settings.ts"

export class AllowedFiles {
  readonly #allow: AdapterSettings["allowFiles"]

  constructor(allow: AdapterSettings["allowFiles"]) {
    this.#allow = allow
  }

  /**
   * The path to use; throws E721. A relative path is taken from the owner's first folder, or from the current one where
   * all are allowed.
   */
  async locate(path: string, owner: string): Promise<string> {
    const allow = this.#allow
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

/** A file's name has at most 255 bytes. */
const LONGEST_NAME = 200

/**
 * Percent-encoded but for a-z, 0-9, "_" and "-": two owners have two names, also where the file system takes capitals and
 * small letters for the same, and none is "." or "..".
 */
function folderName(owner: string): string {
  const name = Buffer.from(owner)
    .toString("latin1")
    .replace(/[^a-z0-9_-]/g, byte => `%${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`)
  if (name.length <= LONGEST_NAME) return name
  // No encoded name has a "%" before an "s".
  return `%sha256-${createHash("sha256").update(owner).digest("hex")}`
}

/** Of a file that is yet to be made: where its folder really is. */
async function realPath(path: string): Promise<string> {
  try {
    return await realpath(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT" || dirname(path) === path) return path
    return join(await realPath(dirname(path)), basename(path))
  }
}

function isInside(folder: string, path: string): boolean {
  const way = relative(folder, path)
  return way !== "" && way !== ".." && !way.startsWith(`..${sep}`) && resolve(folder, way) === path
}

function notAllowed(path: string, folders: readonly string[], isForLocal: boolean): HandlerError {
  const now = folders.length === 0 ? "none is" : `only those in ${folders.join(", ")} are`
  const advice = isForLocal
    ? `UMBRA_ALLOW_FILES=1 is for the owner "${localOwner}" alone: with folders in it every owner has one of its own.`
    : "If it should be, the operator sets UMBRA_ALLOW_FILES to the folders that are allowed."
  return new HandlerError(`${path} is a file that pipelines may not use: ${now} allowed. ${advice}`, {
    code: "E721",
    retryable: false,
  })
}
