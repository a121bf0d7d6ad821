/** Which files pipelines may use. A path is judged by where it really leads, links followed. */
import { realpath } from "node:fs/promises"
import { basename, dirname, join, relative, resolve, sep } from "node:path"
import { HandlerError } from "../../../worker/fail.ts"
import type { AdapterSettings } from "../settings.ts"

export class AllowedFiles {
  readonly #allow: AdapterSettings["allowFiles"]

  constructor(allow: AdapterSettings["allowFiles"]) {
    this.#allow = allow
  }

  /**
   * The path to use; throws E721. A relative path is taken from the first folder that is allowed, or from the current
   * one where all are.
   */
  async locate(path: string): Promise<string> {
    const allow = this.#allow
    if (allow === true) return resolve(path)
    const folders = allow === false ? [] : allow
    const asked = resolve(folders[0] ?? ".", path)
    const real = await realPath(asked)
    for (const folder of folders) if (isInside(await realPath(resolve(folder)), real)) return asked
    throw notAllowed(path, folders)
  }
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

function notAllowed(path: string, folders: readonly string[]): HandlerError {
  const now = folders.length === 0 ? "none is" : `only those in ${folders.join(", ")} are`
  return new HandlerError(
    `${path} is a file that pipelines may not use: ${now} allowed. If it should be, the operator sets UMBRA_ALLOW_FILES ` +
      "to the folders that are allowed, or to 1.",
    { code: "E721", retryable: false },
  )
}
