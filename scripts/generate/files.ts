import { mkdir, readdir, readFile, rename, writeFile } from "node:fs/promises"
import { fileURLToPath } from "node:url"

export interface SourceFile {
  readonly name: string
  readonly text: string
}

/** The folder's files with this ending, by name, with line ends as git keeps them: the same on every machine. */
export async function readFolder(folder: URL, ending: string): Promise<readonly SourceFile[]> {
  const names = (await readdir(folder)).filter(name => name.endsWith(ending)).sort()
  return Promise.all(
    names.map(async name => ({
      name: name.slice(0, -ending.length),
      text: (await readFile(new URL(name, folder), "utf8")).replaceAll("\r\n", "\n"),
    })),
  )
}

/** Moved into place whole, so that a process reading meanwhile sees the old file or the new one. */
export async function writeIfChanged(file: URL, text: string): Promise<void> {
  if ((await readFile(file, "utf8").catch(() => null)) === text) return
  await mkdir(new URL("./", file), { recursive: true })
  const draft = `${fileURLToPath(file)}.${process.pid}`
  await writeFile(draft, text)
  await rename(draft, file)
}
