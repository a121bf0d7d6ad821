/** What the file system said, as a fault that names the file. */
import { HandlerError } from "../../../worker/fail.ts"

/** Somebody must do something first, and nobody is waiting for it. */
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

/** What the file system did not say, an abort for example, stays what it is. */
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
  ENOENT: "it does not exist, or its folder does not. Put it in place; the message is tried again.",
  EISDIR: "it is a folder. Name a file.",
  ENOTDIR: "a part of the path is a file, not a folder.",
  EACCES: "its mode does not allow that to the user this process runs as.",
  ENOSPC: "the disk is full.",
  EROFS: "the file system is read-only.",
}
