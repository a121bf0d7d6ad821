/** Workflows: list, versions and their differences, aliases and their traffic, the launch form, the editor. */
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { moveAlias } from "../../src/jobs/aliases.ts"
import { type OpenOptions, openUiStage, type UiStage } from "./ui-stage.ts"
import { film, hostile, rolled } from "./workflow-samples.ts"

let stage: UiStage
beforeAll(async () => {
  stage = await openUiStage()
  await stage.umbra.register(film("one") as never)
  await stage.umbra.register(
    film("two", [
      { id: "music", handler: "transform", dependencies: ["script"], config: { value: hostile } },
    ]) as never,
  )
  await stage.umbra.register(rolled(false) as never)
  await stage.umbra.register(rolled(true) as never)
})
afterAll(() => stage?.close())

const open = async (path: string | null, options: OpenOptions = {}) => {
  const opened = await stage.open(path, options)
  onTestFinished(opened.close)
  return opened
}

const path = "/ui/workflows/film"

const point = (alias: string, weights: Record<string, number>) =>
  moveAlias(stage.umbra.registry, {
    ...{ owner: "local", name: "rolled", alias, by: "test" },
    targets: Object.entries(weights).map(([version, weight]) => ({ version: Number(version), weight })),
  })

describe("the list and the versions", () => {
  it("leads from the list to the changes of a version by keys, as text and in the graph", async () => {
    const { page, problems } = await open("/ui/workflows")
    await page.waitForSelector(".wl")
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await page.waitForURL(/\/ui\/workflows\/film$/)
    await page.click('[aria-label="Versions"] >> text=Changes')
    await page.waitForSelector(".dl.added")
    const lines = (kind: string) => page.locator(`.dl.${kind}`).allTextContents()
    expect((await lines("removed")).map(text => text.replace(/^[\d\s−]+/, ""))).toEqual(["value: one"])
    expect((await lines("added")).some(text => text.includes("value: two"))).toBe(true)
    expect((await lines("added")).some(text => text.includes("id: music"))).toBe(true)
    const diff = (await stage.ask("/workflows/film/diff?from=1&to=2")).body as {
      nodes_added: string[]
      nodes_changed: { id: string }[]
    }
    await page.click('fieldset.seg >> text="Graph"')
    await page.waitForSelector('.node[data-mark="added"]')
    const marked = (mark: string) =>
      page
        .locator(`.node[data-mark="${mark}"]`)
        .evaluateAll(nodes => nodes.map(node => (node as HTMLElement).dataset.id))
    expect(await marked("added")).toEqual(diff.nodes_added)
    expect(await marked("changed")).toEqual(diff.nodes_changed.map(({ id }) => id))
    await page.reload()
    await page.waitForSelector('.node[data-mark="added"]')
    await page.click('[aria-label="Swap the versions"]')
    await page.waitForSelector('.node[data-mark="removed"][data-id="music"]')
    expect(problems).toEqual([])
  })

  it("has percentiles of times and usage of its nodes, and a mean where there are none", async () => {
    const { page } = await open(null)
    const times = { p50: 1000, p90: 2000, p95: 3000, p99: 4000 }
    const used = { total: 9e6, mean: 1500.5, p50: 1210, p90: 5120.5, p95: 6000, p99: 7777 }
    const none = { total: 40, mean: 10, p50: null, p90: null, p95: null, p99: null }
    const node = (id: string, tokens: object | null) => ({
      ...{ node: id, count: 1, failed: 0, failure_rate: 0, attempts: 1, losses: 0, errors: [] },
      ...{ duration_ms: times, queued_ms: times, usage: tokens && { tokens }, cancelled: 0 },
    })
    await page.route(/\/workflows\/film\/stats/, route => {
      const nodes = [node("script", used), node("scenes", none), node("cut", null)]
      const { node: _, ...jobs } = node("", used)
      const range = { from: "2026-11-16T13:00:00.000Z", to: "2026-11-17T14:00:00.000Z" }
      return route.fulfill({ json: { workflow: "film", ...range, jobs, nodes, critical_path: [] } })
    })
    await page.goto(`${stage.url}${path}`)
    await page.waitForSelector(".ntbl tbody tr")
    const texts = await page.locator(".ntbl td:nth-child(8)").allTextContents()
    expect(texts).toEqual(["1,210 – 5,121p99 7,777", "mean 10", ""])
    expect(await page.textContent('[aria-label="Statistics of nodes"] [role="status"]')).toContain(
      "tokens 1,210 – 5,121 per job",
    )
  })

  it("shows the edges of removed nodes on both sides, but no circle", async () => {
    const node = (id: string, ...dependencies: string[]) => ({
      ...{ id, handler: "transform", dependencies, config: { value: 1 } },
    })
    for (const nodes of [
      [node("a"), node("b", "a"), node("c", "b")],
      [node("a"), node("c", "a")],
      [node("c"), node("a", "c")],
    ])
      await stage.umbra.register({ name: "edges", nodes } as never)
    const { page } = await open("/ui/workflows/edges?view=changes&as=graph&from=1&to=2")
    const focused = () => page.evaluate(() => (document.activeElement as HTMLElement).dataset.id)
    const walk = async (id: string, ...keys: string[]) => {
      await page.click(`.node[data-id="${id}"]`)
      const passed: (string | undefined)[] = []
      for (const key of keys) {
        await page.keyboard.press(key)
        passed.push(await focused())
      }
      return passed
    }
    await page.waitForSelector('.node[data-mark="removed"][data-id="b"]')
    // Arrows follow edges.
    expect(await walk("b", "ArrowRight", "ArrowLeft")).toEqual(["c", expect.stringMatching(/a|b/)])
    expect(await walk("b", "ArrowLeft")).toEqual(["a"])
    await page.goto(`${stage.url}/ui/workflows/edges?view=changes&as=graph&from=1&to=3`)
    await page.waitForSelector('.node[data-mark="removed"][data-id="b"]')
    expect(await walk("b", "ArrowLeft", "ArrowLeft")).toEqual(["a", "c"])
  })

  it("shows the graph of a version, and a node's definition", async () => {
    const { page } = await open(`${path}?view=graph&version=1`)
    await page.waitForSelector('.node[data-id="cut"]')
    expect(await page.locator(".node").count()).toBe(3)
    await page.click('.node[data-id="scenes"]')
    await page.waitForSelector('[aria-label="Node scenes"] >> text={{ script }}')
    await page.selectOption(".vsel select", "2")
    await page.waitForSelector('.node[data-id="music"]')
    expect(await page.evaluate(() => "hacked" in window)).toBe(false)
  })
})

