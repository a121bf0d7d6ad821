/** Chromium: tests start the program themselves, so this only finds it. */
import { findExecutable, isExecutable } from "./executable.ts"
import { capture } from "./run.ts"

/**
 * First the one without windows: the same engine, whose browser process keeps no tab strip, address bar and profile. Pages cost
 * a third less processor time in it. Debian's script of this name in /usr/bin stays the parent of the program: ending the
 * script leaves the browser running.
 */
const SHELL = ["/usr/lib/chromium/chromium-headless-shell"]
const NAMES = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"]
const MAC = [
  "/Applications/Chromium.app/Contents/MacOS/Chromium",
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
]

export interface ChromiumProgram {
  readonly command: string
  readonly version: string
}

/** Returns the program, or what is missing. A stub that only points to another package does not count. */
export async function findChromium(): Promise<ChromiumProgram | string> {
  const command =
    (await firstExecutable(SHELL)) ?? (await findExecutable(NAMES)) ?? (await firstExecutable(MAC))
  if (command === null) return "Chromium (chromium-headless-shell): it is not installed"
  const line = await capture(command, ["--version"]).catch(() => null)
  const version = /(\d+(?:\.\d+)+)/.exec(line ?? "")?.[1]
  return version ? { command, version } : `Chromium (chromium-headless-shell): ${command} does not start`
}

async function firstExecutable(files: readonly string[]): Promise<string | null> {
  for (const file of files) if (await isExecutable(file)) return file
  return null
}
