/** Artifacts in the panel of a job, in Chromium: shown, downloaded, and never executed. */
import { createHash } from "node:crypto"
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { deflateSync } from "node:zlib"
import type { Page } from "playwright-core"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { defineHandler } from "../../src/worker/handler.ts"
import { violations } from "./axe.ts"
import { intercept, moveTo, type OpenOptions, openUiStage, type UiStage } from "./ui-stage.ts"

let stage: UiStage
let folder: string

/** What handlers store, by name. */
const contents = new Map<string, readonly [body: Uint8Array | string, type: string]>()

const makes = defineHandler({
  name: "makes",
  async run(config, ctx) {
    const { names } = config as { names: readonly string[] }
    const made = []
    for (const name of names) {
      const [body, type] = contents.get(name) ?? [`content of ${name}`, "application/zip"]
      made.push(await ctx.artifacts.put(name, body, { type }))
    }
    return { made, pad: names.length > 3 ? "x".repeat(2000) : "" }
  },
})

const flow = (name: string, names: readonly string[], more: object = {}) => ({
  name,
  nodes: [
    { id: "before", handler: "transform", config: { value: 1 } },
    { id: "make", handler: "makes", config: { names }, dependencies: ["before"], ...more },
    { id: "after", handler: "transform", config: { value: 1 }, dependencies: ["make"] },
  ],
})

/** A PNG of one colour. */
function png(width: number, height: number): Buffer {
  const row = Buffer.alloc(1 + width * 3, 0x7f).fill(0, 0, 1)
  const table = Array.from({ length: 256 }, (_, n) => {
    let crc = n
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1
    return crc
  })
  const chunk = (type: string, data: Buffer) => {
    const body = Buffer.concat([Buffer.from(type), data])
    let crc = -1
    for (const byte of body) crc = (crc >>> 8) ^ table[(crc ^ byte) & 0xff]!
    const framed = Buffer.alloc(body.length + 8)
    framed.writeUInt32BE(data.length)
    body.copy(framed, 4)
    framed.writeUInt32BE((crc ^ -1) >>> 0, body.length + 4)
    return framed
  }
  const head = Buffer.alloc(13)
  head.writeUInt32BE(width)
  head.writeUInt32BE(height, 4)
  head.set([8, 2, 0, 0, 0], 8)
  return Buffer.concat([
    Buffer.from("\x89PNG\r\n\x1a\n", "latin1"),
    ...[chunk("IHDR", head), chunk("IDAT", deflateSync(Buffer.concat(Array(height).fill(row))))],
    chunk("IEND", Buffer.alloc(0)),
  ])
}

/** A second of silence. */
function wav(): Buffer {
  const samples = 8000
  const head = Buffer.alloc(44)
  head.write("RIFF")
  head.writeUInt32LE(36 + samples, 4)
  head.write("WAVEfmt ", 8)
  head.writeUInt32LE(16, 16)
  head.writeUInt16LE(1, 20)
  head.writeUInt16LE(1, 22)
  head.writeUInt32LE(8000, 24)
  head.writeUInt32LE(8000, 28)
  head.writeUInt16LE(1, 32)
  head.writeUInt16LE(8, 34)
  head.write("data", 36)
  head.writeUInt32LE(samples, 40)
  return Buffer.concat([head, Buffer.alloc(samples, 0x80)])
}

/** Chromium records what a canvas shows. */
async function webm(page: Page): Promise<Buffer> {
  const text = await page.evaluate(async () => {
    const canvas = document.createElement("canvas")
    canvas.width = 64
    canvas.height = 48
    const context = canvas.getContext("2d")!
    const recorder = new MediaRecorder(canvas.captureStream(30), { mimeType: "video/webm;codecs=vp8" })
    const parts: Blob[] = []
    recorder.ondataavailable = ({ data }) => parts.push(data)
    recorder.start(50)
    let frame = 0
    const timer = setInterval(() => {
      context.fillStyle = frame++ % 2 === 0 ? "red" : "blue"
      context.fillRect(0, 0, 64, 48)
    }, 20)
    while (parts.reduce((sum, { size }) => sum + size, 0) < 1000)
      await new Promise(done => setTimeout(done, 50))
    clearInterval(timer)
    await new Promise(done => {
      recorder.onstop = done
      recorder.stop()
    })
    const bytes = new Uint8Array(await new Blob(parts).arrayBuffer())
    return btoa(Array.from(bytes, byte => String.fromCharCode(byte)).join(""))
  })
  return Buffer.from(text, "base64")
}

