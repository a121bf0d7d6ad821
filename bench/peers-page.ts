/** Writes what a run measured into the page, its plots and README.md, between the marks `peers:begin` and `peers:end`. */
import { readFile, writeFile } from "node:fs/promises"
import { plot } from "./peers-plot.ts"
import {
  acceptedOf,
  type Figure,
  figureOf,
  format,
  isBetter,
  type PeerRun,
  type PeerWorkload,
  type Run,
  workloadsOf,
} from "./peers-run.ts"

const root = new URL("../", import.meta.url)
const PAGE = "docs/concepts/compared.md"
const RATES = "docs/concepts/compared-rates.svg"
const TIMES = "docs/concepts/compared-times.svg"
const README = "README.md"
const BEGIN = "<!-- peers:begin: written by `npm run bench -- peers --write` -->"
const END = "<!-- peers:end -->"

export async function writePages(run: Run): Promise<void> {
  await writeFile(new URL(RATES, root), plot(run, ofUnit(run, "steps/s")))
  await writeFile(new URL(TIMES, root), plot(run, ofUnit(run, "ms")))
  await replaceMarked(PAGE, pageText(run))
  await replaceMarked(README, readmeText(run))
  console.log(`  written: ${[PAGE, RATES, TIMES, README].join(", ")}`)
}

const ofUnit = (run: Run, unit: PeerWorkload["unit"]) =>
  workloadsOf(run).filter(workload => workload.unit === unit)

async function replaceMarked(path: string, text: string): Promise<void> {
  const page = await readFile(new URL(path, root), "utf8")
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)]
  if (begin < 0 || end < begin) throw new Error(`${path} has no marks for the table`)
  const whole = `${page.slice(0, begin)}${BEGIN}\n\n${wrapped(text.trim())}\n\n${page.slice(end)}`
  await writeFile(new URL(path, root), whole)
}

/** Lines of at most 120 characters, except in tables. */
function wrapped(text: string): string {
  return text
    .split("\n")
    .map(line => {
      const indent = line.startsWith("- ") ? "  " : ""
      return line.startsWith("|") ? line : line.replaceAll(/(?=.{121})(.{1,118}) /g, `$1\n${indent}`)
    })
    .join("\n")
}

function pageText(run: Run): string {
  return [
    conditions(run),
    table(run, workloadsOf(run), cellOf),
    `Each cell: the median of ${run.repetitions} repetitions, below it the least and the most; bold: the best of the column. Rates are steps per second, so a chain of 10 counts ten times; of the bulk also the jobs per second that the store accepted.`,
    "![Rates](compared-rates.svg)",
    "![Times](compared-times.svg)",
    "## Where another engine is faster",
    fasterElsewhere(run),
    "## What failed",
    failures(run),
    "## Versions and configuration",
    configurations(run),
  ].join("\n\n")
}

function readmeText(run: Run): string {
  const chosen = workloadsOf(run).filter(({ name }) =>
    ["single", "bulk", "chain-alone", "chain", "fan"].includes(name),
  )
  const { cores } = run.machine
  const short = (peer: PeerRun, workload: PeerWorkload) => medianOf(run, peer, workload)
  return [
    table(run, chosen, short),
    `Steps per second, or milliseconds where it says so; ${run.startedAt.slice(0, 10)}, ${cores} cores, everything on one machine${isLoaded(run) ? " **that was not idle before the run**" : ""}${run.quick ? ", a short run" : ""}. [How it was measured](docs/concepts/compared.md), all workloads, versions, and what others do better.`,
  ].join("\n\n")
}

const isLoaded = ({ load, machine }: Run): boolean => load.atStart > machine.cores / 4

function conditions(run: Run): string {
  const { machine, load, startedAt, endedAt } = run
  const [from, to] = [startedAt, endedAt].map(time => time.slice(11, 16))
  const other = isLoaded(run)
    ? " **The machine was not idle before the run:** compare figures of this run with each other only."
    : ""
  const size = run.quick
    ? ` **A short run** (\`--quick\`): ${run.seconds} s per repetition, ${run.jobs.toLocaleString("en")} jobs in the bulk, and the last workload with ${run.width.toLocaleString("en")} nodes.`
    : ` ${run.seconds} s per repetition after a warm-up; ${run.jobs.toLocaleString("en")} jobs in the bulk.`
  return `Measured on ${startedAt.slice(0, 10)} from ${from} to ${to} UTC: ${machine.cores} cores (${machine.processor}), ${machine.memoryGb} GB of memory, Node.js ${machine.node}, PostgreSQL ${machine.postgres} with its defaults (a one-row commit took ${machine.commitMs.toFixed(2)} ms), Redis ${machine.redis}. Load average ${load.atStart.toFixed(1)} before the run, ${load.atEnd.toFixed(1)} after it.${size}${other}`
}

