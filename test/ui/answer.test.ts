/** Answers to nodes that wait for a signal: a form from the schema, who answered and when, and the link to the form. */
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { defineHandler } from "../../src/worker/handler.ts"
import { waitForSignal } from "../../src/worker/waiting.ts"
import { violations } from "./axe.ts"
import { openUiStage, type UiStage } from "./ui-stage.ts"

let stage: UiStage
const hostile = `<img src=x onerror="window.hacked=1">`
const expense = {
  name: "expense",
  nodes: [
    { id: "receipt", handler: "transform", config: { value: { amount: 900, note: hostile } } },
    {
      id: "approval",
      handler: "wait_for_signal",
      dependencies: ["receipt"],
      config: {
        signal: "approve",
        timeout_seconds: 86_400,
        schema: {
          title: "Approve the expense",
          type: "object",
          required: ["ok", "why"],
          properties: {
            ok: { type: "boolean", default: false, description: hostile },
            why: { type: "string", minLength: 5, maxLength: 100 },
            budget: { enum: ["travel", "office"], default: "travel" },
          },
        },
      },
    },
  ],
}

beforeAll(async () => {
  const schema = { type: "object", properties: { why: { type: "string", minLength: 5, maxLength: 100 } } }
  const asks = defineHandler({ name: "approval_form", run: () => waitForSignal("approve", { schema }) })
  stage = await openUiStage({ umbra: { handlers: [asks] } })
})
afterAll(() => stage?.close())

const waiting = async () => {
  const job = await stage.start(expense)
  await expect.poll(async () => (await stage.umbra.node(job, "approval")).status).toBe("WAITING")
  return job
}

