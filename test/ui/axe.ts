/** axe-core in a page: what it finds against WCAG 2.2, levels A and AA. */
import { createRequire } from "node:module"
import type { Page } from "playwright-core"

const axePath = createRequire(import.meta.url).resolve("axe-core/axe.min.js")

interface Violation {
  readonly id: string
  readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[]
}

/** The context of the page must bypass its content security policy. */
export async function violations(page: Page): Promise<string[]> {
  const isLoaded = await page.evaluate(() => "axe" in window)
  if (!isLoaded) await page.addScriptTag({ path: axePath })
  const found = await page.evaluate(async () => {
    const { axe } = window as unknown as {
      axe: { run(options: object): Promise<{ violations: Violation[] }> }
    }
    const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
    // To write a unique selector for each element takes a third of the time, and none is printed.
    const options = { runOnly: { type: "tag", values: tags }, resultTypes: ["violations"], selectors: false }
    return (await axe.run(options)).violations.map(violation => ({
      id: violation.id,
      nodes: violation.nodes.map(({ html, failureSummary }) => ({ html, failureSummary })),
    }))
  })
  return found.flatMap(({ id, nodes }) =>
    nodes.slice(0, 3).map(node => `${id}: ${node.html.slice(0, 200)} ${node.failureSummary}`),
  )
}
