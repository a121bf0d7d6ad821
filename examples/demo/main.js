// The showcase: `npm run demo`. Takes about twelve seconds, needs nothing but `npm ci`, cleans up after itself.
//
// A small order workflow runs in a process of its own, on the embedded database in a temporary folder. One of its
// nodes calls a web service (started here) that fails twice. In the middle of the work the process is killed with
// SIGKILL; a second process opens the same folder and finishes the job. Then a film is made: its scenes are rendered
// side by side at a provider that is as unreliable as real ones are (examples/film/). `npm run demo -- --ui` then serves the
// dashboard with these jobs and others of every kind (jobs.js), until Ctrl-C.
import { fork, spawn } from "node:child_process"
import { mkdtemp, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { makeFilm } from "../film/film.js"
import { makeJobs } from "./jobs.js"
import { bold, dim, green, narrate, red, yellow } from "./narrator.js"
import { startPriceService } from "./price-service.js"

const showsDashboard = process.argv.includes("--ui")
const folder = await mkdtemp(join(tmpdir(), "umbra-demo-"))
const prices = await startPriceService()
try {
  await demo()
  await filmDemo()
  if (showsDashboard) await dashboard()
} finally {
  await prices.close()
  await rm(folder, { recursive: true, force: true })
}

async function demo() {
  console.log(bold("\nUmbra in twelve seconds\n"))
  console.log(`  order ─┬─ price      ${dim("calls a web service that fails twice, and is retried")}`)
  console.log(`         ├─ stock      ${dim("runs beside it")}`)
  console.log(`         ├─ gift_wrap  ${dim("only if the input asks for it")}`)
  console.log(`         └─ pack       ${dim("slow: the process is killed while it runs")}`)
  console.log(`  letter ── waits for all four, and fills in a template\n`)

  console.log(bold("1. A process runs the job"))
  const first = start("submit")
  const jobId = await first.said("submitted")
  await Promise.all([
    first.saw("node.completed", "price"),
    first.saw("node.completed", "stock"),
    first.said("packing"),
  ])
  first.kill()
  const end = await first.ended
  console.log(
    `${red(`   kill -9 ${first.pid}`)}  the process is gone (${end.signal}), "pack" was half done\n`,
  )

  console.log(bold("2. Another process opens the same folder"))
  const second = start("resume", jobId)
  const job = await second.said("finished")
  await second.ended

  const runs = (await readFile(join(folder, "runs.log"), "utf8"))
    .trim()
    .split("\n")
    .map(line => JSON.parse(line))
  console.log(bold("\n3. Who did what"))
  for (const { node, run, pid } of runs)
    console.log(`   ${node.padEnd(10)} run ${run}  by process ${pid === first.pid ? "1" : "2"}`)
  console.log(`   ${"price".padEnd(10)} ${prices.calls} calls in all, by process 1\n`)
  console.log(`   ${green(job.status)}  ${JSON.stringify(job.output)}\n`)

  check(job.status === "COMPLETED", "the job completed although its process was killed")
  check(
    prices.calls === 3,
    "the failing call was retried until it succeeded, and not called again after the kill",
  )
  check(count(runs, "stock") === 1, "what was done before the kill did not run again")
  check(count(runs, "pack") === 2, "what was interrupted ran again")
  check(
    new Set(runs.filter(({ node }) => node === "pack").map(({ key }) => key)).size === 1,
    "both runs had the same idempotency key, so that a service can recognise the second",
  )
  check(
    job.nodes.gift_wrap === "SKIPPED",
    "the node whose condition was false was skipped, and its dependents went on",
  )
  check(job.output.letter.includes("Ada"), "the join read the outputs of all its parents in a template")
}

async function filmDemo() {
  console.log(
    bold("\n4. A film: its scenes are rendered elsewhere, side by side, at a studio with two slots\n"),
  )
  console.log(`  script ─── scenes ${dim("(one for each of the script)")} ─── stitch\n`)
  const { status, output, studio, webhooks, slots } = await makeFilm(
    line => console.log(`   ${line}`),
    showsDashboard ? join(folder, "data") : undefined,
  )
  const of = scene => [...studio.operations.values()].filter(({ request }) => request.scene === scene)
  console.log(`\n   ${green(status)}  ${JSON.stringify(output)}\n`)
  check(output?.clips.join() === "harbour.mp4,storm.mp4,chase.mp4,kiss.mp4", "the scenes are in their order")
  check(studio.mostAtOnce === 2, "the studio never had more than two of them, by its own count")
  check(
    of("chase").length === 1 && of("chase")[0].submissions === 2 && of("chase")[0].polls > 0,
    "the answer that was lost was asked for again under its key, and a poll made up for a webhook that was lost",
  )
  check(of("kiss").length === 2, "the scene that failed was rendered once more")
  check(
    webhooks.filter(({ verdict }) => verdict === "refused").length === 1,
    "the forged webhook was refused",
  )
  check(slots.held.length + slots.waiting === 0, "all slots are free")
  if (showsDashboard) return
  console.log(dim("\nSee these jobs in the dashboard, and move through their time: npm run demo -- --ui"))
  console.log(dim("\nNext: examples/README.md, or a workflow in YAML:"))
  console.log(
    dim(
      `  npx umbra run examples/greeting/greeting.yaml --input '{"name": "Ada"}' --handlers examples/greeting/handlers.js\n`,
    ),
  )
}

/** Serves the folder until Ctrl-C, with more jobs. */
async function dashboard() {
  console.log(bold("\n5. The dashboard, with both jobs and others"))
  const main = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url))
  const handlers = fileURLToPath(new URL("handlers.js", import.meta.url))
  const serve = [main, "serve", "--data-dir", join(folder, "data"), "--port", "0", "--handlers", handlers]
  const child = spawn(process.execPath, serve, { stdio: ["ignore", "pipe", "inherit"] })
  const ended = new Promise(resolve => child.on("exit", resolve))
  // On Ctrl-C a terminal notifies both processes; this one waits for the other.
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => child.kill("SIGTERM"))
  process.once("exit", () => child.kill("SIGKILL"))
  let text = ""
  child.stdout.setEncoding("utf8").on("data", part => {
    text += part
    const [, url] = /listens on (http:\S+),/.exec(text) ?? []
    if (url === undefined) return
    text = ""
    makeJobs(url)
      .then(made => {
        for (const one of made) console.log(`   ${dim(one)}`)
        console.log(`\n   Open ${green(`${url}/`)}  Ctrl-C ends it and removes the folder.\n`)
      })
      .catch(error => {
        console.log(red(`   The jobs could not be made: ${error.message}`))
        process.exitCode = 1
        child.kill("SIGTERM")
      })
  })
  await ended
}

