/** Converts errors of the file system to faults that name the file. */
import { HandlerError } from "../../../worker/fail.ts"

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
