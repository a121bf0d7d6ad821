/**
 * strace: tests start the program themselves to see the system calls of a process. It exists only on Linux.
 */
import { findExecutable } from "./executable.ts"
import { capture } from "./run.ts"

export interface StraceProgram {
  readonly command: string
}

/** Returns the program, or what is missing. Null: this system has none, and no test needs it here. */
export async function findStrace(): Promise<StraceProgram | string | null> {
  if (process.platform !== "linux") return null
  const command = await findExecutable(["strace"])
  if (command === null) return "strace (strace): it is not installed"
  const traces = await capture(command, ["-qq", "-o", "/dev/null", "true"]).then(
    () => true,
    () => false,
  )
  return traces ? { command } : "strace (strace): it may not trace processes here (ptrace)"
}