const hostile = `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="40" height="30"
  onload="fetch('/hit-onload');window.hit=1"><script>fetch('/hit-script');window.top.hit=1</script>
  <image href="/hit-image" width="9" height="9"/><foreignObject width="40" height="30">
  <body xmlns="http://www.w3.org/1999/xhtml"><img src="/hit-foreign" onerror="window.hit=1"/><iframe src="/hit-frame"/></body>
  </foreignObject><rect width="40" height="30" fill="green"/></svg>`
const html = "<!doctype html><script>fetch('/hit-html');window.hit=1</script><img src=/hit-html-image>"

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "umbra-ui-artifacts-"))
  contents.set("photo.png", [png(64, 48), "image/png"])
  contents.set("tone.wav", [wav(), "audio/wav"])
  contents.set("evil.svg", [hostile, "image/svg+xml"])
  contents.set("page.html", [html, "text/html"])
  contents.set("page.png", [`${html} `, "image/png"])
  contents.set("script.js", ["window.hit = 1", "text/javascript"])
  stage = await openUiStage({ umbra: { handlers: [makes], artifacts: { location: folder } } })
})
afterAll(async () => {
  await stage?.close()
  await rm(folder, { recursive: true, force: true })
})

const open = async (path: string | null, options: OpenOptions = {}) => {
  const opened = await stage.open(path, options)
  onTestFinished(opened.close)
  return opened
}

const ran = async (definition: object, input: unknown = {}) => {
  const job = await stage.start(definition, input)
  await stage.umbra.wait(job)
  return job
}

const rows = (page: Page) =>
  page
    .locator(".art .ac")
    .evaluateAll(found =>
      found.map(row => [...row.querySelectorAll("b, .dim")].map(each => each.textContent)),
    )
/** The large image, video or player has this state. */
const shows = (page: Page, state: string, element = "") =>
  page.waitForSelector(`.drawer ${element}.amed[data-state="${state}"]`)
const hashOf = (body: Uint8Array | string) => `sha256:${createHash("sha256").update(body).digest("hex")}`