describe("an alias", () => {
  it("is moved by its sliders from 10 % to 50 % and to 0 %, and real traffic follows", async () => {
    await point("stable", { 1: 1 })
    const { page, problems } = await open("/ui/workflows/rolled")
    const panel = page.locator('[data-alias="stable"]')
    await panel.waitFor()
    await panel.locator("select").selectOption("2")
    const slider = panel.locator('input[aria-label="Share of v2"]')
    const weights = async () =>
      ((await stage.ask("/workflows/rolled")).body as { aliases: { weights: Record<string, number> }[] })
        .aliases[0]!.weights
    const shown = () =>
      panel
        .locator("[data-since]")
        .evaluateAll(cells => cells.map(cell => Number((cell as HTMLElement).dataset.since)))
    /** Moves the slider by keys and sends jobs: what they were, which the page shows. */
    const roll = async (keys: readonly string[], text: string, most: number) => {
      await slider.focus()
      for (const key of keys) await page.keyboard.press(key)
      await panel.locator(`button.primary >> text=Move stable to ${text}`).click()
      await panel.locator("button.primary").waitFor({ state: "detached" })
      const jobs = await Promise.all(
        Array.from({ length: most }, () => stage.umbra.submit("rolled@stable", {})),
      )
      const ran = await Promise.all(jobs.map(({ id }) => stage.umbra.wait(id)))
      const counts = [1, 2].map(version => ran.filter(job => job.workflow_version === version).length)
      // Of many jobs within one moment the server reads 100, and the page shows `100+`.
      const some = expect.toSatisfy((number: number) => number >= 100)
      await expect.poll(shown).toEqual(counts.map(number => (number > 100 ? some : number)))
      return counts as [number, number]
    }
    const right = (times: number) => Array.from({ length: times }, () => "ArrowRight")

    // By chance the bounds fail once in 10^12 times.
    const tenth = await roll(right(10), "v1 90 %, v2 10 %", 300)
    expect(await weights()).toEqual({ 1: 90, 2: 10 })
    expect(tenth[1]).toBeGreaterThan(0)
    expect(tenth[1]).toBeLessThan(100)
    const half = await roll(right(40), "v1 50 %, v2 50 %", 100)
    expect(half[1]).toBeGreaterThan(14)
    expect(half[1]).toBeLessThan(86)
    // Every job of version 2 fails.
    await panel.locator('[data-version="2"] .rate >> text=100 %').waitFor()
    expect(await roll(["Home"], "v1 alone", 30)).toEqual([30, 0])
    expect(await weights()).toEqual({ 1: 100, 2: 0 })
    await panel.locator("text=Roll back").click()
    await expect.poll(weights).toEqual({ 1: 50, 2: 50 })
    expect(problems).toEqual([])
  })

  it("is followed by the very next job, and by the page within 5 s of its own clock", async () => {
    await point("next", { 1: 1 })
    const { page } = await open(null, { isNew: true })
    await page.addInitScript(tellDelays)
    await page.goto(`${stage.url}/ui/workflows/rolled`)
    const panel = page.locator('[data-alias="next"]')
    await panel.locator("select").selectOption("2")
    await panel.locator('input[aria-label="Share of v2"]').focus()
    await page.keyboard.press("End")
    await panel.locator("button.primary >> text=Move next to v2 alone").click()
    await panel.locator("button.primary").waitFor({ state: "detached" })
    const versionOf = async (id: string) => (await stage.ask(`/jobs/${id}`)).body.workflow_version
    expect(await versionOf((await stage.umbra.submit("rolled@next", {})).id)).toBe(2)
    await panel.locator('[data-since="1"]').waitFor()
    expect(await page.evaluate(() => (window as never as Delays).delays)).toEqual(
      expect.arrayContaining([expect.toSatisfy((delay: number) => delay > 0 && delay < 5000)]),
    )
    // Back again, by another request: nothing of the old weights is kept.
    for (const [version, weights] of [
      [1, { 1: 100 }],
      [2, { 2: 100 }],
    ] as const) {
      await stage.ask("/workflows/rolled/aliases/next", { method: "PUT", body: { weights } })
      expect(await versionOf((await stage.umbra.submit("rolled@next", {})).id)).toBe(version)
    }
  })
})

