/** The page of a fork: what the preview of the server says is what is shown, and what the fork does afterwards. */
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { button, type ForkStage, kinds, type Listed, openForkStage, preview, text } from "./fork-samples.ts"

let opened: ForkStage
let stage: ForkStage["stage"]
let failed: string
beforeAll(async () => {
  opened = await openForkStage()
  ;({ stage, failed } = opened)
})
afterAll(() => stage?.close())

describe("the preview", () => {
  it("is shown in the graph, with the reason of every node, and no data where there is none", async () => {
    const { page, close, problems } = await stage.open(`/ui/jobs/${failed}`)
    onTestFinished(close)
    await page.waitForSelector(".node")
    await page.keyboard.press("f")
    await page.waitForSelector("[data-fork]")
    expect(new URL(page.url()).pathname).toBe(`/ui/jobs/${failed}/fork`)
    const api = await preview(opened)
    expect(await kinds(page)).toEqual({
      ...{ load: "reused", price: "reused", never: "skipped", each: "reused", pay: "reused" },
      ...{ check: "run", inform: "run", note: "run" },
    })
    expect(await text(page, ".flegend")).toBe("reused 4will run 3skipped again 1")
    for (const { node, because } of api.will_run as Listed[])
      expect(await text(page, `[data-runs="${node}"]`)).toContain(because)
    await page.click(".fbody summary")
    for (const { node, because } of api.reused as Listed[])
      expect(await text(page, `[data-stays="${node}"]`)).toContain(because)
    // Nothing was rolled up yet, so nothing is known: never 0.
    expect(await text(page, '[data-runs="check"]')).toContain("no data")
    expect(await text(page, ".ftbl tfoot")).toBe("In allno datano data")
    expect(await text(page, ".fbody")).toContain("check, inform")
    expect(await page.title()).toBe("Fork order · Umbra")
    expect(problems).toEqual([])
  })

  it("shows what runs of its nodes usually take and use", async () => {
    const { page, close } = await stage.open(null)
    onTestFinished(close)
    await page.route(/\/fork$/, async route => {
      if (route.request().method() !== "POST") return route.continue()
      const answer = await route.fetch()
      const body = await answer.json()
      for (const node of body.will_run)
        Object.assign(node, {
          duration_ms: { p50: 38_000, p90: 74_000 },
          usage: { cost_usd: { mean: 0.21, p50: 0.2, p90: 0.31 } },
        })
      body.expected = {
        ...body.expected,
        ...{
          duration_ms: { p50: 76_000, p90: 148_000 },
          usage: { cost_usd: { mean: 0.63, p50: null, p90: null } },
          without_data: [],
        },
      }
      return route.fulfill({ response: answer, json: body })
    })
    await page.goto(`${stage.url}/ui/jobs/${failed}/fork`)
    await page.waitForSelector("[data-runs]")
    expect(await text(page, '[data-runs="check"]')).toContain("38 s – 1 min 14 scost_usd $0.200 – $0.310")
    expect(await text(page, ".ftbl tfoot")).toBe("In all1 min 16 s – 2 min 28 scost_usd mean $0.630")
    expect(await text(page, '[data-id="check"]')).toContain("about 38 s")
  })

  it("follows the nodes that run again, chosen by click and by key; the address has them", async () => {
    const { page, close } = await stage.open(`/ui/jobs/${failed}/fork`)
    onTestFinished(close)
    await page.waitForSelector("[data-fork]")
    await page.click('[data-id="pay"]')
    await page.waitForSelector('[aria-label="Node pay"]')
    expect(await text(page, "[data-because]")).toBe("Nothing it depends on has changed.")
    await page.keyboard.press("f")
    await page.waitForSelector('[data-id="pay"][data-fork="run"]')
    expect(new URL(page.url()).searchParams.getAll("from")).toEqual(["pay"])
    await page.waitForFunction(() =>
      document.querySelector("[data-because]")?.textContent?.includes("The request runs it again."),
    )
    await page.reload()
    await page.waitForSelector('[data-id="pay"][data-fork="run"]')
    await page.click('[aria-label="Undo: pay runs again"]')
    await page.waitForSelector('[data-id="pay"][data-fork="reused"]')
    await page.goBack()
    await page.waitForSelector('[data-id="pay"][data-fork="run"]')
    // The focus follows the arrows; Esc closes the node, then the page.
    await page.click('[data-id="pay"]')
    await page.keyboard.press("ArrowRight")
    await page.waitForSelector('[aria-label="Node check"]')
    await page.waitForSelector('[data-id="check"]:focus')
    await page.keyboard.press("Escape")
    await page.waitForSelector(".fnode", { state: "detached" })
    await page.keyboard.press("Escape")
    await page.waitForURL(new RegExp(`/ui/jobs/${failed}$`))
  })

  it("takes another output, config, items and input, and keeps results although the input changed", async () => {
    const { page, close } = await stage.open(`/ui/jobs/${failed}/fork?node=price`)
    onTestFinished(close)
    await page.waitForSelector("[data-fork]")
    await page.click("text=Set output")
    await page.waitForSelector(".fnode textarea")
    expect(await page.inputValue(".fnode textarea")).toBe("3")
    await page.fill(".fnode textarea", "{ 4")
    await page.waitForSelector('.fnode .prob:has-text("This is not JSON")')
    await page.fill(".fnode textarea", "4")
    await page.waitForSelector('[data-id="price"][data-fork="pinned"]')
    await page.waitForSelector('[data-id="pay"][data-fork="run"]')
    await page.click('[aria-label="Undo: price output set"]')
    await page.waitForSelector('[data-id="price"][data-fork="reused"]')

    await page.click('[data-id="each"]')
    await page.click("text=Choose items")
    await page.fill(".fnode input", "1, x")
    await page.waitForSelector('.fnode [role="alert"]:has-text("“x” is not an index")')
    await page.fill(".fnode input", "1, 3-3")
    await page.waitForSelector('[data-id="each"]:has-text("2 of 4 items")')
    await page.click("text=Change config")
    await page.waitForSelector(".fnode textarea")
    expect(JSON.parse(await page.inputValue(".fnode textarea"))).toEqual({ n: "{{ item }}" })
    await page.fill(".fnode textarea", '{ "n": 1 }')
    expect(await page.locator(".fdiff li").allTextContents()).toEqual(['−   "n": "{{ item }}"', '+   "n": 1'])
    await page.waitForSelector('[data-id="each"][data-fork="changed"]')
    await page.click('[aria-label="Undo: each config changed"]')

    await page.click("text=Change the input")
    // A form, made from the schema of the version; what the server says is at its field.
    const price = page.getByLabel("price", { exact: true })
    expect(await price.inputValue()).toBe("3")
    await price.fill("900")
    await page.waitForSelector('[data-path="input.price"] .prob')
    expect(await page.locator(button).isDisabled()).toBe(true)
    await price.fill("9")
    await page.waitForSelector('[data-id="price"][data-fork="run"]')
    await page.click('[data-id="each"]')
    await page.waitForFunction(() =>
      document.querySelector("[data-because]")?.textContent?.includes("its handler may read it"),
    )
    await page.click("text=Keep its result")
    await page.waitForSelector('[data-id="each"][data-fork="reused"]')
  })

  it("keeps what was set while another node is selected, and drops what is undone", async () => {
    const { page, close } = await stage.open(`/ui/jobs/${failed}/fork?node=price`)
    onTestFinished(close)
    await page.waitForSelector("[data-fork]")
    await page.click("text=Set output")
    await page.fill(".fnode textarea", "4")
    await page.waitForSelector('[data-id="price"][data-fork="pinned"]')
    await page.click('[data-id="each"]')
    await page.click("text=Change config")
    await page.fill(".fnode textarea", '{ "n": 7 }')
    await page.waitForSelector('[data-id="each"][data-fork="changed"]')
    await page.click('[data-id="price"]')
    await page.waitForSelector('[aria-label="Node price"] textarea')
    expect(await page.inputValue(".fnode textarea")).toBe("4")
    await page.click('[data-id="each"]')
    await page.waitForSelector('[aria-label="Node each"] textarea')
    expect(JSON.parse(await page.inputValue(".fnode textarea"))).toEqual({ n: 7 })
    await page.click('[aria-label="Undo: each config changed"]')
    await page.waitForSelector('[data-id="each"][data-fork="run"], [data-id="each"][data-fork="reused"]')
    expect(await page.locator(".fnode textarea").count()).toBe(0)
    // Another version: the changed input stays, in the field too.
    await page.click("text=Change the input")
    await page.getByLabel("price", { exact: true }).fill("9")
    await page.waitForSelector("text=Undo the change")
    await page.selectOption("select", "2")
    await page.waitForSelector('[data-id="extra"]')
    await expect.poll(() => page.getByLabel("price", { exact: true }).inputValue()).toBe("9")
  })

  it("waits for a text that is no value, and for one that is being typed", async () => {
    const { page, close } = await stage.open(`/ui/jobs/${failed}/fork?node=price`, { isNew: true })
    onTestFinished(close)
    await page.waitForSelector("[data-fork]")
    await page.clock.install()
    for (const box of await page.locator(".feffects input").all()) await box.check()
    await page.click("text=Set output")
    await page.fill(".fnode textarea", "4")
    // Nothing is sent with the value before.
    expect(await page.locator(button).isDisabled()).toBe(true)
    await page.clock.resume()
    await page.waitForSelector('[data-id="price"][data-fork="pinned"]')
    for (const box of await page.locator(".feffects input").all()) await box.check()
    await page.waitForFunction(
      selector => !document.querySelector<HTMLButtonElement>(selector)!.disabled,
      button,
    )
    await page.fill(".fnode textarea", "{ 4")
    await page.waitForSelector('.fnode .prob:has-text("This is not JSON")')
    expect(await page.locator(button).isDisabled()).toBe(true)
    await page.click('[data-id="each"]')
    // A text that was left is not kept.
    await page.waitForFunction(
      selector => !document.querySelector<HTMLButtonElement>(selector)!.disabled,
      button,
    )
  })

  it("names the job in one line, however long its error is", async () => {
    const { page, close } = await stage.open(null, { viewport: { width: 1280, height: 800 } })
    onTestFinished(close)
    await page.route(/\/jobs\/[0-9a-f-]+$/, async one => {
      if (one.request().resourceType() === "document") return one.fallback()
      const answer = await one.fetch()
      const job = await answer.json()
      return one.fulfill({
        json: { ...job, error: { ...job.error, message: "it did not answer ".repeat(20) } },
      })
    })
    await page.goto(`${stage.url}/ui/jobs/${failed}/fork`)
    await page.waitForSelector("[data-fork]")
    await page.waitForSelector('.fhead .mid:has-text("it did not answer")')
    const [title, lines] = await page.evaluate(() => {
      const heading = document.querySelector<HTMLElement>(".fhead h1")!
      return [
        heading.scrollWidth - heading.clientWidth,
        document.querySelector(".fhead > .mono")!.getClientRects().length,
      ]
    })
    expect(title).toBe(0)
    expect(lines).toBe(1)
  })

  it("is that of another version: changed, new and removed nodes", async () => {
    const { page, close } = await stage.open(`/ui/jobs/${failed}/fork`)
    onTestFinished(close)
    await page.waitForSelector("[data-fork]")
    await page.selectOption("select", "2")
    await page.waitForSelector('[data-id="extra"][data-fork="changed"]')
    expect(await kinds(page)).toMatchObject({ load: "changed", each: "run", price: "reused" })
    expect(await page.locator('[data-id="note"]').count()).toBe(0)
    expect(await text(page, ".fbody")).toContain("Not in this version: note.")
    expect(new URL(page.url()).searchParams.get("version")).toBe("2")
  })

  it("sets the output of a node with a declared answer in a form", async () => {
    const schema = {
      type: "object",
      required: ["verdict"],
      properties: { verdict: { enum: ["yes", "no"] }, note: { type: "string" } },
    }
    const asked = await stage.start({
      name: "asked",
      nodes: [
        { id: "ask", handler: "wait_for_signal", config: { signal: "answer", schema } },
        { id: "after", handler: "transform", dependencies: ["ask"], config: { value: "{{ ask.verdict }}" } },
      ],
    })
    await stage.umbra.signal(asked, "answer", { verdict: "yes" })
    await stage.umbra.wait(asked)
    const { page, close } = await stage.open(`/ui/jobs/${asked}/fork?node=ask`)
    onTestFinished(close)
    await page.waitForSelector("[data-fork]")
    await page.click("text=Set output")
    const verdict = page.getByLabel("verdict")
    expect(await verdict.evaluate((field: HTMLSelectElement) => field.selectedOptions[0]!.text)).toBe("yes")
    await verdict.selectOption({ label: "no" })
    await page.waitForSelector('[data-id="ask"][data-fork="pinned"]')
    await page.waitForSelector('[data-id="after"][data-fork="run"]')
    await page.click(button)
    await page.waitForURL(url => url.pathname.startsWith("/ui/jobs/") && !url.pathname.includes(asked))
    const fork = new URL(page.url()).pathname.split("/").at(-1)!
    expect(await stage.umbra.wait(fork)).toMatchObject({ output: { after: "no" } })
  })

  it("runs a definition that is changed for it alone, and not one with problems", async () => {
    const origin = await stage.start({
      name: "small",
      nodes: [
        { id: "one", handler: "transform", config: { value: 1 } },
        { id: "two", handler: "transform", dependencies: ["one"], config: { value: "{{ one }}" } },
      ],
    })
    await stage.umbra.wait(origin)
    const { page, context, close, problems } = await stage.open(`/ui/jobs/${origin}/fork`)
    onTestFinished(close)
    await context.grantPermissions(["clipboard-read", "clipboard-write"])
    await page.waitForSelector("[data-fork]")
    await page.click('.fhead >> text="Definition"')
    const area = page.locator(".fedit textarea")
    const before = await area.inputValue()
    expect(before).toContain("{{ one }}")
    await area.fill(before.replace("handler: transform", "handler: nothing"))
    await page.waitForSelector('.wprobs:has-text("E103")')
    expect(await page.locator(button).isDisabled()).toBe(true)
    await area.fill(
      `${before}  - id: three\n    handler: transform\n    dependencies: [two]\n    config: { value: new }\n`,
    )
    await page.waitForSelector('[data-verdict="Valid"]')
    await page.waitForSelector('[data-runs="three"]')
    await page.click('.fhead >> text="Graph"')
    await page.waitForSelector('[data-id="three"][data-fork="changed"]')
    expect(await kinds(page)).toEqual({ one: "reused", two: "reused", three: "changed" })
    // Nodes of the changed definition can be changed too.
    await page.click('[data-id="three"]')
    await page.click("text=Change config")
    expect(JSON.parse(await page.inputValue(".fnode textarea"))).toEqual({ value: "new" })
    await page.fill(".fnode textarea", '{ "value": "newer" }')
    await page.waitForSelector('[aria-label="Undo: three config changed"]')
    await page.click("text=Copy as command")
    const command = await page.evaluate(() => navigator.clipboard.readText())
    expect(command).toContain(
      `umbra fork ${origin} --definition - --node-config 'three={"value":"newer"}' <<'END'\n{`,
    )
    await page.click(button)
    await page.waitForURL(url => url.pathname.startsWith("/ui/jobs/") && !url.pathname.includes(origin))
    const fork = new URL(page.url()).pathname.split("/").at(-1)!
    expect(await stage.umbra.wait(fork)).toMatchObject({ status: "COMPLETED", output: { three: "newer" } })
    expect((await stage.ask(`/jobs/${fork}`)).body).toMatchObject({ workflow_version: null })
    expect((await stage.ask("/workflows/small")).body.version).toBe(1)

    // The definition of that fork is no version; it is the beginning of the next one, and can be left as it was.
    await page.goto(`${stage.url}/ui/jobs/${fork}/fork?node=three`)
    await page.waitForSelector("[data-fork]")
    await page.click("text=Change config")
    expect(JSON.parse(await page.inputValue(".fnode textarea"))).toEqual({ value: "newer" })
    await page.click('.fhead >> text="Definition"')
    expect(await area.inputValue()).toContain("newer")
    await area.fill((await area.inputValue()).replace("newer", "newest"))
    await page.waitForSelector('[data-runs="three"]')
    await page.click('[aria-label^="Undo: The definition"]')
    expect(await area.inputValue()).toContain("newer")
    await page.waitForSelector('[data-runs="three"]', { state: "detached" })
    expect(problems.filter(text => !text.includes("422"))).toEqual([])
  })

  it("is not shown as one if it cannot be read", async () => {
    const { page, close } = await stage.open(`/ui/jobs/${failed}/fork?from=nothing`)
    onTestFinished(close)
    await page.waitForSelector('.fgraph [data-state="failed"] >> text=E309')
    expect(await page.locator(button).isDisabled()).toBe(true)
    expect(await page.locator("[data-runs]").count()).toBe(0)
    await page.goto(`${stage.url}/ui/jobs/01a1df1d-7c42-7000-8000-000000000000/fork`)
    await page.waitForSelector('[data-state="empty"] >> text=not found')
  })
})
