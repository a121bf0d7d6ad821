/** A real server with the built dashboard, a real Chromium, and a proxy between them that a test can cut. */

import type { AddressInfo } from "node:net"
import { connect, createServer, type Server as NetServer, type Socket } from "node:net"
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
  type Route,
} from "playwright-core"
import { expect } from "vitest"
import { defineHandler } from "../../src/worker/handler.ts"
import { waitForSignal } from "../../src/worker/waiting.ts"
import { openStage, type Stage, type StageOptions } from "../server/stage.ts"
import { chromiumPath } from "../support/services.ts"

/**
 * Chromium has a window with an address bar for every context, and renders what opens below the bar as pages of its own: more
 * work than a page of the dashboard is.
 */
const addressBar = ["WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup"]

/** A renderer that is started beside that of a page, for the next one. Each page is in a context of its own, which ends with it. */
const spareRenderer = "SpareRendererForSitePerProcess"

/** What Playwright disables. Of several lists Chromium reads the last. */
const disabledByPlaywright = [
  "AimEnabled",
  "AvoidCorsURLLoaderRestartOnRedirect",
  "AvoidUnnecessaryBeforeUnloadCheckSync",
  "DestroyProfileOnBrowserClose",
  "HttpsFirstBalancedModeAutoEnable",
  "HttpsUpgrades",
  "LensOverlay",
  "MediaRouter",
  "NetworkTimeServiceQuerying",
  "OptimizationHints",
  "PaintHolding",
  "PreconnectToSearch",
  "ThirdPartyStoragePartitioning",
]

const flags = [
  `--disable-features=${[...disabledByPlaywright, ...addressBar, spareRenderer].join(",")}`,
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--js-flags=--expose-gc",
]

let browserOfProcess: Promise<Browser> | null = null

/** One for all files that run in this process: each test has contexts of its own. Playwright ends it with the process. */
function openBrowser(): Promise<Browser> {
  browserOfProcess ??= launch()
  return browserOfProcess
}

async function launch(): Promise<Browser> {
  const browser = await chromium.launch({ executablePath: chromiumPath(), headless: true, args: flags })
  // If it crashes, the next file starts another.
  return browser.on("disconnected", () => {
    browserOfProcess = null
  })
}

let failures = new Map<string, number>()

/** Handlers that do what a config asks for. */
const handlers = [
  defineHandler({ name: "approval", run: () => waitForSignal("approved") }),
  defineHandler({
    name: "fails",
    run: (config, { jobId, nodeId }) => {
      const { times = 1_000_000, message = "it always fails" } = config as {
        times?: number
        message?: string
      }
      const key = `${jobId} ${nodeId}`
      const before = failures.get(key) ?? 0
      failures.set(key, before + 1)
      if (before < times) throw new Error(message)
      return { tries: before + 1 }
    },
  }),
  defineHandler({
    name: "pick",
    run: config => {
      const { value, bad } = config as { value: unknown; bad?: boolean }
      if (bad === true) throw new Error("this one is bad")
      return { value } as never
    },
  }),
  defineHandler({
    name: "large",
    run: config => {
      const { entries } = config as { entries: number }
      return Array.from({ length: entries }, (_, n) => ({ n, text: `entry ${n} ${"x".repeat(60)}` })) as never
    },
  }),
]

export interface UiStage extends Stage {
  readonly browser: Browser
  /** The address of the dashboard, through the proxy. */
  readonly url: string
  readonly proxy: Proxy
  /** A page of a new context. Errors of its scripts, and of the console, are collected. */
  open(path: string, options?: BrowserContextOptions): Promise<OpenPage>
  /** Stores a workflow and runs a job of it. */
  start(definition: object, input?: unknown): Promise<string>
}

export interface OpenPage {
  readonly page: Page
  readonly context: BrowserContext
  readonly problems: readonly string[]
  /** Paths of all requests so far. */
  readonly requests: readonly string[]
}

