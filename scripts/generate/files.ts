import { mkdir, readdir, readFile, rename, writeFile } from "node:fs/promises"
import { basename, join } from "node:path"
import { fileURLToPath } from "node:url"

export interface SourceFile {
  readonly name: string
  readonly text: string
}

/** All files with this ending below the folder, sorted by name, with LF line ends on every machine. */
export async function readFolder(folder: URL, ending: string): Promise<readonly SourceFile[]> {
  const paths = (await readdir(folder, { recursive: true })).filter(path => path.endsWith(ending))
  const files = await Promise.all(
    paths.map(async path => ({
      name: basename(path, ending),
      text: (await readFile(join(fileURLToPath(folder), path), "utf8")).replaceAll("\r\n", "\n"),
    })),
  )
  return files.sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** Moved into place as a whole, so that a process that reads meanwhile sees the old file or the new. */
export async function writeIfChanged(file: URL, text: string): Promise<void> {
  if ((await readFile(file, "utf8").catch(() => null)) === text) return
  await mkdir(new URL("./", file), { recursive: true })
  const draft = `${fileURLToPath(file)}.${process.pid}`
  await writeFile(draft, text)
  await rename(draft, file)
}