interface Delays {
  readonly delays: number[]
}

/** In the page: the delays of the timers that made it read again what jobs of a version did. */
function tellDelays(): void {
  const delays: number[] = []
  const { setTimeout: set, fetch: read } = window
  let running: number | null = null
  Object.assign(window, {
    delays,
    setTimeout: (act: () => void, delay = 0, ...rest: unknown[]) =>
      set(
        () => {
          running = delay
          act()
          set(() => {
            running = null
          })
        },
        delay,
        ...rest,
      ),
    fetch: (...given: Parameters<typeof read>) => {
      if (running !== null && String(given[0]).includes("/jobs/durations")) delays.push(running)
      return read(...given)
    },
  })
}

describe("the launch form", () => {
  it("is made from a schema with nested objects, arrays, enums and defaults", async () => {
    const { page, problems } = await open(`${path}?view=launch`)
    const at = (path: string) => page.locator(`[data-path="${path}"]`)
    await at("input.brief").waitFor()
    expect(await at("input.seconds").locator("input").inputValue()).toBe("60")
    expect(await at("input.aspect").locator("option:checked").textContent()).toBe("16:9")
    expect(await at("input.review").locator("input").isChecked()).toBe(true)
    expect(await at("input.voice.speed").locator("input").inputValue()).toBe("1")
    expect(await page.evaluate(() => "hacked" in window)).toBe(false)

    await at("input.brief").locator("textarea").fill("x")
    await at("input.seconds").locator("input").fill("600")
    await page.click("text=Start job")
    await at("input.brief").locator(".prob").waitFor()
    expect(await at("input.seconds").locator(".prob").textContent()).toMatch(/180/)
    expect(await at("input.voice.name").locator(".prob").textContent()).toBe("This value is required.")
    expect(await at("input.seconds").locator("input").getAttribute("aria-invalid")).toBe("true")
    await page.waitForSelector("text=3 fields to fix")

    await at("input.brief").locator("textarea").fill("A diver\nbelow the ice")
    await at("input.seconds").locator("input").fill("90")
    await at("input.aspect").locator("select").selectOption({ label: "1:1" })
    await at("input.review").locator("input").click()
    await page.click("text=Add locales")
    await at("input.locales").locator("text=Add entry").click()
    await at("input.locales[0]").locator("input").fill("en")
    await at("input.locales").locator("text=Add entry").click()
    await at("input.locales[1]").locator("input").fill("nb")
    await at("input.locales").locator("text=Add entry").click()
    await page.click('[aria-label="Remove locales 3"]')
    await at("input.voice.name").locator("input").fill("Ada")
    await page.click("text=Add pauses")
    await at("input.voice.pauses").locator("text=Add entry").click()
    await at("input.voice.pauses[0].at").locator("input").fill("1.5")

    await page.click('.seg >> text="JSON"')
    const text = await page.locator(".ved textarea").inputValue()
    expect(JSON.parse(text)).toEqual({
      ...{ brief: "A diver\nbelow the ice", seconds: 90, aspect: "1:1", review: false },
      ...{ locales: ["en", "nb"], voice: { name: "Ada", speed: 1, pauses: [{ at: 1.5 }] } },
    })
    await page.fill(".ved textarea", "{ not json")
    await page.waitForSelector("text=This is not JSON")
    expect(await page.locator("text=Start job").isDisabled()).toBe(true)
    await page.fill(".ved textarea", text.replace("Ada", "Grace"))
    await page.click('.seg >> text="Form"')
    expect(await at("input.voice.name").locator("input").inputValue()).toBe("Grace")
    // Nothing is sent while a part of it is no value, neither by the button nor by the key.
    const why = at("input.voice.pauses[0].why").locator("textarea")
    await why.fill("{ nope")
    const labels = page.locator('input[placeholder^="team="]')
    await labels.fill("urgent, team=shop")
    const isValid = () =>
      page.locator("form.launch").evaluate((form: HTMLFormElement) => form.checkValidity())
    expect(await isValid()).toBe(false)
    await page.click("text=Start job")
    await why.fill('"a breath"')
    expect(await isValid()).toBe(false)
    await page.keyboard.press("Control+Enter")
    await labels.fill("team=shop, order=4711")
    expect(await isValid()).toBe(true)
    await why.fill("")
    expect((await stage.ask("/jobs?workflow=film")).body.jobs).toEqual([])
    await page.keyboard.press("Control+Enter")
    await page.waitForURL(/\/ui\/jobs\/[0-9a-f-]{36}/)
    const id = new URL(page.url()).pathname.split("/").at(-1)!
    const job = await stage.umbra.wait(id)
    expect(job).toMatchObject({ status: "COMPLETED", labels: { team: "shop", order: "4711" } })
    expect((job.output as { cut: unknown }).cut).toMatchObject({
      seconds: 90,
      voice: { name: "Grace", pauses: [{ at: 1.5 }] },
    })
    expect(problems.filter(text => !text.includes("422"))).toEqual([])
  })
})

