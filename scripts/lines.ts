/**
 * Counts the lines of code of src/, without comments and blank lines, as docs/decisions/0039 does:
 *
 *     node --import tsx scripts/lines.ts [--rooms] [COMMIT]
 *
 * A line counts unless it is blank, begins with `//` (SQL: `--`), or is in a block comment that begins its line.
 */
import { execFileSync } from "node:child_process"
import { readFileSync } from "node:fs"

const [commit] = process.argv.slice(2).filter(argument => !argument.startsWith("--"))
const git = (...parameters: string[]) =>
  execFileSync("git", parameters, { encoding: "utf8", maxBuffer: 2 ** 30 })

function codeLines(file: string, text: string): number {
  let count = 0
  let isInComment = false
  for (const line of text.split("\n").map(each => each.trim())) {
    const begins = !isInComment && !file.endsWith(".sql") && line.startsWith("/*")
    const isComment = isInComment || begins || line.startsWith(file.endsWith(".sql") ? "--" : "//")
    if (line !== "" && !isComment) count++
    if (isInComment || begins) isInComment = !line.includes("*/")
  }
  return count
}

const listed =
  commit === undefined ? git("ls-files", "src") : git("ls-tree", "-r", "--name-only", commit, "src")
const files = listed.trim().split("\n")
const rooms = new Map<string, number>()
for (const file of files) {
  const text = commit === undefined ? readFileSync(file, "utf8") : git("show", `${commit}:${file}`)
  const room = file.split("/")[1]!
  rooms.set(room, (rooms.get(room) ?? 0) + codeLines(file, text))
}
if (process.argv.includes("--rooms")) for (const [room, lines] of rooms) console.log(`${lines} ${room}`)
const total = [...rooms.values()].reduce((sum, lines) => sum + lines, 0)
console.log(`${total} lines of code in ${files.length} files`)