type Cell = (peer: PeerRun, workload: PeerWorkload, run: Run) => string

function table(run: Run, workloads: readonly PeerWorkload[], cell: Cell): string {
  const heads = workloads.map(({ short, unit }) => (unit === "ms" ? `${short}, ms` : short))
  const row = (cells: readonly string[]) => `| ${cells.join(" | ")} |`
  return [
    row(["engine", ...heads]),
    row(["---", ...heads.map(() => "---:")]),
    ...run.peers.map(peer => row([nameOf(peer), ...workloads.map(workload => cell(peer, workload, run))])),
  ].join("\n")
}

/** With the version of its first package: `BullMQ 6.7, fsync always`. */
function nameOf({ title, versions }: PeerRun): string {
  const [version] = Object.values(versions)
  if (version === undefined) return title
  return title.replace(/^[^ ,]+/, name => `${name} ${version.split(".").slice(0, 2).join(".")}`)
}

function cellOf(peer: PeerRun, workload: PeerWorkload, run: Run): string {
  const figure = figureOf(peer, workload)
  if (figure === null) return "–"
  const accepted = workload.inFlight === null ? acceptedOf(peer) : null
  return [
    medianOf(run, peer, workload),
    `${format(workload, figure.least)} to ${format(workload, figure.most)}`,
    ...(accepted === null ? [] : [`accepted ${format(workload, accepted.median)}`]),
  ].join("<br>")
}

function medianOf(run: Run, peer: PeerRun, workload: PeerWorkload): string {
  const figure = figureOf(peer, workload)
  if (figure === null) return "–"
  const text = format(workload, figure.median)
  return best(run, workload)?.peer === peer ? `**${text}**` : text
}

interface Best {
  readonly peer: PeerRun
  readonly figure: Figure
}

function best(run: Run, workload: PeerWorkload, peers = run.peers): Best | null {
  let found: Best | null = null
  for (const peer of peers) {
    const figure = figureOf(peer, workload)
    if (figure === null) continue
    if (found === null || isBetter(workload, figure.median, found.figure.median)) found = { peer, figure }
  }
  return found
}

/** Compared with Umbra on PostgreSQL: the store that most of the others use. */
function fasterElsewhere(run: Run): string {
  const ours = run.peers.find(({ name }) => name === "umbra")
  const others = run.peers.filter(({ name }) => !name.startsWith("umbra"))
  if (ours === undefined) return "Umbra was not measured in this run."
  const lines = workloadsOf(run).flatMap(workload => {
    const own = figureOf(ours, workload)
    return others.flatMap(peer => {
      const figure = figureOf(peer, workload)
      if (own === null || figure === null || !isBetter(workload, figure.median, own.median)) return []
      const unit = workload.unit
      return `- ${workload.title}: **${peer.title}**, ${format(workload, figure.median)} ${unit}, where Umbra on PostgreSQL has ${format(workload, own.median)}.`
    })
  })
  const accepting = others.flatMap(peer => {
    const [figure, own] = [acceptedOf(peer), acceptedOf(ours)]
    if (figure === null || own === null || figure.median <= own.median) return []
    const text = (value: number) => Math.round(value).toLocaleString("en")
    return `- accepting a bulk: **${peer.title}**, ${text(figure.median)} jobs/s, where Umbra on PostgreSQL has ${text(own.median)}.`
  })
  const all = [...lines, ...accepting]
  return all.length > 0 ? all.join("\n") : "In none of these workloads in this run."
}

function failures(run: Run): string {
  const lines = run.peers.flatMap(peer => {
    const failed = workloadsOf(run).filter(({ name }) => peer.outcomes[name]?.error)
    const reasons = new Set(failed.map(({ name }) => peer.outcomes[name]!.error))
    return [...reasons].map(reason => {
      const titles = failed
        .filter(({ name }) => peer.outcomes[name]!.error === reason)
        .map(({ title }) => title)
      const what = titles.length === workloadsOf(run).length ? "all workloads" : titles.join("; ")
      const measured = failed.some(({ name }) => peer.outcomes[name]!.repetitions.length > 0)
      return `- **${peer.title}**, ${what}: ${reason}${measured ? "; its figure is of fewer repetitions" : ""}.`
    })
  })
  return lines.length > 0 ? lines.join("\n") : "Every engine of the table ran every workload."
}

const configurations = (run: Run): string =>
  run.peers
    .filter(({ versions }) => Object.keys(versions).length > 0)
    .map(({ title, versions, configuration }) => {
      const packages = Object.entries(versions).map(
        ([name, version]) => `${name.startsWith(".") ? "umbra" : name} ${version}`,
      )
      return `- **${title}**: ${packages.join(", ")}; ${configuration}.`
    })
    .join("\n")