describe("the editor", () => {
  it("shows a problem at its line, completes what is typed, and pushes what was mended", async () => {
    const { page, problems } = await open(`${path}?view=edit`)
    const area = page.locator(".carea textarea")
    await page.waitForSelector('[data-verdict="Valid"]')
    await page.waitForSelector('.wside .node[data-id="music"]')
    const text = await area.inputValue()
    expect(text).toContain("name: film")
    await area.fill(text.replace('"{{ script }}"', '"{{ scrpt }}"'))
    await page.waitForSelector('[data-verdict="1 problem"]')
    const line = text.split("\n").findIndex(one => one.includes('"{{ script }}"')) + 1
    expect(await page.locator(".cl.bad .no").textContent()).toBe(String(line))
    expect(await page.locator(".wprobs").textContent()).toMatch(/E1\d\d.*scrpt/)
    await page.waitForSelector('.wside .node[data-id="scenes"][data-mark="broken"]')
    expect(await page.locator("text=Push as v3").isDisabled()).toBe(true)
    // The place of a problem leads there, wherever the text stands.
    await area.evaluate((element: HTMLTextAreaElement) => element.scrollTo(0, 0))
    await page.click(".wprobs button")
    await page.waitForSelector(".carea textarea:focus")
    const caret = await area.evaluate(({ value, selectionStart }: HTMLTextAreaElement) =>
      value.slice(0, selectionStart).split("\n"),
    )
    expect(caret).toHaveLength(line)
    const isSeen = await page.locator(".cl.bad").evaluate(one => {
      const [row, box] = [one.getBoundingClientRect(), one.closest(".carea")!.getBoundingClientRect()]
      return row.top >= box.top && row.bottom <= box.bottom
    })
    expect(isSeen).toBe(true)

    await area.fill(text)
    await page.waitForSelector('[data-verdict="Valid"]')
    await area.evaluate((element: HTMLTextAreaElement) =>
      element.setSelectionRange(element.value.length, element.value.length),
    )
    await area.focus()
    await page.keyboard.type("  - id: last")
    await page.keyboard.press("Enter")
    await page.keyboard.type("han")
    await page.waitForSelector('[role="option"][aria-selected="true"] >> text=handler')
    await page.keyboard.press("Enter")
    await page.keyboard.type("tr")
    await page.waitForSelector('[role="option"][aria-selected="true"] >> text=transform')
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await page.keyboard.type("config:")
    await page.keyboard.press("Enter")
    await page.keyboard.type('value: "{{ cu')
    await page.waitForSelector('[role="option"] >> text=cut')
    await page.keyboard.press("Enter")
    await page.keyboard.type(' }}"')
    expect((await area.inputValue()).slice(text.length)).toBe(
      '  - id: last\n    handler: transform\n    config:\n      value: "{{ cut }}"',
    )
    await page.waitForSelector('.wside .node[data-id="last"]')
    await page.click('fieldset.seg >> text="Diff"')
    await page.waitForSelector(".wside .dl.added >> text=id: last")
    await page.click("text=Push as v3")
    await page.waitForSelector("text=Pushed as v3 of film.")
    expect((await stage.ask("/workflows/film")).body).toMatchObject({ version: 3 })
    await page.waitForSelector("text=from v3")
    expect(problems.filter(one => !one.includes("422"))).toEqual([])
  })
})