describe("the artifacts of a node", () => {
  it("are listed with name, type and size; images, video and audio are shown; all are downloaded as files", async () => {
    const { page: recorder } = await open("/docs")
    const video = await webm(recorder)
    contents.set("film.webm", [video, "video/webm"])
    const job = await ran(flow("media", ["photo.png", "film.webm", "tone.wav", "data.zip"]))
    const { page, problems, requests } = await open(`/ui/jobs/${job}?node=make&tab=Artifacts`)
    await shows(page, "loaded", "img")
    const photo = contents.get("photo.png")![0]
    expect(await rows(page)).toEqual([
      ["photo.png", `image/png · ${photo.length} B`],
      ["film.webm", expect.stringMatching(/^video\/webm · [\d.]+ K?B$/)],
      ["tone.wav", "audio/wav · 8.0 KB"],
      ["data.zip", "application/zip · 19 B"],
    ])
    expect(await page.textContent("#tab-Artifacts .n")).toBe("4")
    const size = await page
      .locator("img.amed")
      .evaluate((img: HTMLImageElement) => [img.naturalWidth, img.naturalHeight])
    expect(size).toEqual([64, 48])
    await page.click('.art button:has-text("film.webm")')
    await shows(page, "loaded", "video")
    expect(await page.locator("video.amed").evaluate((video: HTMLVideoElement) => video.videoWidth)).toBe(64)
    await page.click('.art button:has-text("tone.wav")')
    await shows(page, "loaded", "audio")
    expect(
      await page.locator("audio.amed").evaluate((audio: HTMLAudioElement) => audio.duration),
    ).toBeCloseTo(1)
    await page.waitForURL(/artifact=sha256/)
    // Content of other types is only downloaded.
    expect(await page.locator('.art button:has-text("data.zip")').count()).toBe(0)
    expect(requests.some(path => path.includes(hashOf("content of data.zip")))).toBe(false)
    for (const name of ["data.zip", "film.webm"]) {
      const [download] = await Promise.all([
        page.waitForEvent("download"),
        page.click(`.art:has-text("${name}") >> text=Download`),
      ])
      expect(download.suggestedFilename()).toBe(name)
      const expected = contents.get(name)?.[0] ?? `content of ${name}`
      expect(hashOf(await readFile(await download.path()))).toBe(hashOf(expected))
    }
    await page.waitForURL(/ui\/jobs/)
    expect(problems).toEqual([])
  })

  it("S9 nothing that a handler stored is executed, in the page, in its own tab or as part of another page", async () => {
    const names = ["evil.svg", "page.png", "page.html", "script.js"]
    const job = await ran(flow("hostile", names))
    const { page, problems, requests, context } = await open(`/ui/jobs/${job}?node=make&tab=Artifacts`)
    // An SVG is drawn as a picture: no script of it runs, and it loads nothing.
    await shows(page, "loaded", "img")
    expect(await page.locator("img.amed").evaluate((img: HTMLImageElement) => img.naturalWidth)).toBe(40)
    await page.click('.art button:has-text("page.png")')
    await page.waitForSelector('.drawer [data-state="unknown"]')
    expect(
      await page.locator('.art button:has-text("page.html"), .art button:has-text("script.js")').count(),
    ).toBe(0)
    // The address of the content, opened by itself: a file to download, never a page.
    for (const name of names) {
      const address = await page
        .locator(`.art:has-text("${name}") a`)
        .evaluate((link: HTMLAnchorElement) => link.href)
      const tab = await context.newPage()
      const downloaded = tab.waitForEvent("download")
      await tab.goto(address).catch(() => null)
      expect((await downloaded).suggestedFilename()).toBe(name)
      expect(tab.url()).toBe("about:blank")
      // As a script, a frame, a style sheet or an object of the dashboard's own origin.
      const loaded = await page.evaluate(
        async href =>
          Promise.all(
            (["script", "iframe", "object", "embed", "link"] as const).map(
              kind =>
                new Promise(done => {
                  const element = document.createElement(kind) as HTMLScriptElement &
                    HTMLObjectElement &
                    HTMLLinkElement
                  if (kind === "object") element.data = href
                  else if (kind === "link") Object.assign(element, { rel: "stylesheet", href })
                  else element.src = href
                  element.onerror = () => done(`${kind} refused`)
                  element.onload = () => done(`${kind} loaded`)
                  // Refused frames and objects may report nothing; scripts and style sheets always do, some time.
                  if (kind !== "script" && kind !== "link") setTimeout(() => done(`${kind} silent`), 500)
                  document.body.append(element)
                }),
            ),
          ),
        address,
      )
      expect(loaded.filter(text => /script|link/.test(String(text)))).toEqual([
        "script refused",
        "link refused",
      ])
    }
    const answer = await fetch(`${stage.url}/artifacts/${hashOf(contents.get("script.js")![0])}`, {
      headers: { "sec-fetch-dest": "script", "sec-fetch-site": "same-origin" },
    })
    expect([answer.status, (await answer.json()).code]).toEqual([403, "E631"])
    for (const frame of page.frames())
      expect(await frame.evaluate(() => (window as { hit?: number }).hit)).toBeUndefined()
    expect(requests.filter(path => path.includes("hit"))).toEqual([])
    // Only what was tried on purpose was refused.
    expect(problems.filter(text => !/Content Security Policy|403|Refused|violates/.test(text))).toEqual([])
  })

  it("are those that exist at the moment of the slider", async () => {
    const job = await ran(flow("moments", ["photo.png"]))
    const { page } = await open(`/ui/jobs/${job}?node=make&tab=Artifacts`)
    await shows(page, "loaded", "img")
    const { body } = await stage.ask(`/jobs/${job}/facts?limit=100`)
    for (const panel of ["node", "job"]) {
      if (panel === "job") await page.goto(`${stage.url}/ui/jobs/${job}?panel=job&tab=Artifacts`)
      await page.waitForSelector(".art")
      for (const { index, type, node } of body.facts) {
        await moveTo(page, index)
        const made = body.facts.find(
          (fact: { type: string; node?: number }) => fact.type === "node_completed" && fact.node === 1,
        )
        await page.waitForSelector(index < made.index ? '.drawer [data-state="empty"]' : ".art")
        expect(await page.locator(".art").count(), `${panel} ${index} ${type} ${node}`).toBe(
          index < made.index ? 0 : 1,
        )
      }
      await page.keyboard.press("l")
      await page.waitForSelector(".art")
    }
  })

  it("of a list are those of its items, and of one that is chosen", async () => {
    const list = { for_each: "{{ input.names }}", config: { names: ["{{ item }}"] } }
    const names = Array.from({ length: 300 }, (_, n) => `part ${n}`)
    const job = await ran(flow("items", [], list), { names })
    const { page } = await open(`/ui/jobs/${job}?node=make&tab=Artifacts`)
    await page.waitForSelector(".art")
    expect(await page.textContent("#tab-Artifacts .n")).toBe("300")
    // Only the visible ones are in the page.
    expect(await page.locator(".art").count()).toBeLessThan(60)
    await page.locator(".arts").evaluate(element => element.scrollTo(0, element.scrollHeight))
    await page.waitForSelector('.art:has-text("part 299") >> text=item 299')
    await page.goto(`${stage.url}/ui/jobs/${job}?node=make&tab=Artifacts&item=7`)
    await page.waitForSelector('.art:has-text("part 7")')
    expect(await page.locator(".art").count()).toBe(1)
  })

  it("are known of large outputs too; where there are very many, the job has all of them", async () => {
    const names = Array.from({ length: 120 }, (_, n) => `many ${n}`)
    const job = await ran(flow("many", names))
    const { page } = await open(`/ui/jobs/${job}?node=make&tab=Artifacts`)
    await page.waitForSelector(".art")
    expect(await page.textContent("#tab-Artifacts .n")).toBe("100")
    await page.waitForSelector("text=only the first are listed here")
    await page.goto(`${stage.url}/ui/jobs/${job}?panel=job&tab=Artifacts`)
    await page.waitForSelector(".art")
    expect(
      await page.locator(".arts > div").evaluate(element => element.getBoundingClientRect().height),
    ).toBe(120 * 44)
  })

  it("have different screens for loading, failed, removed and none", async () => {
    contents.set("gone.png", [png(8, 8), "image/png"])
    const job = await ran(flow("states", ["photo.png", "gone.png"]))
    const { page } = await open(`/ui/jobs/${job}?node=make`)
    await page.waitForSelector(".node")
    let answer: () => void = () => {}
    await intercept(page, /\/artifacts\?limit/, async route => {
      await new Promise<void>(resolve => {
        answer = resolve
      })
      return route.fulfill({ status: 503, body: "" })
    })
    await page.click("#tab-Artifacts")
    await page.waitForSelector('.drawer [data-state="loading"]')
    expect(await page.locator(".art").count()).toBe(0)
    // Requests that failed for a moment are repeated by themselves.
    await expect
      .poll(
        async () => {
          answer()
          return page.locator('.drawer [data-state="failed"]').count()
        },
        { timeout: 30_000 },
      )
      .toBe(1)
    await page.unroute(/\/artifacts\?limit/)
    answer()
    // Content that cannot be read now.
    await page.route(/\/artifacts\/sha256/, route => route.fulfill({ status: 503, body: "" }))
    await page.click('.drawer [data-state="failed"] >> text=Try now')
    await page.waitForSelector('.drawer [data-state="failed"]:has-text("photo.png")')
    await page.unroute(/\/artifacts\/sha256/)
    await page.click('.drawer [data-state="failed"] >> text=Try now')
    await shows(page, "loaded", "img")
    // Removed while the page is open, and before.
    await stage.umbra.artifacts.remove(hashOf(contents.get("gone.png")![0]), { force: true })
    await page.click('.art button:has-text("gone.png")')
    await page.waitForSelector('.drawer [data-state="removed"]')
    await page.reload()
    await page.waitForSelector('.art:has-text("gone.png") >> text=Removed')
    expect(await page.locator('.art:has-text("gone.png") >> text=Download').count()).toBe(0)
    await page.click('.art button:has-text("gone.png")')
    await page.waitForSelector('.drawer [data-state="removed"]:has-text("was removed at")')
    const none = await ran({ name: "none", nodes: [{ id: "a", handler: "transform", config: { value: 1 } }] })
    await page.goto(`${stage.url}/ui/jobs/${none}?panel=job&tab=Artifacts`)
    await page.waitForSelector('.drawer [data-state="empty"]')
    await page.goto(`${stage.url}/ui/jobs/${none}?node=a`)
    await page.waitForSelector("#tab-Output")
    expect(await page.locator("#tab-Artifacts").count()).toBe(0)
  })

  it("in a replay file have names and sizes, and no content", async () => {
    contents.set("private.txt", ["the content is not in the file", "text/plain"])
    const job = await ran(flow("report", ["photo.png", "private.txt", "c", "d"]))
    for (const payloads of ["preview", "full", "none"]) {
      const { body } = await stage.ask(`/jobs/${job}/report?payloads=${payloads}`)
      expect(body).not.toContain("the content is not in the file")
      const file = join(folder, "report.html")
      await writeFile(file, body)
      const context = await stage.browser.newContext({ offline: true })
      onTestFinished(() => context.close())
      const page = await context.newPage()
      const asked: string[] = []
      page.on("request", request => asked.push(request.url()))
      await page.goto(`${pathToFileURL(file)}#?node=make&tab=Artifacts`)
      if (payloads === "none") {
        await page.waitForSelector("#tab-Output")
        expect(await page.locator("#tab-Artifacts").count()).toBe(0)
        expect(body).not.toContain("private.txt")
        continue
      }
      await page.waitForSelector(".art")
      expect((await rows(page)).map(([name]) => name)).toEqual(["photo.png", "private.txt", "c", "d"])
      expect((await rows(page))[1]).toEqual(["private.txt", "text/plain · 30 B"])
      expect(await page.locator(".drawer img, .drawer a, .art button").count()).toBe(0)
      expect(asked).toEqual([pathToFileURL(file).href])
    }
  })

  it("have no violation of axe in the light and the dark theme, nor at 390 px", async () => {
    const job = await ran(flow("axe", ["photo.png", "evil.svg", "data.zip"]))
    const { page } = await open(null)
    for (const width of [1440, 390]) {
      await page.setViewportSize({ width, height: 844 })
      await page.goto(`${stage.url}/ui/jobs/${job}?node=make&tab=Artifacts`)
      await shows(page, "loaded", "img")
      expect(await violations(page), `${width} px`).toEqual([])
      expect(
        await page.evaluate(
          () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
        ),
      ).toBe(0)
      const shots = process.env.UMBRA_TEST_SHOTS
      if (shots !== undefined) await page.screenshot({ path: join(shots, `artifacts-${width}.png`) })
    }
  })
})

