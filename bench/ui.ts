/**
 * The dashboard in Chromium, on the embedded database in memory: from a fact to the pixel, from the address to the graph of
 * 1,000 nodes with 50,000 facts, and one step of the time slider there: decision 57. `BENCH_SCALE` scales the large job.
 */
import { chromium, type Page } from "playwright-core"
import { findChromium } from "../scripts/services/chromium.ts"
import { silentLog } from "../src/log.ts"
import { startServer } from "../src/server/server.ts"
import { openUmbra, type Umbra } from "../src/umbra.ts"

const scale = Number(process.env.BENCH_SCALE ?? 1)
const SAMPLES = 50
/** As many as are visible at once. */
const CARDS = 5
const OPENINGS = 7
const STEPS = 100
const NODES = 1000

export async function ui(): Promise<void> {
  const program = await findChromium()
  if (typeof program === "string") throw new Error(program)
  const umbra = await openUmbra("memory:", { log: silentLog })
  const server = await startServer({ umbra, host: "127.0.0.1", port: 0, version: "0", log: silentLog })
  const browser = await chromium.launch({
    executablePath: program.command,
    args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"],
  })
  try {
    const page = await browser.newPage({ viewport: { width: 1440, height: 900 }, bypassCSP: true })
    await live(page, umbra, server.url)
    const job = await largeJob(umbra)
    await open(page, `${server.url}/ui/jobs/${job}?panel=none`)
    await scrub(page)
  } finally {
    await browser.close()
    await server.close()
    await umbra.close()
  }
}

/** One node changes at a time; the page notes when the mark of its card does. */
async function live(page: Page, umbra: Umbra, url: string): Promise<void> {
  const names = Array.from({ length: CARDS }, (_, n) => `n${n}`)
  const nodes = names.map(id => ({ id, handler: "wait_for_signal", config: { signal: id } }))
  await umbra.register({ name: "live", nodes } as never)
  const times: number[] = []
  while (times.length < SAMPLES) {
    const { id } = await umbra.submit("live", {})
    await page.goto(`${url}/ui/jobs/${id}?panel=none`)
    await page.waitForSelector('.node[data-id="n0"][data-s="waiting"]')
    await page.waitForSelector('.conn[data-c="live"]')
    await page.evaluate(`
      window.changed = {}
      new MutationObserver(changes => {
        for (const { target } of changes) window.changed[target.dataset.id] ??= Date.now()
      }).observe(document.querySelector(".stage"), { attributes: true, attributeFilter: ["data-s"], subtree: true })
    `)
    for (const name of names) {
      const began = Date.now()
      await umbra.signal(id, name, null)
      await page.waitForFunction(`window.changed.${name} !== undefined`)
      times.push(((await page.evaluate(`window.changed.${name}`)) as number) - began)
    }
  }
  print("signal to pixel, live", times)
}

async function largeJob(umbra: Umbra): Promise<string> {
  const nodes = Array.from({ length: NODES }, (_, n) => ({
    id: `n${n}`,
    handler: "transform",
    ...(n % 24 === 5
      ? { for_each: "{{ input.list }}", config: { value: "{{ index }}" } }
      : { config: { value: n } }),
    dependencies: n < 40 ? [] : [`n${n - 40}`, ...(n % 40 === 0 ? [] : [`n${n - 41}`])],
  }))
  await umbra.register({ name: "large", nodes } as never)
  const list = Array.from({ length: Math.ceil(1200 * scale) }, (_, n) => n)
  const { id } = await umbra.submit("large", { list })
  await umbra.wait(id)
  return id
}

async function open(page: Page, address: string): Promise<void> {
  const times: number[] = []
  for (let n = 0; n < OPENINGS; n++) {
    await page.goto("about:blank")
    const began = performance.now()
    await page.goto(address)
    await page.waitForSelector(".canvas[data-level]:not([data-level='none'])")
    await page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    times.push(performance.now() - began)
  }
  print(`address to graph, ${NODES} nodes`, times)
}

async function scrub(page: Page): Promise<void> {
  const times = (await page.evaluate(`(async () => {
    const slider = document.querySelector(".slide")
    const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set
    const times = []
    for (let step = 1; step <= ${STEPS}; step++) {
      const began = performance.now()
      set.call(slider, String(Math.ceil((Number(slider.max) * step) / ${STEPS})))
      slider.dispatchEvent(new Event("input", { bubbles: true }))
      await new Promise(done => requestAnimationFrame(done))
      times.push(performance.now() - began)
    }
    return times
  })()`)) as number[]
  const facts = await page.evaluate("Number(document.querySelector('.slide').max)")
  print(`step of the slider, ${facts} facts`, times)
}

function print(name: string, times: number[]): void {
  const sorted = times.toSorted((a, b) => a - b)
  const at = (share: number) =>
    `${sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!.toFixed(0)} ms`
  console.log(
    `${name.padEnd(40)} p50 ${at(0.5).padStart(8)}   p95 ${at(0.95).padStart(8)}   (${times.length})`,
  )
}