describe("the form of a signal", () => {
  it("is opened by its link, rejects what does not fit at the field, and says who answered", async () => {
    const job = await waiting()
    const { page, close, problems } = await stage.open("/ui/now")
    onTestFinished(close)
    await page.click(`[data-job="${job}"] >> text=Answer`)
    await page.waitForSelector("h1 >> text=Approve the expense")
    expect(page.url()).toBe(`${stage.url}/ui/jobs/${job}/answer?node=approval`)
    await page.waitForSelector('[aria-label="Output of receipt"] >> text=amount')
    const at = (path: string) => page.locator(`[data-path="${path}"]`)
    await at("data.why").locator("input").fill("no")
    await page.click("text=Send approve")
    expect(await at("data.why").locator(".prob").textContent()).toMatch(/5/)
    expect((await stage.umbra.node(job, "approval")).status).toBe("WAITING")
    await at("data.ok").locator("input").click()
    await at("data.why").locator("input").fill("It was agreed")
    await page.keyboard.press("Enter")
    await page.waitForSelector('[data-answered="local"] >> text=Answered by local at')
    await page.waitForSelector('[aria-label="The answer"] >> text=It was agreed')
    expect((await stage.umbra.node(job, "approval")).output).toEqual({
      ...{ ok: true, why: "It was agreed", budget: "travel" },
    })
    await page.goto(`${stage.url}/ui/jobs/${job}?node=approval`)
    await page.waitForSelector('.drawer [data-answered="local"] >> text=sent by local')
    expect(await page.evaluate(() => "hacked" in window)).toBe(false)
    expect(problems.filter(text => !text.includes("422"))).toEqual([])
  })

  it("is part of the node's panel, which links to it; another person's answer closes it", async () => {
    const job = await waiting()
    const { page, close } = await stage.open(`/ui/jobs/${job}?node=approval`)
    onTestFinished(close)
    await page.waitForSelector('.drawer [data-path="data.why"]')
    await page.click(".drawer >> text=Open this form on its own page")
    await page.waitForSelector('main [data-path="data.why"]')
    await stage.umbra.signal(job, "approve", { ok: true, why: "by another" }, { by: "token ada" })
    await page.waitForSelector('[data-answered="token ada"]')
    expect(await page.locator('[data-path="data.why"]').count()).toBe(0)
  })

  it("is made from the schema of a handler's own wait too", async () => {
    const job = await stage.start({ name: "own", nodes: [{ id: "ask", handler: "approval_form" }] })
    await expect.poll(async () => (await stage.umbra.node(job, "ask")).status).toBe("WAITING")
    const { page, close, problems } = await stage.open(`/ui/jobs/${job}?node=ask`)
    onTestFinished(close)
    const why = page.locator('.drawer [data-path="data.why"]')
    await why.locator("input").fill("no")
    await page.click(".drawer >> text=Send approve")
    expect(await why.locator(".prob").textContent()).toMatch(/5/)
    await why.locator("input").fill("It was agreed")
    await page.click(".drawer >> text=Send approve")
    await expect
      .poll(async () => (await stage.umbra.node(job, "ask")).output)
      .toEqual({ why: "It was agreed" })
    expect(problems.filter(text => !text.includes("422"))).toEqual([])
  })

  it("is part of an item's panel, which links to it; the first item that waits takes the answer", async () => {
    const [receipt, approval] = expense.nodes
    const each = { ...approval!, for_each: "{{ [10, 20, 30] }}" }
    const job = await stage.start({ name: "expenses", nodes: [receipt!, each] })
    const item = (n: number) => stage.umbra.node(job, "approval", { item: n })
    for (const n of [0, 1, 2]) await expect.poll(async () => (await item(n)).status).toBe("WAITING")
    const { schema } = approval!.config as { schema: object }
    expect((await item(1)).waiting_on).toMatchObject({ kind: "signal", name: "approve", schema })
    const { page, close, problems } = await stage.open(`/ui/jobs/${job}?node=approval&tab=Items&item=0`)
    onTestFinished(close)
    await page.waitForSelector(
      '.drawer .idetail >> text="The first item that waits for approve takes the answer."',
    )
    await page.fill('.drawer [data-path="data.why"] input', "the first")
    await page.click(".drawer >> text=Send approve")
    await expect.poll(async () => (await item(0)).output).toMatchObject({ why: "the first" })
    await page.waitForSelector('.drawer .idetail >> text="COMPLETED"')
    expect(await page.locator('.drawer [data-path="data.why"]').count()).toBe(0)
    await page.click(".drawer .ir >> nth=1")
    await page.click(".drawer >> text=Open this form on its own page")
    await page.waitForSelector("main >> text=node approval, item 1")
    expect(page.url()).toBe(`${stage.url}/ui/jobs/${job}/answer?node=approval&item=1`)
    const why = page.locator('main [data-path="data.why"]')
    await why.locator("input").fill("no")
    await page.click("text=Send approve")
    expect(await why.locator(".prob").textContent()).toMatch(/5/)
    await why.locator("input").fill("the second")
    await page.click("text=Send approve")
    await page.waitForSelector('[data-answered="local"] >> text=Answered by local at')
    await page.waitForSelector('[aria-label="The answer"] >> text=the second')
    expect((await item(1)).output).toMatchObject({ why: "the second" })
    expect((await item(2)).status).toBe("WAITING")
    expect(problems.filter(text => !text.includes("422"))).toEqual([])
  })

  it("is not shown for a node without a question, nor for a list as a whole", async () => {
    const [receipt, approval] = expense.nodes
    const each = { ...approval!, for_each: "{{ [10, 20] }}" }
    const job = await stage.start({ name: "some", nodes: [receipt!, each] })
    await expect
      .poll(async () => (await stage.umbra.node(job, "approval", { item: 1 })).status)
      .toBe("WAITING")
    const { page, close } = await stage.open(`/ui/jobs/${job}/answer?node=receipt`)
    onTestFinished(close)
    await page.waitForSelector("text=This node does not wait for a signal")
    expect(await page.locator('[aria-label="The answer"]').count()).toBe(0)
    await page.goto(`${stage.url}/ui/jobs/${job}/answer?node=approval`)
    await page.waitForSelector("text=Its items wait")
    await page.click("text=Choose one of them")
    await page.waitForSelector(".drawer .ir")
  })

  it("has no violation in the light and the dark theme, nor at 390 px", async () => {
    const job = await waiting()
    const { page, close } = await stage.open(`/ui/jobs/${job}/answer?node=approval`)
    onTestFinished(close)
    await page.waitForSelector('[data-path="data.why"]')
    await page.waitForSelector('[aria-label="Output of receipt"]')
    expect(await violations(page)).toEqual([])
    await page.setViewportSize({ width: 390, height: 844 })
    expect(await violations(page), "390 px").toEqual([])
    expect(await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)).toBe(0)
  })
})