/** Starts a process that works on the folder, and tells what it reports. */
function start(...task) {
  const child = fork(fileURLToPath(new URL("process.js", import.meta.url)), [folder, prices.url, ...task])
  const messages = []
  const waiting = new Set()
  const ended = new Promise(resolve => child.on("exit", (code, signal) => resolve({ code, signal })))
  child.on("message", message => {
    messages.push(message)
    if (message.event) narrate(message.event)
    for (const look of waiting) look()
  })
  const until = find =>
    new Promise((resolve, reject) => {
      const look = () => {
        const found = messages.find(find)
        if (found) resolve(found.value)
        return found && waiting.delete(look)
      }
      waiting.add(look)
      look()
      ended.then(({ code }) => reject(new Error(`the process ended too early (exit code ${code})`)))
    })
  return {
    pid: child.pid,
    ended,
    kill: () => child.kill("SIGKILL"),
    said: name => until(message => message.name === name),
    saw: (type, node) => until(({ event }) => event?.type === type && event.node === node),
  }
}

function count(runs, node) {
  return runs.filter(run => run.node === node).length
}

function check(isTrue, claim) {
  console.log(`   ${isTrue ? green("✓") : red("✗")} ${claim}`)
  if (!isTrue) process.exitCode = 1
  if (!isTrue) console.log(yellow("     this should not happen: please report it"))
}
