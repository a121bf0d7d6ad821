/** V8's precise coverage of a part of a program that runs several times. */
import { readFileSync } from "node:fs"
import { Session } from "node:inspector"
import { fileURLToPath, pathToFileURL } from "node:url"

/** `sources`: the folder of the compiled sources whose files are counted. */
export class Coverage {
  #folder
  #session = new Session()
  /** One for each run. */
  #found = []

  constructor(sources) {
    this.#folder = pathToFileURL(`${sources}/`).href
    this.#session.connect()
    this.#post("Profiler.enable")
    this.#post("Profiler.startPreciseCoverage", { callCount: true, detailed: true })
  }

  begin() {
    this.#post("Profiler.takePreciseCoverage")
  }

  end() {
    this.#found.push(this.#post("Profiler.takePreciseCoverage").result)
  }

  /**
   * Prints the files that ran every time, and how many of their lines did at least: timers of the program fire during some
   * of the runs, on a busy machine during most of them.
   */
  print() {
    const [first, ...others] = this.#found.map(scripts => {
      const own = scripts.filter(({ url }) => url.startsWith(this.#folder))
      return new Map(own.map(({ url, functions }) => [url, coveredLines(url, functions)]))
    })
    const walk = [...first].map(([url, lines]) => ({
      file: url.slice(this.#folder.length),
      lines: Math.min(lines, ...others.map(run => run.get(url) ?? 0)),
    }))
    console.log(JSON.stringify(walk.filter(({ lines }) => lines > 0)))
  }

  #post(method, params) {
    let answer
    this.#session.post(method, params, (error, value) => {
      if (error) throw error
      answer = value
    })
    return answer
  }
}

/** Lines of code, without comments and closing brackets, of which a part ran. */
function coveredLines(url, functions) {
  const text = readFileSync(fileURLToPath(url), "utf8")
  const ran = new Uint8Array(text.length)
  const ranges = functions.flatMap(found => found.ranges)
  ranges.sort((a, b) => a.startOffset - b.startOffset || b.endOffset - a.endOffset)
  for (const { startOffset, endOffset, count } of ranges) ran.fill(count > 0 ? 1 : 0, startOffset, endOffset)
  const code = text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*/g, comment => comment.replaceAll(/[^\n]/g, " "))
  let position = 0
  let lines = 0
  for (const line of code.split("\n")) {
    const isCode = /[^\s{}()\][;,]/.test(line)
    if (isCode && ran.subarray(position, position + line.length).includes(1)) lines++
    position += line.length + 1
  }
  return lines
}