export async function openUiStage(options: StageOptions = {}): Promise<UiStage> {
  failures = new Map()
  const stage = await openStage({ ...options, umbra: { handlers, ...options.umbra } })
  const browser = await openBrowser()
  const proxy = await openProxy(Number(new URL(stage.server.url).port))
  const contexts = new Set<BrowserContext>()
  return {
    ...stage,
    browser,
    proxy,
    url: proxy.url,
    async open(path, contextOptions = {}) {
      const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...contextOptions })
      contexts.add(context)
      // As for what is polled: see vitest.config.ts.
      context.setDefaultTimeout(60_000)
      const page = await context.newPage()
      const problems: string[] = []
      const requests: string[] = []
      page.on("pageerror", error => problems.push(error.message))
      page.on("console", message => message.type() === "error" && problems.push(message.text()))
      page.on("request", request =>
        requests.push(new URL(request.url()).pathname + new URL(request.url()).search),
      )
      await page.goto(`${proxy.url}${path}`)
      return { page, context, problems, requests }
    },
    async start(definition, input = {}) {
      const { name } = definition as { name: string }
      await stage.umbra.register(definition as never)
      return (await stage.umbra.submit(name, input as never)).id
    },
    async close() {
      for (const context of contexts) await context.close()
      await proxy.close()
      await stage.close()
    },
  }
}

export interface Proxy {
  readonly url: string
  /** Ends all connections, and accepts none until `restore`. */
  cut(): void
  restore(): void
  close(): Promise<void>
}

async function openProxy(port: number): Promise<Proxy> {
  const sockets = new Set<Socket>()
  let isCut = false
  const server: NetServer = createServer(socket => {
    if (isCut) {
      socket.destroy()
      return
    }
    const onward = connect(port, "127.0.0.1")
    for (const one of [socket, onward]) {
      sockets.add(one)
      one.on("error", () => {})
      one.on("close", () => {
        sockets.delete(one)
        ;(one === socket ? onward : socket).destroy()
      })
    }
    socket.pipe(onward)
    onward.pipe(socket)
  })
  await new Promise<void>(done => server.listen(0, "127.0.0.1", done))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut() {
      isCut = true
      for (const socket of sockets) socket.destroy()
    },
    restore() {
      isCut = false
    },
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise(done => server.close(done))
    },
  }
}

/**
 * Answers requests of a page that is open already. Chromium tells the page about it on another channel than keys and clicks,
 * which can be faster (33 of 2,743 times on a busy machine): wait until a request of the page is intercepted.
 */
export async function intercept(
  page: Page,
  pattern: RegExp,
  answer: (route: Route) => Promise<unknown>,
): Promise<void> {
  await page.route(pattern, answer)
  await page.route(/\/health\?intercepted$/, route => route.fulfill({ body: "intercepted" }))
  await page.waitForFunction(
    async () => (await (await fetch("/health?intercepted")).text()) === "intercepted",
  )
}

/** Waits until a page has sent what it reads once for the number beside Now. */
export async function numberIsAsked(requests: readonly string[]): Promise<void> {
  for (const path of [/^\/failures/, /^\/waits/, /^\/(workers|health)/, /^\/executions/])
    await expect.poll(() => requests.some(one => path.test(one))).toBe(true)
}

/** By node id: the state that the graph shows. */
export function shownStates(page: Page): Promise<Record<string, string>> {
  return page.evaluate(() =>
    Object.fromEntries(
      [...document.querySelectorAll<HTMLElement>(".node")].map(card => [card.dataset.id!, card.dataset.s!]),
    ),
  )
}

/** Moves the time slider to the state after `index` facts, and waits until the page shows it. */
export async function moveTo(page: Page, index: number): Promise<void> {
  await page.evaluate(value => {
    const slider = document.querySelector<HTMLInputElement>(".slide")!
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value")!.set!.call(slider, String(value))
    slider.dispatchEvent(new Event("input", { bubbles: true }))
  }, index)
  await page.waitForFunction(
    value =>
      document.querySelector(".ctl .now")?.textContent?.includes(`event ${value.toLocaleString("en-US")} of`),
    index,
  )
}

/** A job with every kind of state: retries, a list, a condition, a failure, nodes behind it. */
export const everything = {
  name: "everything",
  nodes: [
    { id: "start", handler: "transform", config: { value: "{{ input.list }}" } },
    {
      id: "flaky",
      handler: "fails",
      retry: { max_attempts: 4, initial_seconds: 0 },
      config: { times: 2, message: "the service did not answer" },
    },
    { id: "never", handler: "transform", when: "{{ false }}", config: { value: 1 }, dependencies: ["start"] },
    {
      id: "each",
      handler: "pick",
      for_each: "{{ start }}",
      fail_fast: false,
      retry: { max_attempts: 1 },
      config: { value: "{{ item }}", bad: "{{ index == 13 }}" },
    },
    { id: "joined", handler: "transform", dependencies: ["flaky", "never"], config: { value: "joined" } },
    { id: "after", handler: "transform", dependencies: ["each", "joined"], config: { value: "after" } },
    { id: "last", handler: "transform", dependencies: ["after"], config: { value: "last" } },
  ],
}
