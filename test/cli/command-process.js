/**
 * Runs commands of the built program one after another, in one process (see same-process.ts). Each finds what a process of
 * its own would have: parameters, environment, folder, streams that are no terminal, and no listener of the command before.
 */
import { Console } from "node:console"
import { Readable, Writable } from "node:stream"

const main = new URL("../../dist/cli/main.js", import.meta.url)
const { reallyExit } = process
const signals = ["SIGINT", "SIGTERM", "SIGHUP"]
let commands = 0
let last = Promise.resolve()

process.on("message", command => {
  last = last.then(async () => process.send(await run(command)))
})
process.on("disconnect", () => reallyExit.call(process, 0))

async function run({ parameters, cwd, env, stdin }) {
  const [stdout, stderr] = [new Written(), new Written()]
  for (const name of Object.keys(process.env)) delete process.env[name]
  Object.assign(process.env, env)
  process.chdir(cwd)
  process.argv = [process.execPath, main.pathname, ...parameters]
  process.exitCode = undefined
  replaceStreams({ stdin: Readable.from(stdin === "" ? [] : [Buffer.from(stdin, "base64")]), stdout, stderr })
  globalThis.console = new Console(stdout, stderr)
  const warn = warning => stderr.write(`${warning.stack}\n`)
  process.on("warning", warn)
  const code = await new Promise(resolve => {
    process.exit = (given = process.exitCode ?? 0) => resolve(given)
    // Its own modules are loaded once, the main module, which runs the command, each time.
    import(`${main.href}?${++commands}`).catch(error => {
      stderr.write(`${error?.stack ?? error}\n`)
      resolve(1)
    })
  })
  process.off("warning", warn)
  for (const event of ["exit", ...signals]) process.removeAllListeners(event)
  process.reallyExit = reallyExit
  return { code, stdout: stdout.text(), stderr: stderr.text() }
}

function replaceStreams(streams) {
  for (const [name, value] of Object.entries(streams))
    Object.defineProperty(process, name, { value, configurable: true, writable: true })
}

class Written extends Writable {
  #chunks = []

  _write(chunk, _encoding, done) {
    this.#chunks.push(chunk)
    done()
  }

  text() {
    return Buffer.concat(this.#chunks).toString()
  }
}