describe("with sessions", () => {
  it("a person sees the artifacts of their owner; an operator those of the selected owner", async () => {
    const closed = await openUiStage({
      withTokens: true,
      umbra: { handlers: [makes], artifacts: { location: folder } },
    })
    onTestFinished(() => closed.close())
    const token = await closed.token("shop", "read", "submit", "manage")
    const workflow = flow("mine", ["photo.png", "film.webm", "evil.svg"])
    await closed.ask("/workflows", { method: "POST", body: workflow, token })
    const { body: job } = await closed.ask("/jobs?wait=60", {
      method: "POST",
      body: { workflow: "mine" },
      token,
    })
    const signIn = async (text: string) => {
      const opened = await closed.open(`/ui/jobs/${job.job_id}?node=make&tab=Artifacts`)
      onTestFinished(opened.close)
      await opened.page.fill('input[name="token"]', text)
      await opened.page.click("text=Sign in")
      return opened
    }
    const { page, problems } = await signIn(token)
    await page.waitForSelector('.drawer img.amed[data-state="loaded"]')
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.click('.art:has-text("photo.png") >> text=Download'),
    ])
    expect(hashOf(await readFile(await download.path()))).toBe(hashOf(contents.get("photo.png")![0]))
    // The first answer, without a session, is 401.
    expect(problems.filter(text => !text.includes("401"))).toEqual([])
    // A link of another site, or without the browser's word for it, gets nothing.
    const address = `${closed.url}/artifacts/${hashOf(contents.get("photo.png")![0])}`
    const cookie = (await page.context().cookies()).map(({ name, value }) => `${name}=${value}`).join("; ")
    expect((await fetch(address, { headers: { cookie } })).status).toBe(403)
    expect((await fetch(address, { headers: { cookie, "sec-fetch-site": "cross-site" } })).status).toBe(403)
    expect((await fetch(address, { headers: { cookie, "sec-fetch-site": "same-origin" } })).status).toBe(200)
    // An operator: images are read by a script, which names the owner.
    const operator = await signIn(await closed.token("local", "admin"))
    await operator.page.evaluate(() => sessionStorage.setItem("umbra.owner", "shop"))
    await operator.page.reload()
    await operator.page.waitForSelector('.drawer img.amed[data-state="loaded"][src^="blob:"]')
    const [file] = await Promise.all([
      operator.page.waitForEvent("download"),
      operator.page.click('.art:has-text("photo.png") >> text=Download'),
    ])
    expect(hashOf(await readFile(await file.path()))).toBe(hashOf(contents.get("photo.png")![0]))
    // An SVG would be a document of the dashboard's own origin there.
    await operator.page.click('.art button:has-text("evil.svg")')
    await operator.page.waitForSelector("text=It is not shown here")
  })
})
