/** Starts child.ts and collects what it says. */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import { programArguments } from "../support/program.ts"

export interface Child {
  readonly pid: number
  readonly lines: string[]
  /** The first line that begins so. */
  says(start: string): Promise<string>
  kill(): Promise<void>
  /** Everything it said, once it has ended by itself. */
  ended(): Promise<string[]>
}

const script = fileURLToPath(new URL("./child.ts", import.meta.url))

export function startChild(location: string, mode = "append"): Child {
  const child: ChildProcess = spawn(process.execPath, [...programArguments(script), location, mode], {
    stdio: ["ignore", "pipe", "inherit"],
  })
  const lines: string[] = []
  const exit = once(child, "exit")
  const output = createInterface({ input: child.stdout! })
  const outputEnded = once(output, "close")
  output.on("line", line => lines.push(line))
  const says = (start: string) =>
    new Promise<string>((resolve, reject) => {
      const look = () => {
        const found = lines.find(line => line.startsWith(start))
        if (found !== undefined) resolve(found)
      }
      look()
      output.on("line", look)
      output.once("close", () => reject(new Error(`it said only:\n${lines.slice(0, 20).join("\n")}`)))
    })
  return {
    pid: child.pid!,
    lines,
    says,
    async kill() {
      child.kill("SIGKILL")
      await exit
      await outputEnded
    },
    async ended() {
      await exit
      await outputEnded
      return lines
    },
  }
}
